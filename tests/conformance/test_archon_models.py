"""Does every registered Archon model compute what transformers does, in the form of its kind?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from archon_probe.measure.tiny import tiny_config
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from areal.experimental.models.archon import ARCHON_MODELS, get_model_spec
from areal.experimental.models.archon.model_spec import ModelSpec
from tests.conformance.registries import check_docstring, check_table

PACKAGE = "areal.experimental.models.archon"
FILES = {
    *("__init__.py", "spec.py", "infra/__init__.py", "infra/parallelize.py", "model/__init__.py"),
    *("model/args.py", "model/model.py", "model/state_dict_adapter.py"),
}
LENGTHS = (7, 12, 3)


class Pair(NamedTuple):
    """A model of transformers, the Archon model with its weights, and these as on the Hub."""

    spec: ModelSpec
    theirs: nn.Module
    ours: nn.Module
    weights: dict[str, Tensor]


@pytest.fixture(scope="module", params=ARCHON_MODELS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp(request.param)
    config = tiny_config(request.param)
    config._attn_implementation = "eager"
    theirs = AutoModelForCausalLM.from_config(config).eval()
    theirs.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    spec = get_model_spec(request.param)
    args = spec.model_args_class.from_hf_config(config)
    ours = spec.model_class(args).eval()
    ours.init_buffers("cpu")
    ours.load_state_dict(spec.state_dict_adapter_class(config).from_hf(weights))
    return Pair(spec, theirs, ours, weights)


def logits_of(pair: Pair) -> tuple[Tensor, Tensor]:
    """Return the logits of a packed batch by both models."""
    tokens = torch.randint(3, pair.theirs.config.vocab_size, (1, sum(LENGTHS)))
    positions = torch.cat([torch.arange(length) for length in LENGTHS]).unsqueeze(0)
    cu_seqlens = torch.tensor([0, *LENGTHS]).cumsum(0).int()
    ours = pair.ours(tokens, positions, cu_seqlens, max(LENGTHS))
    # Row by row: transformers' own packing is wrong for some families.
    theirs = [pair.theirs(row).logits for row in tokens.split(LENGTHS, dim=1)]
    return ours, torch.cat(theirs, dim=1)


def test_the_table_is_one_sorted_literal() -> None:
    check_table(PACKAGE, "ARCHON_MODELS")


@pytest.mark.parametrize("model_type", ARCHON_MODELS)
def test_a_model_is_a_folder_of_its_own(model_type: str) -> None:
    folder = model_type.replace("-", "_")
    assert ARCHON_MODELS[model_type] == f"{PACKAGE}.{folder}.spec:{folder.upper()}_SPEC"
    spec = get_model_spec(model_type)
    assert spec.name == folder
    assert model_type in spec.supported_model_types
    parts = (spec.model_class, spec.model_args_class, spec.state_dict_adapter_class)
    for part in (*parts, spec.parallelize_fn):
        assert part.__module__.startswith(f"{PACKAGE}.{folder}.")
        check_docstring(part)
    root = Path(sys.modules[f"{PACKAGE}.{folder}"].__path__[0])
    found = {path.relative_to(root).as_posix() for path in root.rglob("*.py")}
    assert FILES <= found <= FILES | {"model/rope.py"}


def test_logits_are_those_of_transformers(pair: Pair) -> None:
    ours, theirs = logits_of(pair)
    assert (ours - theirs).abs().max() < 1e-5 * theirs.std()


def test_gradients_are_those_of_transformers(pair: Pair) -> None:
    for logits in logits_of(pair):
        logits.logsumexp(-1).square().mean().backward()
    ours = pair.ours.tok_embeddings.weight.grad
    theirs = pair.theirs.get_input_embeddings().weight.grad
    # Both sum over the batch, in another order, so single numbers may cancel.
    assert (ours - theirs).abs().max() < 1e-4 * theirs.abs().max()


def test_weights_come_back_bit_by_bit(pair: Pair) -> None:
    adapter = pair.spec.state_dict_adapter_class(pair.theirs.config)
    back = adapter.to_hf(pair.ours.state_dict())
    # Nothing computes with some tensors of a checkpoint; they come back as zeros.
    assert back.keys() == pair.weights.keys()
    used = back.keys() - adapter.unused_names
    assert all(torch.equal(back[name], pair.weights[name]) for name in used)
