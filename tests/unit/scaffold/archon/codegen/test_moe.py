"""The experts' part of a generated model: what is inlined, what stays, what differs by layer."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest

from areal.experimental.models.archon.moe import MoEArgs
from scaffold.archon.codegen.moe import defaults, moe_fields, moe_text, outer_args
from scaffold.archon.codegen.names import names_of
from scaffold.archon.codegen.source import Source
from tests.unit.scaffold.archon.codegen.designs import arg, expr, field, layer_arg, qwen3


def with_experts(**changes: Any) -> dict[str, Any]:
    """Returns qwen3's design with experts in the place of its feed-forward."""
    design = qwen3()
    args = [
        *design["args"],
        field("num_experts", "int", 128, "hf_config.num_experts", "Experts."),
        field("top_k", "int", 8, "hf_config.num_experts_per_tok", "Experts per token."),
        field("moe_inter_dim", "int", 768, "hf_config.moe_intermediate_size", "Their width."),
    ]
    moe = {
        "hidden_dim": arg("moe_inter_dim"),
        "args": {"num_experts": arg("num_experts"), "top_k": arg("top_k"), **changes},
    }
    return {**design, "args": args, "moe": moe}


def names_of_args(design: dict[str, Any]) -> list[str]:
    """Returns the names that the model's arguments keep."""
    return [str(each["name"]) for each in outer_args(design)]


def test_defaults_are_those_of_moe_args() -> None:
    found = {f.name: f.default for f in fields(MoEArgs) if f.default is not MISSING}

    assert list(defaults().items()) == list(found.items())


def test_what_only_the_experts_read_stands_in_moe_args_alone() -> None:
    design = with_experts(route_norm=expr("args.head_dim > 1"))
    (found,) = moe_fields(design)

    assert found["expr"] == (
        "MoEArgs(num_experts=hf_config.num_experts, top_k=hf_config.num_experts_per_tok,"
        " route_norm={head_dim} > 1)"
    )
    assert found["default"] == {"expr": "MoEArgs(num_experts=128, top_k=8, route_norm=16 > 1)"}
    kept = names_of_args(design)
    assert "moe_inter_dim" in kept
    assert "num_experts" not in kept
    assert "top_k" not in kept


def test_shared_experts_are_there_where_a_configuration_gives_them_a_width() -> None:
    width = expr("args.moe_inter_dim * args.top_k")
    design = with_experts(num_shared_experts=1, shared_expert_intermediate_size=width)
    (found,) = moe_fields(design)

    read = "{moe_inter_dim} * hf_config.num_experts_per_tok"
    assert f"num_shared_experts=int(bool({read}))" in found["expr"]
    assert f"shared_expert_intermediate_size={read}" in found["expr"]
    assert "num_shared_experts=1, " in found["default"]["expr"]
    # A constant is no question of the configuration.
    design = with_experts(num_shared_experts=1, shared_expert_intermediate_size=40)
    assert "num_shared_experts=1, " in moe_fields(design)[0]["expr"]


def test_an_argument_that_something_else_reads_stays() -> None:
    design = with_experts(activation=arg("top_k"))
    design["refusals"] = []
    design["block"] = {**design["block"], "x": expr("args.num_experts > 1")}

    assert "num_experts" in names_of_args(design)
    assert "num_experts={num_experts}" in moe_fields(design)[0]["expr"]


def test_an_argument_that_a_kept_one_is_computed_from_stays() -> None:
    design = with_experts()
    design["args"].append(field("last", "int", 1, "{top_k} - 1", "Kept."))

    assert {"top_k", "last"} <= set(names_of_args(design))


def test_defaults_are_not_written() -> None:
    design = with_experts(score_func="sigmoid", route_norm=False, shared_activation=arg("act"))
    design["args"].append(field("act", "str", "silu", "hf_config.hidden_act", "Activation."))
    design["moe"]["args"]["activation"] = arg("act")
    (found,) = moe_fields(design)

    assert found["expr"].endswith("activation=hf_config.hidden_act)")
    assert found["default"]["expr"] == "MoEArgs(num_experts=128, top_k=8)"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "MoE(args.moe_args, args.dim, args.moe_inter_dim)"),
        (
            {"top_k": layer_arg("top_ks")},
            "MoE(replace(args.moe_args, top_k=args.top_ks[layer_id]),"
            " args.dim, args.moe_inter_dim)",
        ),
    ],
)
def test_call_in_the_block(changes: dict[str, Any], expected: str) -> None:
    design = with_experts(**changes)
    source = Source("A block.", names_of(design))

    assert moe_text(design["moe"], source) == expected
    assert "import MoE" in source.text()
