"""Experts one by one, and together."""

from __future__ import annotations

import pytest
import torch

from areal.api.errors import ConfigError
from areal.experimental.models.archon.moe_weight_converter import (
    MoEConversionState,
    MoEWeightConverter,
)


def test_experts_come_back_as_they_were() -> None:
    converter, state = MoEWeightConverter(3), MoEConversionState()
    whole = torch.randn(3, 4, 2)
    parts = list(converter.split("layers.5.moe.experts.w2", whole))
    found = [converter.add(name, matrix, state) for name, matrix in reversed(parts)]

    assert parts[1][0] == "model.layers.5.mlp.experts.1.down_proj.weight"
    assert found[:2] == [None, None]
    assert found[2] is not None
    assert found[2][0] == "layers.5.moe.experts.w2"
    assert torch.equal(found[2][1], whole)
    state.require_complete()


def test_missing_experts_are_named() -> None:
    converter, state = MoEWeightConverter(2), MoEConversionState()
    converter.add("model.layers.0.mlp.experts.1.up_proj.weight", torch.zeros(1, 1), state)

    with pytest.raises(ConfigError, match=r"layers.0.moe.experts.w3': \[1\]"):
        state.require_complete()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.layers.0.mlp.gate.weight", "is not an expert's matrix"),
        ("model.layers.0.mlp.experts.0.bias_proj.weight", "is not an expert's matrix"),
        ("model.layers.0.mlp.experts.2.up_proj.weight", "there are 2 experts"),
        ("model.layers.0.mlp.experts.1.up_proj.weight", "each comes once"),
    ],
)
def test_what_does_not_belong_is_refused(name: str, message: str) -> None:
    converter, state = MoEWeightConverter(2), MoEConversionState()
    converter.add("model.layers.0.mlp.experts.1.up_proj.weight", torch.zeros(1, 1), state)

    with pytest.raises(ConfigError, match=message):
        converter.add(name, torch.zeros(1, 1), state)


def test_a_tensor_of_no_experts_is_refused() -> None:
    with pytest.raises(ConfigError, match="known: w1, w2, w3"):
        list(MoEWeightConverter(2).split("layers.0.moe.router.gate.weight", torch.zeros(2, 1)))
