"""Code that does without a name where it is missing: fallbacks and questions of version."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

# What Python raises for a module, a name or a parameter that is not there; a handler for one of
# them holds what an older release needs.
_ABSENCE = frozenset(
    {"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "NameError"}
)
# `pkg.__version__ >= "2"`, `find_spec(...)`, `IS_PYDANTIC_V2`, `TORCH_GTE_2_4`,
# `"x" in inspect.signature(f).parameters`.
_VERSION = re.compile(
    r"version|find_spec|_V\d|\bV\d|_LT_|_GTE?_|' (?:not )?in \S*\bsignature\(", re.IGNORECASE
)
_OF_PYTHON = re.compile(r"sys\.version_info|python_version|sys\.hexversion")


@dataclass(frozen=True)
class Guard:
    """What is around a use and does without it, as far as that goes.

    Args:
        text: What a reader sees: ``except ImportError``; "" where nothing is guarded.
        catches: The exceptions that are caught, and not raised again.
        names: The names whose presence is asked for before.
        is_either: Whether one of two releases was asked for, so that anything may be lacking.
        absent: The dotted names, in parts, without which alone it is reached.
    """

    text: str = ""
    catches: frozenset[str] = field(default=frozenset(), compare=False)
    names: frozenset[str] = field(default=frozenset(), compare=False)
    is_either: bool = field(default=False, compare=False)
    absent: frozenset[tuple[str, ...]] = field(default=frozenset(), compare=False)

    def __bool__(self) -> bool:
        return bool(self.text)

    def __or__(self, inner: Guard) -> Guard:
        """Return both: a block inside of another one is guarded by each."""
        text = self.text or inner.text
        catches, names = self.catches | inner.catches, self.names | inner.names
        either = self.is_either or inner.is_either
        return Guard(text, catches, names, either, self.absent | inner.absent)

    def covers(self, raised: str, name: str) -> bool:
        """Return whether a failure is provided for.

        Args:
            raised: The exception by which it shows; "" where nothing is raised.
            name: The name that is lacking.
        """
        if self.is_either or (name and name in self.names):
            return True
        kind = getattr(builtins, raised, None) if raised else None
        if not isinstance(kind, type):
            return False
        caught = (getattr(builtins, each, None) for each in self.catches)
        return any(isinstance(each, type) and issubclass(kind, each) for each in caught)


NO_GUARD = Guard()


def guard_of_try(node: ast.Try | ast.TryStar) -> Guard:
    """Return what a ``try`` catches and does not raise again."""
    caught, told = set[str](), ""
    for handler in node.handlers:
        names = _caught(handler)
        # The first handler that fits runs; one that raises again provides for nothing.
        if not isinstance(handler.body[-1], ast.Raise):
            caught |= names
            builtin = sorted(each for each in names if _may_mean_absence(each))
            told = told or (builtin[0] if builtin else "")
    text = f"except {told}" if told else ""
    return Guard(text, frozenset(caught)) if text else NO_GUARD


def guard_of_handler(handler: ast.ExceptHandler) -> Guard:
    """Return the guard of what a handler does: of an absence it is the other release's way."""
    found = sorted(_caught(handler) & _ABSENCE)
    return Guard(f"except {found[0]}", is_either=True) if found else NO_GUARD


def guard_of_test(test: ast.expr) -> Guard:
    """Return a condition that asks for a version or a name; none where it asks for neither."""
    text = ast.unparse(test)
    short = f"if {text}" if len(text) <= 60 else f"if {text[:57]}..."
    # A question about Python's own version guards nothing of the package.
    if _VERSION.search(_OF_PYTHON.sub("", text)):
        return Guard(short, is_either=True)
    asked = frozenset(
        each.args[1].value
        for each in ast.walk(test)
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "hasattr"
        if len(each.args) == 2 and isinstance(each.args[1], ast.Constant)
        if isinstance(each.args[1].value, str)
    )
    return Guard(short, names=asked) if asked else NO_GUARD


def guard_of_with(node: ast.With | ast.AsyncWith) -> Guard:
    """Return the ``suppress(...)`` around a block."""
    suppressing = (guard_of_call(item.context_expr, ("suppress",)) for item in node.items)
    found = (each for each in suppressing if any(map(_may_mean_absence, each.catches)))
    return next(found, NO_GUARD)


def guard_of_call(node: ast.expr, functions: Iterable[str]) -> Guard:
    """Return what a call such as ``suppress(ImportError)`` or ``pytest.raises(...)`` catches.

    Args:
        node: The call; any other expression guards nothing.
        functions: The last parts of the names of such functions.
    """
    if not isinstance(node, ast.Call) or not _last_names([node.func]) & {*functions}:
        return NO_GUARD
    lists = (each.elts if isinstance(each, ast.Tuple) else [each] for each in node.args)
    names = _last_names(name for row in lists for name in row)
    # An error of a name that is not Python's, such as that of a variable, may be any.
    is_any = not any(hasattr(builtins, each) for each in names)
    return Guard(ast.unparse(node), frozenset(names), is_either=is_any)


def hides_absence(call: ast.Call) -> bool:
    """Return whether a call goes on with something else where a name is not there."""
    name = ast.unparse(call.func)
    return name == "hasattr" or (name == "getattr" and len(call.args) == 3)


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    kind = handler.type
    return _last_names(kind.elts if isinstance(kind, ast.Tuple) else [kind])


def _last_names(nodes: Iterable[ast.expr]) -> set[str]:
    return {ast.unparse(each).rpartition(".")[2] for each in nodes}


def _may_mean_absence(name: str) -> bool:
    return any(Guard(name, frozenset({name})).covers(each, "") for each in _ABSENCE)
