"""The tests of a target that go over a registry: those that import its table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from scaffold.analysis.files.files import list_files
from scaffold.edit.shapes import read_entries
from scaffold.errors import ScaffoldError
from scaffold.syntax import parse
from scaffold.target.target import Target
from scaffold.units.ledger import Unit


class RegistryTests(NamedTuple):
    """Test files, and the keys of the other units, which their cases are not about."""

    files: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def registry_tests(target: Target, unit: Unit) -> RegistryTests:
    """Return the tests that import a table in which the unit is registered.

    There are none for a kind with a writer, whose units have a proof of their own.
    """
    known = unit.kind in target.catalogue.kind_names()
    if known and target.catalogue.kind(unit.kind).writer:
        return RegistryTests()
    files: dict[str, None] = {}
    others: dict[str, None] = {}
    top = PurePosixPath(target.tests).parts[0] if target.tests else "tests"
    own = {file.path for file in unit.files}
    for entry in unit.entries:
        if entry.shape != "dict" or not entry.file.endswith(".py"):
            continue
        found = _importing(target.root, top, entry.file, entry.table)
        files |= dict.fromkeys(path for path in found if path not in own)
        try:
            keys = read_entries((target.root / entry.file).read_bytes(), entry)
        except (OSError, ScaffoldError):
            continue
        others |= dict.fromkeys(key for key in keys if key != entry.key)
    return RegistryTests(tuple(files), tuple(others) if files else ())


def _importing(root: Path, top: str, file: str, table: str) -> Iterator[str]:
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for path in list_files(root).python:
        name = PurePosixPath(path).name
        if not (path.startswith(f"{top}/") and name.startswith("test_")):
            continue
        data = (root / path).read_bytes() if (root / path).is_file() else b""
        if table.encode() not in data:
            continue
        try:
            tree = parse(data)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            # The package may be in a folder such as src/.
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and f".{module}".endswith(f".{node.module}")
                and any(alias.name == table for alias in node.names)
            ):
                yield path
                break
