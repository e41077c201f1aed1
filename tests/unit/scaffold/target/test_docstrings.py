"""Docstrings rewritten from Google's form: same code, same words, another layout."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from scaffold.target.docstrings import convert, form_of
from scaffold.target.layouts import DOCSTRING_FORMS

TREES = Path(__file__).parents[3] / "golden" / "trees"
SOURCES = sorted(TREES.rglob("*.py"))

GOOGLE = '''def f(a: int, *rest: str) -> float:
    """Adds up.

    More words.

    Args:
        a: The first: it has
            two lines.
        *rest: The others.

    Returns:
        The sum.

    Raises:
        ValueError: None is given.

    Source: arithmetic.
    """
    return 0.0
'''
NUMPY = '''def f(a: int, *rest: str) -> float:
    """Adds up.

    More words.

    Parameters
    ----------
    a : int
        The first: it has
        two lines.
    *rest : str
        The others.

    Returns
    -------
    float
        The sum.

    Raises
    ------
    ValueError
        None is given.

    References
    ----------
    arithmetic.
    """
    return 0.0
'''
SPHINX = '''def f(a: int, *rest: str) -> float:
    """Adds up.

    More words.

    :param a: The first: it has
        two lines.
    :param rest: The others.
    :returns: The sum.
    :raises ValueError: None is given.

    Source:
        arithmetic.
    """
    return 0.0
'''


@pytest.mark.parametrize(("form", "text"), [("numpy", NUMPY), ("sphinx", SPHINX)])
def test_sections_are_rewritten(form: str, text: str) -> None:
    assert convert(GOOGLE, form) == text


@pytest.mark.parametrize(
    ("text", "form"), [(GOOGLE, "google"), (NUMPY, "numpy"), (SPHINX, "sphinx"), ("x = 1\n", "")]
)
def test_the_form_of_a_file_is_seen(text: str, form: str) -> None:
    assert form_of(text) == form


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_nothing_but_docstrings_changes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for form in DOCSTRING_FORMS[1:]:
        after = convert(text, form)
        assert _code(after) == _code(text)
        assert form_of(after) in ("", form)
        words = set(re.sub(r"\b(Args|Source):", "", text).split())
        assert {w for w in words if w.isalpha()} <= set(after.split()) | {"Raises"}


def _code(text: str) -> str:
    tree = ast.parse(text)
    owners = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, owners) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def test_hostile_text_in_a_docstring_survives() -> None:
    text = 'def f(a):\n    """Says \\"\\"\\" and \\\\n.\n\n    Args:\n        a: C:\\\\x\n    """\n'
    after = convert(text, "numpy")
    doc = ast.get_docstring(ast.parse(after).body[0])
    assert doc == 'Says """ and \\n.\n\nParameters\n----------\na\n    C:\\x'
