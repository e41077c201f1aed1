"""What a name can turn out to be: a binding with its module."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scaffold.analysis.python.bindings import ClassBinding, FunctionBinding, ValueBinding
from scaffold.analysis.python.decorators import KEEPING, last_part
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.modules import Module


class ClassEntry(NamedTuple):
    """A class with the module that defines it."""

    binding: ClassBinding
    module: Module

    @property
    def place(self) -> str:
        """The file that defines it."""
        return self.module.place


class FunctionEntry(NamedTuple):
    """A function or method with the module that defines it.

    Args:
        binding: The ``def``.
        module: Its module.
        owner: The class whose member it is, or None.
    """

    binding: FunctionBinding
    module: Module
    owner: ClassEntry | None = None


class ValueEntry(NamedTuple):
    """An assigned name with its module."""

    binding: ValueBinding
    module: Module


Resolve = Callable[[Module, str], Found]
"""Find what a dotted name means as code in a module writes it."""


def keeps_signature(decorators: tuple[str, ...], module: Module, resolve: Resolve) -> bool:
    """Return whether decorators leave parameters and members alone.

    Args:
        decorators: As written.
        module: Where they are written.
        resolve: Finds the decorators that the repository defines itself.
    """
    return all(each in _BUILT_IN or _keeps(each, module, resolve) for each in decorators)


_BUILT_IN = frozenset({"property", "staticmethod", "classmethod"})


def _keeps(decorator: str, module: Module, resolve: Resolve) -> bool:
    name = decorator.removesuffix("()")
    if "?" in name:
        return False
    found = resolve(module, name)
    if not isinstance(found.thing, FunctionEntry):
        # A library's, known by its name; a class of the repository may do anything.
        return last_part(name) in KEEPING and not isinstance(found.thing, ClassEntry)
    # `@d()` applies what d returns, `@d` applies d itself.
    expected = "makes" if decorator.endswith("()") else "keeps"
    binding = found.thing.binding
    return found.is_certain and binding.effect == expected and not binding.decorators
