"""Calls against signatures: ours agrees with Python's own binding."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.analysis.python.binding import bind
from scaffold.analysis.python.signatures import Signature, read_signature


def signature_of(source: str) -> Signature:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    return read_signature(node)


def call_of(source: str) -> ast.Call:
    node = ast.parse(source, mode="eval").body
    assert isinstance(node, ast.Call)
    return node


@pytest.mark.parametrize(
    ("function", "call", "problem"),
    [
        ("def f(a, b=1): ...", "f(1)", None),
        ("def f(a, b=1): ...", "f()", "f() needs 'a'"),
        ("def f(a, b): ...", "f()", "f() needs 'a', 'b'"),
        ("def f(a, *, b): ...", "f(1)", "f() needs 'b'"),
        ("def f(a, b=1): ...", "f(1, 2, 3)", "f() takes 2 positional arguments and gets 3"),
        ("def f(a): ...", "f(1, c=2)", "f() has no parameter 'c'"),
        ("def f(a): ...", "f(1, a=2)", "f() gets 'a' by position and by keyword"),
        ("def f(a, /): ...", "f(a=1)", "f() has no parameter 'a'"),
        ("def f(a, /, **k): ...", "f(1, a=1)", None),
        ("def f(*args): ...", "f(1, 2, 3)", None),
        ("def f(**kwargs): ...", "f(x=1)", None),
        ("def f(**kwargs): ...", "f(1)", "f() takes 0 positional arguments and gets 1"),
        # what is unpacked may be anything
        ("def f(a, b): ...", "f(*x)", None),
        ("def f(a, b): ...", "f(**x)", None),
        ("def f(a, b): ...", "f(*x, c=1)", "f() has no parameter 'c'"),
        ("def f(a): ...", "f(1, 2, *x)", "f() takes 1 positional argument and gets 2"),
        ("def f(a): ...", "f(1, **x)", None),
        ("def f(a): ...", "f(..., 1)", "f() takes 1 positional argument and gets 2"),
    ],
)
def test_bind(function: str, call: str, problem: str | None) -> None:
    found = bind(signature_of(function), call_of(call))
    assert (None if found is None else str(found)) == problem


def test_a_method_may_be_called_on_its_class() -> None:
    method = signature_of("def f(self, a): ...").bound()
    assert bind(method, call_of("thing.f(1)")) is None
    assert bind(method, call_of("Thing.f(thing, 1)")) is None
    assert bind(method, call_of("module.Thing.f(thing, a=1)")) is None
    assert bind(method, call_of("thing.f(thing, 1)")) is not None
    assert bind(method, call_of("Thing.f()")) is not None


def test_a_problem_names_its_rule() -> None:
    rules = [
        (found.rule, found.names)
        for call in ("f()", "f(1, 2)", "f(1, b=1)", "f(1, a=1)")
        if (found := bind(signature_of("def f(a): ..."), call_of(call))) is not None
    ]
    assert rules == [
        ("missing", ("a",)),
        ("too-many", ()),
        ("unknown", ("b",)),
        ("twice", ("a",)),
    ]


NAMES = ["a", "b", "c", "d", "e"]


@st.composite
def functions(draw: st.DrawFn) -> str:
    """Draws a ``def`` with every kind of parameter, defaults where they may stand."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    marks = sorted(draw(st.lists(st.integers(0, len(names)), min_size=2, max_size=2)))
    only, plain, by_key = names[: marks[0]], names[marks[0] : marks[1]], names[marks[1] :]
    first_default = draw(st.integers(0, marks[1] + 1))
    positional = [
        name if index < first_default else f"{name}=0" for index, name in enumerate(only + plain)
    ]
    parts = positional[: len(only)] + (["/"] if only else []) + positional[len(only) :]
    star = draw(st.booleans())
    if star or by_key:
        parts.append("*args" if star else "*")
    parts += [name + draw(st.sampled_from(["", "=0"])) for name in by_key]
    if draw(st.booleans()):
        parts.append("**kwargs")
    return f"def f({', '.join(parts)}): ..."


@given(
    functions(),
    st.integers(0, 6),
    st.lists(st.sampled_from([*NAMES, "other", "args"]), unique=True, max_size=4),
)
@settings(max_examples=300, deadline=None)
def test_bind_agrees_with_python(source: str, positional: int, keywords: list[str]) -> None:
    space: dict[str, Any] = {}
    exec(source, space)
    text = ", ".join([*["0"] * positional, *(f"{name}=0" for name in keywords)])
    try:
        # Not Signature.bind: that of 3.11 refuses f(a=0) for (a=0, /, **kwargs), wrongly.
        space["f"](*[0] * positional, **dict.fromkeys(keywords, 0))
        fits = True
    except TypeError:
        fits = False
    problem = bind(signature_of(source), call_of(f"f({text})"))
    assert (problem is None) == fits, (source, text, problem)
    # Whatever Python accepts fits when the same arguments are unpacked.
    assert not fits or bind(signature_of(source), call_of("f(*x, **y)")) is None


@given(functions())
@settings(max_examples=100, deadline=None)
def test_a_signature_is_written_as_python_writes_it(source: str) -> None:
    space: dict[str, Any] = {}
    exec(source, space)
    assert str(signature_of(source)) == f"f{inspect.signature(space['f'])}"
