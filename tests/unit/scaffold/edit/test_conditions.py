"""Conditions of a dispatch: what they ask about, and which one includes another."""

from __future__ import annotations

import ast

import pytest

from scaffold.edit.conditions import (
    constants,
    implies,
    is_catch_all,
    is_dispatch,
    is_open_pattern,
    pattern_values,
    skeleton,
    subjects,
)


def condition(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def pattern_of(text: str) -> ast.pattern:
    match = ast.parse(f"match _:\n case {text}:\n  pass").body[0]
    assert isinstance(match, ast.Match)
    return match.cases[0].pattern


IMPLIED = [
    ("path == 'a'", "path == 'a'"),
    ("path == 'gsm8k'", "'gsm' in path"),
    ("'gsm8k' == path", "path.startswith('gsm')"),
    ("path == 'gsm8k'", "path.endswith(('x', '8k'))"),
    ("'gsm8k' in path", "'gsm' in path"),
    ("path.startswith('gsm8k')", "'sm8' in path"),
    ("path.endswith('_rl')", "path.endswith('rl')"),
    ("path == 'a'", "path in ('a', 'b')"),
    ("path in {'a', 'b'}", "path in ['b', 'a', 'c']"),
    ("path == 'a' or path == 'b'", "path in ('a', 'b')"),
    ("path == 'a' and kind == 'rl'", "path == 'a'"),
    ("path == 'a' and kind == 'rl'", "kind == 'rl' and 'a' in path"),
    ("path == 'a'", "path == 'a' or kind == 'x'"),
    ("kind == Kind.RL", "kind in (Kind.SFT, Kind.RL)"),
    ("'a' in path", "path"),
    ("path == 'a'", "path is not None"),
    ("path == 'a'", "isinstance(path, str)"),
    ("path == 'a'", "True"),
    ("'a' in path.lower()", "'a' in path.lower()"),
    ("n == 1", "n in (1, 2)"),
]

NOT_IMPLIED = [
    ("'gsm' in path", "'gsm8k' in path"),
    ("path == 'a'", "kind == 'a'"),
    ("path == 'a'", "path == 'a' and kind == 'rl'"),
    ("path == 'a' or kind == 'b'", "path == 'a'"),
    ("path in ('a', 'b')", "path == 'a'"),
    ("'a' in path", "path == 'a'"),
    ("'a' in path", "path.startswith('a')"),
    ("path.startswith('a')", "path.endswith('a')"),
    ("'A' in path", "'a' in path.lower()"),
    ("path != 'a'", "path == 'a'"),
    ("path == ''", "path"),
    ("path == name", "path == 'a'"),
    ("path == 'a'", "exists(path)"),
    ("path == 'a'", "not path"),
    ("n == 1", "'1' in n"),
    ("path == 'a'", "False"),
]


@pytest.mark.parametrize(("known", "asked"), IMPLIED)
def test_a_condition_includes_another(known: str, asked: str):
    assert implies(condition(known), condition(asked))


@pytest.mark.parametrize(("known", "asked"), NOT_IMPLIED)
def test_a_condition_does_not_include_another(known: str, asked: str):
    assert not implies(condition(known), condition(asked))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'gsm8k' in path and type == 'rl'", {"path", "type"}),
        ("self.name.lower() == 'a'", {"self.name"}),
        ("len(path) == 3 or is_url(path=path)", {"path"}),
        ("kind == Kind.RL", {"kind", "Kind.RL"}),
        ("True", set()),
        ("table[name] == 'a'", {"table", "name"}),
    ],
)
def test_subjects_are_what_is_asked_about(text: str, expected: set[str]):
    assert subjects(condition(text)) == expected


def test_a_skeleton_leaves_constants_out():
    one = skeleton(condition("'gsm8k' in path and type == 'rl'"))
    assert one == skeleton(condition('"k" in path and type == "sft"'))
    assert one != skeleton(condition("'gsm8k' in path and type == 3"))
    assert one != skeleton(condition("'gsm8k' in path and kind == 'rl'"))


def test_constants_come_in_the_order_of_the_text():
    assert constants(condition("'gsm8k' in path and type == 'rl'")) == ("gsm8k", "rl")
    assert constants(condition("n == 1")) is None
    assert constants(condition("path")) is None


@pytest.mark.parametrize(
    ("text", "dispatch", "catch_all"),
    [
        ("path == 'a'", True, False),
        ("'a' in path and exists(path)", True, False),
        ("path", False, True),
        ("path is not None and isinstance(path, str)", False, True),
        ("path is not None and path == 'a'", True, False),
        ("True or path == 'a'", True, True),
        ("exists(path)", False, False),
        ("path not in KNOWN", False, False),
        ("path is None", False, False),
    ],
)
def test_conditions_that_compare_and_that_take_all(text: str, dispatch: bool, catch_all: bool):
    assert is_dispatch(condition(text)) == dispatch
    assert is_catch_all(condition(text)) == catch_all


@pytest.mark.parametrize(
    ("text", "values", "is_open"),
    [
        ("'a'", {"a"}, False),
        ("'a' | 'b' | 3", {"a", "b", 3}, False),
        ("_", None, True),
        ("name", None, True),
        ("'a' | _", None, True),
        ("str()", None, True),
        ("str() as name", None, True),
        ("str('a')", None, False),
        ("int()", None, False),
        ("('a', 'rl')", None, False),
        ("'a' as name", None, False),
    ],
)
def test_patterns(text: str, values: set[object] | None, is_open: bool):
    assert pattern_values(pattern_of(text)) == values
    assert is_open_pattern(pattern_of(text)) == is_open
