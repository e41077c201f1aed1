"""Are measured rotations shaped into tables that turn heads as they were seen to turn?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from archon_probe.design.arguments import Arguments
from archon_probe.design.expressions import Case
from archon_probe.design.shaping_rope import shape_ropes


class Config(SimpleNamespace):
    """Is a configuration with the fields it is given."""

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def rotation(pairing: str = "half", dim: int = 8, theta: float = 1e4) -> dict[str, Any]:
    """Returns a rotation as it is measured."""
    inv_freq = [theta ** (-2 * i / dim) for i in range(dim // 2)]
    return {"when": True, "pairing": pairing, "dim": dim, "inv_freq": inv_freq, "factor": 1.0}


def ropes(*seen: tuple[dict[str, Any], dict[str, Any]]) -> tuple[dict[str, Any], Arguments]:
    """Returns the ropes of a model that was measured with changed configurations."""
    base = {"head_dim": 8, "interleave": False, "rope_parameters": {"rope_theta": 1e4}}
    measured: list[Any] = []
    for change, rope in seen:
        attention = {"kind": "attention", "head_dim": 8, "rope": rope}
        observation = SimpleNamespace(layers=[{"modules": {"attention": attention}}])
        measured.append((Case(str(change), Config(**{**base, **change}), 1), observation))
    arguments = Arguments(measured[0][0], measured)
    arguments.known["head_dim"] = [8] * len(measured)
    design: dict[str, Any] = {
        "attention": {},
        "block": {"modules": [{"name": "attention", "kind": "attention"}]},
    }
    return shape_ropes(arguments, design), arguments


@pytest.mark.parametrize("other", ["half", "interleaved"])
def test_the_config_chooses_which_dimensions_turn_together(other: str) -> None:
    found, arguments = ropes(({}, rotation()), ({"interleave": True}, rotation(other)))

    assert arguments.missed == {}
    if other == "half":
        assert found["rope"]["pairing"] == "half"
        return
    assert found["rope"]["pairing"] == {"expr": "'interleaved' if args.interleave else 'half'"}
    assert arguments.args["interleave"]["expr"] == "hf_config.interleave"


def test_one_pair_says_nothing_of_the_order_of_pairs() -> None:
    partial = {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}}

    found, arguments = ropes(({}, rotation("interleaved")), (partial, rotation("half", 2)))

    assert arguments.missed == {}
    assert found["rope"]["pairing"] == "interleaved"


def test_pairs_that_all_turn_as_the_one_that_is_stated_are_refused() -> None:
    partial = {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}}
    broadcast = {**rotation(), "inv_freq": [1.0, 1.0, 1.0, 1.0]}

    found, arguments = ropes(({}, rotation()), (partial, broadcast))

    assert found["rope"]["expr"] == "RopeArgs.from_hf(hf_config)"
    assert arguments.missed == {str(partial): {"attention.rope: one frequency for all pairs"}}


@pytest.mark.parametrize(("growth", "expected"), [(50.0, ", fixed_by='alpha'"), (1.0, "")])
def test_a_parameter_may_fix_the_base_of_a_dynamic_rotation(growth: float, expected: str) -> None:
    stated = {"rope_theta": 1e4, "rope_type": "dynamic", "factor": 2.0, "alpha": 50.0}
    turned = rotation(theta=1e4 * growth ** (8 / 6))  # 1 where no model reads the parameter

    found, arguments = ropes(({}, rotation()), ({"rope_parameters": stated}, turned))

    assert found["rope"]["expr"] == f"RopeArgs.from_hf(hf_config{expected})"
    assert arguments.missed == {}
