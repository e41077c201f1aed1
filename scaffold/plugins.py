"""Packages that offer templates, found without importing them or anything of theirs.

A distribution offers a folder by an entry point of the group ``scaffold.templates``, whose value is
the dotted name of the package that holds ``<kind>/kind.toml`` and ``<kind>/<style>/``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

GROUP = "scaffold.templates"


def template_packages() -> tuple[tuple[str, Path], ...]:
    """Returns the distributions that offer templates, with their folders, sorted by name.

    ``importlib.metadata`` would answer the same question, but its import and its reading of every
    distribution cost more than the whole of ``scaffold --help``.
    """
    found: dict[str, Path] = {}
    for folder in sys.path:
        for name, package in _offers(folder or "."):
            place = _package_folder(package)
            if place is not None and name not in found:
                found[name] = place
    return tuple(sorted(found.items()))


def _offers(folder: str) -> Iterator[tuple[str, str]]:
    """Yields the distributions of one folder that offer templates, with the package's name."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".dist-info")]
    except OSError:
        return
    for name in names:
        text = _text_or_empty(os.path.join(folder, name, "entry_points.txt"))
        if f"[{GROUP}]" in text:
            section = text.partition(f"[{GROUP}]")[2].partition("\n[")[0]
            for row in section.splitlines():
                _, is_pair, package = row.partition("=")
                if is_pair and not row.lstrip().startswith(("#", ";")):
                    yield name.partition("-")[0], package.strip()


def _package_folder(package: str) -> Path | None:
    parts = package.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    for folder in sys.path:
        place = Path(folder, *parts)
        if place.is_dir():
            return place
    return _editable_folder(parts)


def _editable_folder(parts: list[str]) -> Path | None:
    """Asks the import system where a top-level package is, which imports nothing."""
    from importlib.util import find_spec

    try:
        spec = find_spec(parts[0])
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        place = Path(folder, *parts[1:])
        if place.is_dir():
            return place
    return None


def _text_or_empty(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
