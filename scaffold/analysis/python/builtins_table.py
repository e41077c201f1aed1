"""Python's own names: their existence only, for versions differ."""

from __future__ import annotations

import importlib
import inspect
import sys
import typing
from typing import Any, NamedTuple

# Spelled out, and not all of sys.stdlib_module_names: to import `this` or `antigravity` does
# things.
_MODULES = """
abc argparse ast base64 builtins collections collections.abc contextlib copy csv dataclasses
datetime decimal enum functools hashlib html inspect io itertools json logging math operator os
os.path pathlib pickle queue random re shutil socketserver string subprocess sys tempfile
textwrap threading time traceback types typing unittest urllib.parse uuid warnings weakref
zipfile
"""
_HARMLESS = frozenset(_MODULES.split())
"""Modules that do nothing but define names, so that to ask them changes nothing."""

_STABLE = frozenset({"builtins", "abc", "enum", "typing", "collections.abc", "_collections_abc"})
"""Modules whose classes have the same public members in every supported Python."""


class StandardName(NamedTuple):
    """A name of Python's own library.

    Args:
        dotted: The name, with its module.
        real: The object, or None where it is not known.
    """

    dotted: str
    real: Any = None

    @property
    def base(self) -> type | None:
        """The class of this name as a base, or None."""
        # typing.List and its like are aliases; the class behind them is their origin.
        origin = getattr(self.real, "__origin__", self.real)
        # Both are functions in some versions of Python and classes in others.
        if self.dotted.endswith(".NamedTuple"):
            return tuple
        if self.dotted.endswith(".TypedDict"):
            return dict
        return origin if isinstance(origin, type) else None

    @property
    def is_stable(self) -> bool:
        """Whether its members are the same in every supported Python."""
        return getattr(self.base, "__module__", "") in _STABLE


def is_standard(name: str) -> bool:
    """Return whether a top-level name belongs to Python itself."""
    return name in sys.stdlib_module_names or name == "builtins"


def standard_name(dotted: str) -> StandardName:
    """Return a name of Python's own library, with its object where that is safe to ask."""
    module, _, name = dotted.rpartition(".")
    if module not in _HARMLESS:
        return StandardName(dotted)
    return StandardName(dotted, getattr(importlib.import_module(module), name, None))


def has_member(base: type, name: str) -> bool:
    """Return whether a class, its bases or its metaclass define a name."""
    # vars() of each class, as hasattr() would run descriptors and a metaclass's __getattr__.
    chain = (*inspect.getmro(base), *inspect.getmro(type(base)))
    return any(name in vars(each) for each in chain) or (base is tuple and hasattr(_Tuple, name))


class _Tuple(typing.NamedTuple):
    """Any named tuple, for the members that all of them have."""
