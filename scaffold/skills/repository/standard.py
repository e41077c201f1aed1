"""What is known of Python's own names without importing anything for it."""

from __future__ import annotations

import abc
import ast
import builtins
import collections
import collections.abc
import contextlib
import dataclasses
import enum
import functools
import sys
import types
import typing

_LOADED: dict[str, types.ModuleType] = {
    "abc": abc,
    "ast": ast,
    "builtins": builtins,
    "collections": collections,
    "collections.abc": collections.abc,
    "contextlib": contextlib,
    "dataclasses": dataclasses,
    "enum": enum,
    "functools": functools,
    "types": types,
    "typing": typing,
}
"""Modules that this program needs anyway; the rest of the library stays undecided."""


def is_standard(name: str) -> bool:
    """Tells whether a top-level name belongs to Python itself."""
    return name in sys.stdlib_module_names or name == "builtins"


def standard_object(dotted: str) -> object | None:
    """Returns the object of a standard name, if its module is at hand; else None."""
    module, _, name = dotted.rpartition(".")
    return getattr(_LOADED.get(module or "builtins"), name, None)
