"""What is told of designs and proofs."""

from __future__ import annotations

from typing import Any

import pytest

from scaffold.archon.coverage_page import coverage_page, coverage_row
from scaffold.archon.explain import explain_lines, features
from scaffold.archon.proof_report import proof_lines
from tests.unit.scaffold.archon.conftest import design_of, proof_of


def test_long_values_are_cut_and_references_are_plain() -> None:
    design = design_of("foo")
    design["evidence"] = [
        {"decision": "a", "value": {"arg": "dim"}, "kind": "fact"},
        {"decision": "b", "value": list(range(100)), "kind": "probe", "how": "seen"},
    ]
    rows = explain_lines(design)
    assert "a = dim  (fact)" in rows
    assert any(row.startswith("b = [0, 1") and "...  (probe: seen)" in row for row in rows)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"moe": {"kind": "moe"}}, ("experts",)),
        ({"attention": {"kind": "mla"}}, ("latent attention",)),
        ({"attention": {"alibi": {"rule": "geometric"}}}, ("ALiBi",)),
        ({"attention": {"alibi": {"when": {"arg": "alibi"}}}}, ("ALiBi",)),
        ({"attention": {"alibi": {"when": False}, "sinks": {"when": False}}}, ()),
        ({"embedding": {"positions": {"kind": "learned"}}}, ("learned positions",)),
        ({"attention": {"window": {"layer_arg": "windows"}}}, ("windows",)),
        ({"mlp": {"gated": False}}, ("not gated",)),
        ({"mlp": {"gated": True}}, ()),
    ],
)
def test_features_are_read_from_the_design(change: dict[str, Any], wanted: tuple[str, ...]) -> None:
    assert features({**design_of("foo"), **change}) == wanted


def test_a_proof_tells_what_failed_and_where() -> None:
    lines = proof_lines(proof_of(False))
    assert lines[0].startswith("unproven: 0 of 2 configurations equal, 1 refused")
    assert lines[1] == "default: forward: logits differ by 0.3"
    assert lines[2] == "first difference: layers.0.attention, output"
    assert "refused x=1: x" in lines
    assert proof_lines(proof_of(True))[0].startswith("proven: 1 of 2")


ROUNDING = {
    "bfloat16": {"layers": 4, "equal": 4, "error": 0.0, "modules": {}, "problem": ""},
    "float16": {
        "layers": 4,
        "equal": 3,
        "error": 0.002,
        "modules": {"moe": 0.004, "before attention.wo": 0.0005},
        "problem": "",
    },
}
FIELDS = {
    "varied": {"hidden_act": 3, "head_dim": 2},
    "undeclared": {"head_dim": "modeling_foo.py, __init__", "logits_scaling": "the class"},
    "unvaried": {"use_cache": "never read", "logits_scaling": "its class refuses other values"},
}


def test_a_proof_names_what_was_varied_and_what_was_not() -> None:
    lines = proof_lines({**proof_of(True), **FIELDS})
    assert "varied, with the number of configurations: head_dim 2, hidden_act 3" in lines
    assert (
        "asked for and declared by no class: head_dim (modeling_foo.py, __init__), "
        "logits_scaling (the class)"
    ) in lines
    assert "not varied, never read: use_cache" in lines


def test_a_proof_names_and_bounds_what_differs_below_fp32() -> None:
    lines = proof_lines({**proof_of(True), "rounding": ROUNDING})
    assert "bfloat16 against transformers' eager path: all 4 layers equal bit for bit" in lines
    assert (
        "float16 against transformers' eager path: 3 of 4 layers equal bit for bit, the others "
        "within 0.002 standard deviations (moe by 0.004, before attention.wo by 0.0005)"
    ) in lines


def test_the_page_has_columns_for_undeclared_fields_and_for_rounding() -> None:
    proof = {**proof_of(True), **FIELDS, "rounding": ROUNDING}
    page = coverage_page([coverage_row("foo", design_of("foo"), proof, "")], {}, is_fast=False)
    assert "| configurations | refused | undeclared | bf16 | fp16 |" in page
    assert "| 2 | 1 | 1/2 | equal | 3/4, 2e-03 |" in page
    assert "| `logits_scaling` | 1 | `foo` (not varied) |" in page
    assert "| `foo` | fp16 | 3 of 4 layers equal bit for bit" in page


def test_the_page_names_no_machine_and_quotes_no_source() -> None:
    place = "--- /opt/some/site-packages/transformers/m.py:3 M.forward"
    text = f"first difference in x\n{place}\n  x = 1"
    proof = {**proof_of(False), "bisection": {"text": text}}
    row = coverage_row("foo", {}, proof, "")
    assert row["findings"][-1] == "--- transformers/m.py:3 M.forward"


def test_the_page_groups_by_features_and_tells_of_what_is_open() -> None:
    experts = {**design_of("bar"), "moe": {"kind": "moe"}}
    rows = [
        coverage_row("foo", design_of("foo"), proof_of(True), ""),
        coverage_row("bar", experts, proof_of(False), ""),
        coverage_row(
            "baz",
            {},
            {},
            'baz is an encoder (File "probe.py", line 3, in f) [model_unsuited]',
        ),
    ]
    page = coverage_page(rows, {"transformers": "5.0"}, is_fast=False)
    assert "1 of 2 model_types are proven, with transformers 5.0. 1 more are refused." in page
    experts_part, rest = page.split("## Plain decoders")
    assert "| `bar` | **unproven** | 0/1 | 0/1 | 0/1 |" in experts_part
    assert "| `foo` | proven | 1/1 | 1/1 | 1/1 |" in rest
    assert "| `baz` | baz is an encoder [model_unsuited] |" in rest
    assert "first difference: layers.0.attention" in rest
