"""Rules that were found become the text of an adapter."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from scaffold.archon.codegen.adapter import adapter_file
from scaffold.archon.codegen.names import names_of

FUSED: dict[str, Any] = {
    "rule": "Fused",
    "hub": "h.{}.qkv.weight",
    "archon": ["layers.{}.attention.wq.weight", "layers.{}.attention.wk.weight"],
    "groups": "n_kv_heads",
    "candidates": ["n_kv_heads", 2],
}


def _call(rule: dict[str, Any]) -> tuple[str, ast.Call]:
    """Returns the text of an adapter with one rule, and the rule in it."""
    design = {"model_type": "my-model", "class_prefix": "Mine", "weights": [rule]}
    text = adapter_file(design, names_of(design))
    [rules] = [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RULES"
    ]
    assert isinstance(rules, ast.Tuple)
    [call] = rules.elts
    assert isinstance(call, ast.Call)
    return text, call


@pytest.mark.parametrize(
    ("rule", "written"),
    [
        ({"rule": "Rename", "hub": "a", "archon": "b"}, "Rename('a', 'b')"),
        ({"rule": "Rename", "hub": "a", "archon": "b", "assumed": True}, "Rename('a', 'b')"),
        ({"rule": "Rename", "hub": "a", "archon": "b", "when": "c"}, "Rename('a', 'b', when='c')"),
        ({"rule": "Tied", "hub": "a", "source": "b"}, "Tied('a', 'b')"),
        (
            FUSED | {"groups": 1, "axis": 1, "transposed": True},
            "Fused('h.{}.qkv.weight', ('layers.{}.attention.wq.weight', "
            "'layers.{}.attention.wk.weight'), axis=1, transposed=True)",
        ),
        (
            {"rule": "Split", "hub": ["a", "b"], "archon": "c", "when": "d"},
            "Split(('a', 'b'), 'c', when='d')",
        ),
    ],
)
def test_a_rule_is_written_with_what_it_needs(rule: dict[str, Any], written: str) -> None:
    _, call = _call(rule)
    assert ast.unparse(call) == written


def test_the_adapter_knows_its_model_and_imports_its_rules() -> None:
    text, _ = _call(FUSED)
    assert "class MineStateDictAdapter(RuleAdapter):" in text
    assert "model_class = MineModel" in text
    assert "from areal.experimental.models.archon.state_dict import Fused, RuleAdapter" in text
    assert "from areal.experimental.models.archon.my_model.model.model import MineModel" in text
