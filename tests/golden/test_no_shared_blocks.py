"""No code is in units of two styles: what they share is imported."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

TREES = Path(__file__).parent / "trees"
FEWEST = 3
"""How many statements in a row are a block; two are an assignment and its return."""


def blocks(path: Path) -> Iterator[tuple[str, ...]]:
    """Yields each run of statements, without docstrings, as text that names do not hide."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if getattr(node, "name", "") == "__init__":
            continue  # what a unit takes and keeps is its interface
        for body in (getattr(node, field, None) for field in ("body", "orelse", "finalbody")):
            if not isinstance(body, list) or isinstance(node, ast.Module | ast.ClassDef):
                continue  # imports, and methods side by side
            texts = [ast.unparse(each) for each in body if not is_docstring(each)]
            for at in range(len(texts) - FEWEST + 1):
                yield tuple(texts[at : at + FEWEST])


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@pytest.mark.parametrize("room", ["reward", "dataset", "workflow"])
def test_no_block_stands_in_two_units(room: str) -> None:
    places: dict[tuple[str, ...], set[str]] = defaultdict(set)
    made = sorted((TREES / "project" / ".scaffold" / "made" / room).glob("*.toml"))
    styles: set[str] = set()
    for record in made:
        named = re.findall(rf'"({room}/[\w-]+)", version', record.read_text(encoding="utf-8"))
        if len(named) > 1:
            continue  # several loaders in one unit, each of a style that has a unit of its own
        style = named[0]
        styles.add(style)
        for block in blocks(TREES / "project" / "my_rl" / room / f"{record.stem}.py"):
            places[block].add(style)
    assert len(styles) > 3
    assert {block: names for block, names in places.items() if len(names) > 1} == {}
