"""Do steps that were observed become the blocks of a design?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from archon_probe.design.arguments import Arguments
from archon_probe.design.expressions import Case
from archon_probe.design.shaping import _variants


class Config(SimpleNamespace):
    """Is a configuration with the fields it is given."""

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def steps(*branches: str, scale: float) -> list[dict[str, Any]]:
    """Returns the steps of a block that adds branches, each times a number."""
    calls = [{"out": f"{name}_out", "call": name, "in": "x"} for name in branches]
    terms = [["x", 1.0], *([f"{name}_out", scale] for name in branches)]
    return [*calls, {"out": "y", "sum": terms}]


def variants(*measured: tuple[dict[str, Any], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Returns the orders of steps that are found in models of one layer, by their fields."""
    cases = [Case(str(fields), Config(**fields), 1) for fields, _ in measured]
    found = [
        (case, SimpleNamespace(layers=[{"steps": made}]))
        for case, (_, made) in zip(cases, measured, strict=True)
    ]
    return _variants(Arguments(cases[0], found))


def test_experts_beside_a_feed_forward_are_two_branches() -> None:
    (found,) = variants(({"scale": 1.0}, steps("moe", "feed_forward", scale=1.0)))

    assert [step.get("call") for step in found["steps"]] == ["moe", "feed_forward", None]
    assert found["steps"][-1]["sum"] == [["x", 1.0], ["moe_out", 1.0], ["feed_forward_out", 1.0]]


def test_a_dense_and_a_sparse_block_have_one_order() -> None:
    dense, sparse = (steps(name, scale=1.0) for name in ("feed_forward", "moe"))

    (found,) = variants(({"is_dense": True}, dense), ({"is_dense": False}, sparse))

    assert found["steps"][0] == {"out": "ffn_out", "call": ["feed_forward", "moe"], "in": "x"}


def test_an_input_that_only_some_configurations_scale_is_one_order() -> None:
    """Falcon-H1 multiplies what attention gets, by one where the configuration says nothing."""

    def block(scale: float) -> list[dict[str, Any]]:
        scaled = [{"out": "h0", "sum": [["norm_out", scale]]}] if scale != 1 else []
        name = scaled[0]["out"] if scaled else "norm_out"
        total = f"h{len(scaled)}"
        return [
            {"out": "norm_out", "call": "norm", "in": "x"},
            {"out": "mixer_out", "call": "mixer", "in": "norm_out"},
            *scaled,
            {"out": "attention_out", "call": "attention", "in": name},
            {"out": total, "sum": [["x", 1.0], ["mixer_out", 1.0], ["attention_out", 1.0]]},
        ]

    (found,) = variants(*(({"scale": scale}, block(scale)) for scale in (1.0, 1.5)))

    scaled, attention = found["steps"][2:4]
    assert scaled == {"out": "h0", "sum": [["norm_out", {"arg": "scale"}]]}
    assert attention == {"out": "attention_out", "call": "attention", "in": "h0"}
    assert found["steps"][-1]["out"] == "h1"


def test_an_order_that_few_have_takes_its_weights_from_others() -> None:
    first, second = variants(
        ({"scale": 1.0, "shared": 0}, steps("moe", scale=1.0)),
        ({"scale": 1.5, "shared": 0}, steps("moe", scale=1.5)),
        ({"scale": 1.0, "shared": 9}, steps("moe", "feed_forward", scale=1.0)),
    )

    scale = {"arg": "scale"}
    assert first["steps"][-1]["sum"] == [["x", 1.0], ["ffn_out", scale]]
    assert second["steps"][-1]["sum"] == [
        ["x", 1.0], ["moe_out", scale], ["feed_forward_out", scale]
    ]  # fmt: skip


def test_an_order_with_other_weights_keeps_them() -> None:
    first, second = variants(
        ({"scale": 1.0, "shared": 0}, steps("moe", scale=1.0)),
        ({"scale": 1.5, "shared": 0}, steps("moe", scale=1.5)),
        ({"scale": 1.0, "shared": 9}, steps("moe", "feed_forward", scale=0.5)),
    )

    assert first["steps"][-1]["sum"][1] == ["ffn_out", {"arg": "scale"}]
    assert second["steps"][-1]["sum"][1:] == [["moe_out", 0.5], ["feed_forward_out", 0.5]]
