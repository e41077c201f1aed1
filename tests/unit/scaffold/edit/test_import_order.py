"""The order of imports: sections, modules, and when two modules are one."""

from __future__ import annotations

import pytest

from scaffold.edit.import_order import (
    absolute,
    is_same_module,
    module_rank,
    package,
    section,
    sorted_place,
)

FILE = "src/areal/reward/__init__.py"


def test_sections_are_told_by_name_and_place():
    modules = ["__future__", "os.path", "numpy", "areal.api", "..api", ".gsm8k", "."]
    assert [section(module, FILE) for module in modules] == [0, 1, 2, 3, 4, 4, 4]
    assert section("areal.api", "tests/test_x.py") == 2


def test_statements_are_ranked_as_ruff_does():
    ranked = [
        ("json", False),
        ("os", False),
        ("...far", True),
        ("..near", True),
        (".", True),
        (".a2", True),
        (".A10", True),
        (".b", True),
        ("abc", True),
        ("abc.d", True),
    ]
    assert ranked == sorted(ranked, key=lambda each: module_rank(*each))


def test_siblings_share_a_package():
    assert [package(m) for m in ("a.b.c", ".x.y", "..x", ".")] == ["a", ".", "..", "."]


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("numpy", "numpy"),
        (".gsm8k", "src.areal.reward.gsm8k"),
        (".", "src.areal.reward"),
        ("..api.x", "src.areal.api.x"),
    ],
)
def test_a_relative_module_is_resolved_by_the_file(module: str, expected: str):
    assert absolute(module, FILE) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (".gsm8k", ".gsm8k", True),
        (".gsm8k", "areal.reward.gsm8k", True),
        ("areal.reward.gsm8k", ".gsm8k", True),
        (".gsm8k", "reward2.gsm8k", False),
        (".gsm8k", "d.gsm8k", False),
        (".gsm8k", "..gsm8k", False),
        ("a.b", "b", False),
    ],
)
def test_two_spellings_of_a_module(one: str, other: str, same: bool):
    assert is_same_module(one, other, FILE) == same


def test_names_count_where_they_are_in_order_too():
    ranks = [("m", "a"), ("m", "c"), ("n", "b")]
    assert sorted_place(ranks, ("m", "b")) == 1
    assert sorted_place([("m", "c"), ("m", "a"), ("n", "b")], ("m", "b")) == 2
    assert sorted_place([("n", "a"), ("m", "a")], ("a", "a")) == 2
