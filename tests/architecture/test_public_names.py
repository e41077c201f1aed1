"""Is `__all__` the truth? Its names resolve, and each public name defined beside it is in it."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@cache
def modules_with_all() -> list[str]:
    """Returns the dotted names of the modules that assign ``__all__``."""
    names = []
    for package in ("areal", "scaffold"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "runners" not in path.parts and "__all__" in defined_names(path):
                parts = path.relative_to(ROOT).with_suffix("").parts
                names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def defined_names(path: Path) -> set[str]:
    """Returns what a module binds at its top level, imports apart."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name for target in targets for name in ast.walk(target)]
            found |= {name.id for name in names if isinstance(name, ast.Name)}
    return found


@pytest.mark.parametrize("name", modules_with_all())
def test_all_is_what_is_public(name: str):
    module = importlib.import_module(name)
    listed = list(module.__all__)
    missing = [n for n in listed if getattr(module, n, None) is None and n not in vars(module)]
    assert not missing
    assert len(listed) == len(set(listed))
    assert module.__file__ is not None
    public = {n for n in defined_names(Path(module.__file__)) if not n.startswith("_")}
    assert public - set(listed) - {"logger"} == set()


@pytest.mark.parametrize(
    "name",
    [
        "areal",
        "areal.api",
        "areal.reward",
        "areal.dataset",
        "areal.workflow",
        "areal.trainer.report",
    ],
)
def test_the_packages_that_people_import_from_say_what_they_offer(name: str):
    assert name in modules_with_all()
