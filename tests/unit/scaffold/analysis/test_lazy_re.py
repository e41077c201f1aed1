"""Expressions that are compiled late: each of them compiles, and behaves as `re` has it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import scaffold.analysis
import scaffold.skills
from scaffold.analysis.lazy_re import lazy_re

LAZY = type(lazy_re(""))


def test_a_lazy_expression_answers_as_a_compiled_one() -> None:
    lazy, compiled = lazy_re(r"(?P<word>a+)b?", re.IGNORECASE), re.compile(r"(?P<word>a+)b?", re.I)
    text = "xAAb aa"
    assert [each.span() for each in lazy.finditer(text)] == [(1, 4), (5, 7)]
    assert lazy.sub("-", text) == compiled.sub("-", text)
    assert (lazy.groupindex, lazy.flags, lazy.pattern) == (
        compiled.groupindex,
        compiled.flags,
        compiled.pattern,
    )
    found = lazy.fullmatch("Aab")
    assert found is not None
    assert found["word"] == "Aa"
    assert lazy_re(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_a_mistake_shows_at_the_first_question() -> None:
    broken = lazy_re("(")
    with pytest.raises(re.error):
        broken.search("")


def test_every_lazy_expression_compiles() -> None:
    found = [each for module in _modules() for each in _lazy(module)]
    assert len(found) > 150
    for place, expression in found:
        assert isinstance(expression.pattern, str | bytes), place


def _modules() -> Iterator[ModuleType]:
    for package in (scaffold.analysis, scaffold.skills):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(each.name)


def _lazy(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    for name, value in vars(module).items():
        for each in value if isinstance(value, tuple | list) else (value,):
            if type(each) is LAZY:
                yield f"{module.__name__}.{name}", each
