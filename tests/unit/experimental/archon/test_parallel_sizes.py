"""Checks of a model's sizes against the axes."""

from types import SimpleNamespace

import pytest

from areal.api.errors import ConfigError
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.experimental.models.archon.utils import (
    is_moe_model_config,
    validate_cp_constraints,
    validate_ep_constraints,
    validate_parallelism,
    validate_tp_constraints,
)

DENSE = SimpleNamespace(n_heads=8, n_kv_heads=2, hidden_dim=48, n_layers=2)
EXPERTS = SimpleNamespace(
    n_heads=8, n_kv_heads=4, moe_args=SimpleNamespace(num_experts=6), moe_inter_dim=20, n_layers=2
)


@pytest.mark.parametrize(
    ("changes", "tp", "message"),
    [
        ({"n_heads": 6}, 4, "n_heads=6 does not divide over tp=4"),
        ({"n_heads": 12, "n_kv_heads": 3}, 2, "n_kv_heads=3 and tp=2: one of them must divide"),
        ({}, 4, None),
        ({"hidden_dim": 49}, 2, "hidden_dim=49 does not divide over tp=2"),
        ({"hidden_dim": (48, 50)}, 2, None),
        ({"hidden_dim": (48, 51)}, 2, "hidden_dim=51 does not divide over tp=2"),
        ({"kv_lora_rank": 16}, 4, None),
        ({}, 2, None),
    ],
)
def test_tensor_parallelism_divides_heads_and_channels(changes, tp, message):
    args = SimpleNamespace(**{**vars(DENSE), **changes})
    if message is None:
        validate_tp_constraints(args, tp)
    else:
        with pytest.raises(ConfigError, match=message):
            validate_tp_constraints(args, tp)


def test_context_parallelism_divides_heads_or_repeats_those_of_keys():
    validate_cp_constraints(DENSE, 4)
    validate_cp_constraints(DENSE, 2, 2)
    with pytest.raises(ConfigError, match=r"n_heads=8 does not divide over tp \* cp=16"):
        validate_cp_constraints(DENSE, 8, 2)
    odd = SimpleNamespace(n_heads=12, n_kv_heads=6)
    with pytest.raises(ConfigError, match="n_kv_heads / tp = 6 and cp=4"):
        validate_cp_constraints(odd, 4)


def test_expert_parallelism_needs_experts_that_divide():
    validate_ep_constraints(EXPERTS, 3)
    with pytest.raises(ConfigError, match="ep=2, but the model has no experts"):
        validate_ep_constraints(DENSE, 2)
    with pytest.raises(ConfigError, match="num_experts=6 does not divide over ep=4"):
        validate_ep_constraints(EXPERTS, 4)
    with pytest.raises(ConfigError, match="moe_inter_dim=20 does not divide over etp=8"):
        validate_ep_constraints(EXPERTS, 2, 8, 8)


def test_a_model_is_checked_against_all_axes_before_anything_is_split():
    validate_parallelism(DENSE, ArchonParallelDims(tp=2, cp=2, world_size=4))
    with pytest.raises(ConfigError, match="n_heads=8 does not divide over tp=16"):
        validate_parallelism(DENSE, ArchonParallelDims(tp=16, world_size=16))
    with pytest.raises(ConfigError, match="no experts"):
        validate_parallelism(DENSE, ArchonParallelDims(ep=2, world_size=2))
    wide = SimpleNamespace(**{**vars(EXPERTS), "moe_inter_dim": 21})
    with pytest.raises(ConfigError, match="moe_inter_dim=21 does not divide over tp=2"):
        validate_parallelism(wide, ArchonParallelDims(tp=2, world_size=2))


@pytest.mark.parametrize("name", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_a_config_with_experts_is_recognised(name):
    assert is_moe_model_config(SimpleNamespace(**{name: 8}))
    assert not is_moe_model_config(SimpleNamespace(**{name: None}))
    assert not is_moe_model_config(SimpleNamespace())
