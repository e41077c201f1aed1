"""What a name can turn out to be: a binding, and the module that it stands in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scaffold.skills.repository.bindings import ClassBinding, FunctionBinding, ValueBinding
from scaffold.skills.repository.decorators import KEEPING, last_part
from scaffold.skills.repository.found import Found
from scaffold.skills.repository.modules import Module


@dataclass(frozen=True, slots=True)
class ClassEntry:
    """Is a class where it stands: its binding and its module."""

    binding: ClassBinding
    module: Module

    @property
    def place(self) -> str:
        """The file in which it stands."""
        return self.module.place


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    """Is a function or method where it stands.

    Args:
        binding: The ``def``.
        module: Its module.
        owner: The class whose member it is, or None.
    """

    binding: FunctionBinding
    module: Module
    owner: ClassEntry | None = None


@dataclass(frozen=True, slots=True)
class ValueEntry:
    """Is an assigned name where it stands."""

    binding: ValueBinding
    module: Module


Resolve = Callable[[Module, str], Found]
"""Finds what a dotted name means as code in a module writes it."""


def keeps_signature(decorators: tuple[str, ...], module: Module, resolve: Resolve) -> bool:
    """Tells whether decorators leave parameters and members alone.

    Args:
        decorators: As written.
        module: Where they are written.
        resolve: Finds the decorators that the repository defines itself.
    """
    return all(
        last_part(each) in KEEPING or _is_known_to_keep(each, module, resolve)
        for each in decorators
    )


def _is_known_to_keep(decorator: str, module: Module, resolve: Resolve) -> bool:
    name = decorator.removesuffix("()")
    if "?" in name:
        return False
    found = resolve(module, name)
    if not isinstance(found.thing, FunctionEntry) or not found.is_certain:
        return False
    expected = "makes" if decorator.endswith("()") else "keeps"
    binding = found.thing.binding
    return binding.effect == expected and not binding.decorators
