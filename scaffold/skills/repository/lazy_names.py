"""Names that a module gives on first use: import maps and a module-level ``__getattr__``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from scaffold.skills.repository.scopes import Scope, dotted_name, statements


@dataclass(slots=True)
class LazyNames:
    """Is what a module gives beyond what it binds.

    Args:
        is_there: Whether it has a ``__getattr__`` or replaces itself by a lazy module.
        targets: The names of its literal tables, each with the dotted names it may stand for;
            one that begins with a dot is relative to the module's own package.
        is_complete: Whether a name outside the tables is refused for certain.
    """

    is_there: bool = False
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    is_complete: bool = False


def read_lazy_names(tree: ast.Module, scope: Scope) -> LazyNames:
    """Reads the lazy names of a module."""
    if "__getattr__" not in scope.names and not _replaces_itself(tree):
        return LazyNames()
    targets: dict[str, tuple[str, ...]] = {}
    for node, _ in statements(tree.body):
        for key, value in _entries(node):
            for name, dotted in _names(key, value):
                targets[name] = tuple(dict.fromkeys((*targets.get(name, ()), *dotted)))
    return LazyNames(True, targets, False)


def _replaces_itself(tree: ast.Module) -> bool:
    for node, _ in statements(tree.body):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and dotted_name(target.value) == "sys.modules":
                    return True
    return False


def _entries(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yields the string keys and the values of the literal tables that a statement fills."""
    value = getattr(node, "value", None)
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.Dict):
        for key, each in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, each


def _names(key: str, value: ast.expr) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the names of one entry, and the dotted names that each may stand for."""
    texts = [
        each.value
        for each in ast.walk(value)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    if isinstance(value, ast.Constant) and texts:
        yield key, _candidates(key, texts[0])
    elif isinstance(value, ast.Tuple) and len(texts) == 2 and len(value.elts) == 2:
        yield key, _joined(texts[0], texts[1])
    elif isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        for name in texts:
            yield name, _joined(key, name)


def _candidates(name: str, text: str) -> tuple[str, ...]:
    module, colon, attribute = text.partition(":")
    if colon:
        return _joined(module, attribute)
    return (*_joined(text, name), *_spellings(text))


def _joined(module: str, name: str) -> tuple[str, ...]:
    dotted = f"{module}{name}" if module.endswith(".") else f"{module}.{name}"
    return _spellings(dotted)


def _spellings(dotted: str) -> tuple[str, ...]:
    return (dotted,) if dotted.startswith(".") else (dotted, f".{dotted}")
