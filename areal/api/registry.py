"""Names to objects: literal tables of ``"module:attr"`` strings, resolved on first use."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from areal.api.errors import UnknownNameError


def import_from_string(path: str) -> Any:
    """Import the object that a dotted path names.

    Args:
        path: ``"pkg.mod.Obj"`` or ``"pkg.mod:Obj"``; after the colon, dots reach into classes.

    Raises:
        TypeError: The path is no text.
        ValueError: The path is empty or has no dot and no colon.
        ImportError: The module cannot be imported.
        AttributeError: The module has no such attribute; the message names both.
    """
    if not isinstance(path, str):
        raise TypeError(
            f"a dotted path is text such as 'package.module.Name', found {type(path).__name__} "
            f"{path!r}"
        )
    module_path, sep, attribute = path.partition(":")
    if not sep:
        module_path, _, attribute = path.rpartition(".")
    if not module_path or not attribute:
        raise ValueError(f"{path!r} is not a dotted path; write it as 'package.module.Name'")
    found: Any = importlib.import_module(module_path)
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise AttributeError(f"module {module_path!r} has no attribute {attribute!r}") from error
    return found


def nearest_names(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'? known: a, b"`` for a message; no guess if none is near."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    guess = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{guess} known: {', '.join(names)}"


def resolve(table: Mapping[str, str], kind: str, name: str) -> Any:
    """Return the object of a registered name or a dotted path.

    Args:
        table: Registered name to ``"module:attr"``.
        kind: What the table holds, for messages ("reward").
        name: A key of the table, or a dotted path to any object.

    Raises:
        UnknownNameError: The name is neither; the message suggests the nearest key.
    """
    if name in table:
        return import_from_string(table[name])
    if "." not in name and ":" not in name:
        raise UnknownNameError(f"unknown {kind} {name!r}{nearest_names(name, table)}")
    try:
        return import_from_string(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownNameError(f"cannot import {kind} {name!r}: {error}") from error


def lazy_exports(
    module_name: str, imports: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make module-level ``__getattr__`` and ``__dir__`` for a package's lazy names (PEP 562).

    Args:
        module_name: The package's ``__name__``.
        imports: Public name to the module that defines it; a module may stand for itself.
    """

    def module_getattr(name: str) -> Any:
        if name not in imports:
            raise AttributeError(f"module {module_name!r} has no attribute {name!r}")
        module = importlib.import_module(imports[name])
        is_itself = module.__name__.rpartition(".")[2] == name
        return getattr(module, name, module) if is_itself else getattr(module, name)

    def module_dir() -> list[str]:
        return sorted(imports)

    return module_getattr, module_dir
