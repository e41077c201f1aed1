"""What mixes tokens is known by what it does, and taken only where it can stand alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from archon_probe.measure.gates import observe_gate
from archon_probe.measure.hooks import Call
from archon_probe.measure.mixer import mixes_tokens, observe_mixer
from archon_probe.measure.model import observe
from archon_probe.measure.random_weights import random_model
from archon_probe.measure.roles import UnknownStructureError
from archon_probe.measure.tiny import tiny_config
from torch import Tensor, nn
from transformers import CONFIG_MAPPING

from tests.unit.experimental.archon.moe.hf_layers import DIM as EXPERT_DIM
from tests.unit.experimental.archon.moe.hf_layers import LAYERS

DIM = 4


class Mixer(nn.Module):
    """Adds what came before each token."""

    def __init__(self, config: Any, layer_idx: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, hidden_states: Tensor, cache: Any = None) -> Tensor:
        return self.weight * hidden_states.cumsum(dim=1)


class Later(Mixer):
    """Sees the tokens behind each one."""

    def forward(self, hidden_states: Tensor, cache: Any = None) -> Tensor:
        return hidden_states.flip(1).cumsum(dim=1).flip(1)


class Shared(Mixer):
    """Is built from more than a layer knows."""

    def __init__(self, config: Any, embedding: nn.Module) -> None:
        super().__init__(config, 0)


def called(module: nn.Module, dim: int = DIM) -> Call:
    x = torch.randn(1, 7, dim)
    y = module(x)
    y = y[0] if isinstance(y, tuple) else y
    return Call("layers.0.mixer", module, {"hidden_states": x}, [y.detach()], 1, 1)


def test_a_module_is_a_mixer_if_tokens_reach_later_ones() -> None:
    assert mixes_tokens(called(Mixer(None, 0)))
    assert not mixes_tokens(called(nn.Linear(DIM, DIM)))
    assert not mixes_tokens(called(nn.LayerNorm(DIM)))


@pytest.mark.parametrize("kind", LAYERS)
def test_experts_are_no_mixer(kind: str) -> None:
    """A token that goes elsewhere leaves its experts smaller groups, which rounds otherwise."""
    for seed in range(5):
        torch.manual_seed(seed)
        assert not mixes_tokens(called(LAYERS[kind].build(), EXPERT_DIM))


def test_a_mixer_is_its_class_and_its_parameters() -> None:
    found = observe_mixer(called(Mixer(None, 3)), None)
    kind = f"{Mixer.__module__}:Mixer"
    assert found.features == {"class": kind, "by_layer": True, "buffers": [], "unread": []}
    assert list(found.tensors) == ["inner.weight"]


class Asking(Mixer):
    """Asks for what layers hand to attention, and keeps a table in checkpoints."""

    def __init__(self, config: Any, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.register_buffer("decay", torch.ones(DIM))

    def forward(
        self, hidden_states: Tensor, position_embeddings: Any, attention_mask: Any, **rest: Any
    ) -> Tensor:
        return self.decay * super().forward(hidden_states)


class Turning(Asking):
    """Reads what it asks for."""

    def forward(self, hidden_states: Tensor, position_embeddings: Any) -> Tensor:
        return super().forward(hidden_states, None, None) * position_embeddings[0]


def test_a_mixer_may_ask_for_what_it_does_not_read() -> None:
    """MiniMax's lightning attention gets rotations that only its other layers use."""
    module = Asking(None, 0)
    x = torch.randn(1, 7, DIM)
    y = module(x, torch.ones(2), None).detach()
    call = Call("layers.0.mixer", module, {"hidden_states": x}, [y], 1, 1)
    assert mixes_tokens(call)
    found = observe_mixer(call, None)
    assert found.features["unread"] == ["position_embeddings", "attention_mask"]
    assert list(found.tensors) == ["inner.weight", "inner.decay"]

    reading = Turning(None, 0)
    y = reading(x, torch.ones(2)).detach()
    call = Call("layers.0.mixer", reading, {"hidden_states": x}, [y], 1, 1)
    with pytest.raises(UnknownStructureError, match="reads more than the stream"):
        observe_mixer(call, None)


def factors_of(config: Any) -> Tensor:
    return torch.arange(DIM) * config


@pytest.mark.parametrize(("given", "is_known"), [(1.5, True), (2.5, False)])
def test_what_a_model_gives_a_mixer_is_a_function_of_its_configuration(
    given: float, is_known: bool
) -> None:
    """Falcon-H1 sets a table of factors on each mixer, which its class does not build."""
    module = Mixer(None, 0)
    module.register_buffer("factors", factors_of(given), persistent=False)
    if is_known:
        found = observe_mixer(called(module), 1.5)
        assert found.features["buffers"] == [["factors", f"{__name__}:factors_of"]]
    else:
        with pytest.raises(UnknownStructureError, match="whose factors its model sets"):
            observe_mixer(called(module), 1.5)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Later(None, 0), "whose tokens see later ones"),
        (Shared(None, nn.Identity()), "built from config, embedding"),
    ],
)
def test_what_cannot_stand_alone_is_refused(module: nn.Module, why: str) -> None:
    with pytest.raises(UnknownStructureError, match=why):
        observe_mixer(called(module), None)


def test_a_module_that_reads_more_than_the_stream_is_refused() -> None:
    call = called(Mixer(None, 0))
    call.outputs[0] = call.outputs[0] + 1.0  # as another input would have it
    with pytest.raises(UnknownStructureError, match="reads more than the stream"):
        observe_mixer(call, None)


def test_a_gate_may_be_half_of_a_projection() -> None:
    """Qwen3-Next's queries and their gates are interleaved by head in one linear map."""
    heads, size, length = 2, 3, 11
    x = torch.randn(1, length, DIM)
    both = nn.Linear(DIM, heads * 2 * size, bias=False)
    y = both(x)
    gate = y.view(length, heads, 2 * size)[:, :, size:].reshape(length, -1)
    output = torch.randn(heads, length, size)
    given = output.transpose(0, 1).reshape(length, -1) * torch.sigmoid(gate)
    linear = Call("a.q", both, {"0": x}, [y.detach()], 2, 1)
    call = Call("a", nn.Module(), {"hidden_states": x}, [x], 1, 2)

    found = observe_gate(call, output, given.detach(), [linear])

    assert found is not None
    feature, tensors = found
    assert (feature["fn"], feature["per"], feature["bias"]) == ("sigmoid", "dim", False)
    wanted = both.weight.detach().view(heads, 2 * size, DIM)[:, size:].reshape(-1, DIM)
    assert torch.equal(tensors["gate.weight"], wanted)


def test_layers_of_a_hybrid_are_attention_or_a_mixer() -> None:
    kinds = ["conv", "full_attention"] * 2
    config = CONFIG_MAPPING["lfm2"](num_hidden_layers=4, layer_types=kinds)
    found = observe(random_model(tiny_config(config), 0))
    kinds = [
        {name: module["kind"] for name, module in each["modules"].items()} for each in found.layers
    ]
    assert [sorted({"attention", "mixer"} & set(each.values())) for each in kinds] == [
        ["mixer"],
        ["attention"],
        ["mixer"],
        ["attention"],
    ]
    (classes,) = {
        each["modules"]["mixer"]["class"] for each in found.layers if "mixer" in each["modules"]
    }
    assert classes == "transformers.models.lfm2.modeling_lfm2:Lfm2ShortConv"
