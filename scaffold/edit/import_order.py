"""The order of imports as isort and ruff keep it, force-sort-within-sections off.

Source: the defaults of ruff's rule I001: sections future, standard library, third party, first
party, local; in each, ``import x`` before ``from x import y``, then by module with numbers compared
as numbers, relative modules from far to near; names in SCREAMING_CASE, CamelCase, then the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from scaffold.edit.ordering import natural

FUTURE, STANDARD, THIRD_PARTY, FIRST_PARTY, LOCAL = range(5)


def level(module: str) -> int:
    """Return how many dots a module begins with."""
    return len(module) - len(module.lstrip("."))


def package(module: str) -> str:
    """Return what siblings share: the dots of a relative module, else the top-level package."""
    return "." * level(module) or module.split(".")[0]


def section(module: str, file: str) -> int:
    """Return the section of a module; a package on the file's own path is first party."""
    top = package(module)
    if top.startswith("."):
        return LOCAL
    if top == "__future__":
        return FUTURE
    if top in PurePosixPath(file).parts:
        return FIRST_PARTY
    return STANDARD if top in sys.stdlib_module_names else THIRD_PARTY


def module_rank(module: str, is_from: bool) -> tuple[Any, ...]:
    """Return the key that statements of one section are sorted by."""
    return int(is_from), -level(module), natural(module.lstrip(".").casefold())


def absolute(module: str, file: str) -> str:
    """Return a relative module with the folders of the file that names it, dotted."""
    dots = level(module)
    if not dots:
        return module
    folders = PurePosixPath(file).parts[:-1]
    # One dot is the file's own package, each further one a folder up.
    folders = folders[: len(folders) - dots + 1]
    return ".".join([*folders, *filter(None, [module[dots:]])])


def is_same_module(one: str, other: str, file: str) -> bool:
    """Return whether two modules are one, be it that one is relative and the other is not."""
    if level(one) == level(other) or (level(one) and level(other)):
        return one == other
    relative, plain = (one, other) if level(one) else (other, one)
    # The path begins at the root of the repository, the module at a package below it
    # (`src/pkg/a.py`).
    return f".{absolute(relative, file)}".endswith(f".{plain}")


def sorted_place(ranks: Sequence[tuple[Any, Any]], own: tuple[Any, Any]) -> int:
    """Return the index for a rank of module and name among others.

    Names count where the others keep them in order too. Where not even their modules are, the new
    one goes to the end.
    """
    if list(ranks) == sorted(ranks):
        return next((n for n, each in enumerate(ranks) if each > own), len(ranks))
    modules = [module for module, _ in ranks]
    if modules == sorted(modules):
        return next((n for n, each in enumerate(modules) if each > own[0]), len(ranks))
    return len(ranks)
