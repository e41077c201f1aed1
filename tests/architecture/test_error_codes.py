"""Is every error code declared, once, where the rooms that raise it can see it?"""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaffold.errors import CODES, declared_codes

ROOT = Path(__file__).parents[2]
ROOMS = sorted(path.parent.name for path in ROOT.glob("scaffold/*/codes.py"))


def declared_by(room: str) -> dict[str, str]:
    return importlib.import_module(f"scaffold.{room}.codes").CODES


def rooms_below(room: str) -> Iterator[str]:
    """Yield the room itself and those that the import contract lets it import."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        row
        for row in project["tool"]["importlinter"]["contracts"]
        if row["id"] == "scaffold-layers"
    )
    layers = [re.findall(r"\w+", layer) for layer in contract["layers"]]
    (own,) = (level for level, names in enumerate(layers) if room in names)
    yield room
    for names in layers[own + 1 :]:
        yield from names


def raised_by(path: Path) -> set[str]:
    """Return the codes that a file names as ``code="..."``."""
    return {
        node.value.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "code"
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def test_a_code_is_declared_once() -> None:
    every = [code for room in ROOMS for code in declared_by(room)] + list(CODES)
    assert sorted(every) == sorted(declared_codes())


def test_a_meaning_is_a_sentence() -> None:
    assert all(meaning.endswith(".") for meaning in declared_codes().values())


@pytest.mark.parametrize("folder", sorted(p for p in ROOT.glob("scaffold/*/") if p.name[0] != "_"))
def test_a_room_raises_codes_of_its_own_or_of_rooms_below(folder: Path) -> None:
    room = folder.name
    # A probe of models answers with codes; `archon` raises them in its place.
    below = rooms_below("archon" if room == "runners" else room)
    known = set(CODES).union(*(declared_by(name) for name in below if name in ROOMS))
    files = folder.rglob("*.py")
    unknown = {path.name: raised_by(path) - known for path in files if raised_by(path) - known}
    assert unknown == {}
