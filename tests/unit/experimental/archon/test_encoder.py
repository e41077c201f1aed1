"""What an encoder takes of the states of a sequence, and what its arguments refuse."""

from types import SimpleNamespace

import pytest
import torch

from areal.api.errors import ConfigError
from areal.experimental.models.archon.base import BaseModelArgs
from areal.experimental.models.archon.encoder import pool
from areal.experimental.models.archon.layers.packing import Packing

LENGTHS = (3, 0, 4, 1, 0)
TOTAL = sum(LENGTHS)


def packing():
    ends = torch.tensor([0, *LENGTHS]).cumsum(0)
    positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]
    return Packing.of(positions, ends, max(LENGTHS))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_states_are_pooled_inside_each_sequence(pooling):
    torch.manual_seed(0)
    h = torch.randn(1, TOTAL, 5)
    found = pool(h, packing(), pooling)
    assert found.shape == (len(LENGTHS), 5)
    for row, part in zip(found, h[0].split(LENGTHS), strict=True):
        if len(part):
            wanted = part[0] if pooling == "cls" else part.mean(0)
            torch.testing.assert_close(row, wanted)
    assert found.isfinite().all()  # empty sequences have some state, which nobody reads


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ConfigError, match="'max' is neither 'cls' nor 'mean'"):
        pool(torch.zeros(1, TOTAL, 5), packing(), "max")


@pytest.mark.parametrize(
    ("fields", "is_critic", "named"),
    [
        ({}, False, r"bert is an encoder.*is_critic=True"),
        ({"is_decoder": True}, True, "is_decoder=True"),
        ({"is_heterogeneous": True}, True, "per_layer_config"),
    ],
)
def test_what_no_encoder_does_is_refused(fields, is_critic, named):
    config = SimpleNamespace(model_type="bert", **fields)
    with pytest.raises(ConfigError, match=named):
        BaseModelArgs.require_encoder(config, is_critic)


def test_an_encoder_as_it_is_meant_is_not_refused():
    BaseModelArgs.require_encoder(SimpleNamespace(model_type="bert", is_causal=False), True)
