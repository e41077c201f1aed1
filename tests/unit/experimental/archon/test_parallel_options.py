"""Options of context parallelism, checkpointing and sharding, on one process."""

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper

from areal.api.errors import ConfigError
from areal.experimental.models.archon.activation_checkpoint import (
    ActivationCheckpointConfig,
    apply_ac,
    default_save_list,
)
from areal.experimental.models.archon.parallel.fsdp import _reshards
from areal.experimental.models.archon.ulysses import own_heads, ulysses_slice_inputs


class Group:
    """Is what functions ask of a process group."""

    def __init__(self, rank, size):
        self.rank, self.size = lambda: rank, lambda: size


def test_what_is_per_token_is_sliced_and_the_rest_is_kept():
    tokens, labels = torch.arange(8).unsqueeze(0), torch.arange(8, 16).unsqueeze(0)
    cu_seqlens = torch.tensor([0, 3, 8])
    inputs = {"input_ids": tokens, "position_ids": tokens, "cu_seqlens": cu_seqlens}
    sliced, own = ulysses_slice_inputs(inputs, labels, 1, 4)
    assert sliced["input_ids"].tolist() == sliced["position_ids"].tolist() == [[2, 3]]
    assert own.tolist() == [[10, 11]]
    assert sliced["cu_seqlens"] is cu_seqlens
    assert inputs["input_ids"] is tokens


def test_a_row_that_does_not_divide_is_refused():
    tokens = torch.arange(7).unsqueeze(0)
    with pytest.raises(ConfigError, match="input_ids has 7 tokens, which do not divide over 2"):
        ulysses_slice_inputs({"input_ids": tokens}, tokens, 0, 2)


def test_values_per_head_follow_the_heads():
    assert own_heads(torch.arange(8), Group(1, 4)).tolist() == [2, 3]
    assert own_heads(None, Group(1, 4)) is None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        layers = {str(i): nn.Sequential(*(nn.Linear(4, 4) for _ in range(4))) for i in range(4)}
        self.layers = nn.ModuleDict(layers)

    def forward(self, x):
        for layer in self.layers.values():
            x = layer(x).tanh()
        return x.sum()


def wrapped(model):
    return [name for name, layer in model.layers.items() if isinstance(layer, CheckpointWrapper)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"mode": "none"}, []),
        ({"mode": "full"}, ["0", "1", "2", "3"]),
        ({"mode": "selective"}, ["0", "1", "2", "3"]),
        ({"mode": "selective", "selective_ac_option": "2"}, ["1", "3"]),
    ],
)
def test_a_mode_wraps_its_blocks_and_changes_no_gradient(options, expected):
    torch.manual_seed(0)
    model, x = Model(), torch.randn(3, 4)
    model(x).backward()
    before = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    apply_ac(model, ActivationCheckpointConfig(**options))
    assert wrapped(model) == expected
    model(x).backward()
    assert all(map(torch.equal, before, [p.grad for p in model.parameters()]))


def test_selective_keeps_every_second_product_and_computes_the_others_again():
    calls = []

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(func)
            return func(*args, **(kwargs or {}))

    def products(mode):
        model = Model()
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.bias = None
        apply_ac(model, ActivationCheckpointConfig(mode=mode))
        loss = model(torch.randn(3, 4))
        calls.clear()
        with Count():
            loss.backward()
        return calls.count(torch.ops.aten.mm.default)

    # Of the 4 products of each of 4 blocks, nothing needs the last one's result again.
    none, selective, full = map(products, ("none", "selective", "full"))
    assert selective - none == 4
    assert full - none == 12


def test_operators_are_selected_by_default():
    model = Model()
    apply_ac(model, ActivationCheckpointConfig())
    assert ActivationCheckpointConfig().mode == "selective"
    assert wrapped(model) == ["0", "1", "2", "3"]


def test_unknown_options_are_refused():
    with pytest.raises(ConfigError, match="unknown mode 'some'; known: none, full"):
        ActivationCheckpointConfig(mode="some")
    with pytest.raises(ConfigError, match="'op' or a positive number, found '0'"):
        ActivationCheckpointConfig(mode="selective", selective_ac_option="0")
    with pytest.raises(ConfigError, match=r"must lie in \[0, 1\], found 2"):
        ActivationCheckpointConfig(memory_budget=2)
    with pytest.raises(ConfigError, match="enable_compile"):
        apply_ac(Model(), ActivationCheckpointConfig(mode="memory_budget"))
    with pytest.raises(ConfigError, match="unknown reshard_after_forward_policy 'often'"):
        _reshards("often", False)


def test_pipelines_keep_what_they_gathered():
    assert _reshards("default", False)
    assert not _reshards("default", True)
    assert _reshards("always", True)
    assert not _reshards("never", False)


def test_the_save_list_names_operators_that_this_build_has():
    assert torch.ops.aten.mm.default in default_save_list()
