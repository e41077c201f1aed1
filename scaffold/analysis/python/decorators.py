"""Which decorators leave a signature as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from scaffold.analysis.python.statements import all_nodes

KEEPING = frozenset(
    {"staticmethod", "classmethod", "property", "abstractmethod", "override", "final", "overload"}
    | {"cache", "lru_cache", "cached_property", "contextmanager", "asynccontextmanager"}
    | {"no_grad", "inference_mode", "enable_grad", "set_grad_enabled", "no_type_check"}
    | {"deprecated", "setter", "getter", "deleter", "abstractproperty", "abstractclassmethod"}
    | {"abstractstaticmethod", "singledispatch", "wraps", "runtime_checkable", "unique"}
    | {"total_ordering", "type_check_only", "dataclass", "dataclass_transform", "skip", "skipif"}
    | {"parametrize"}
)
"""The last parts of names of decorators that neither add nor take parameters."""

PROPERTIES = frozenset({"property", "cached_property", "abstractproperty", "functional_property"})


def last_part(dotted: str) -> str:
    """Return the part of a dotted name after its last dot, without the ``()`` of a call."""
    return dotted.removesuffix("()").rpartition(".")[2]


def has_decorator(decorators: tuple[str, ...], *names: str) -> bool:
    """Return whether one of these decorators has one of these last names."""
    return any(last_part(each) in names for each in decorators)


def effect(function: ast.FunctionDef | ast.AsyncFunctionDef, body: Sequence[ast.stmt]) -> str:
    """Return what a function does as a decorator.

    Args:
        function: The function.
        body: Its own statements, those of nested functions left out.

    Returns:
        ``keeps`` where what it returns takes the same arguments as what it gets; ``makes`` where
        it returns a decorator that keeps; an empty text for all else.
    """
    given = [*function.args.posonlyargs, *function.args.args]
    first = given[0].arg if given else ""
    nested = {
        each.name: each
        for each in body
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    found: set[str] = set()
    for node in body:
        if not isinstance(node, ast.Return):
            continue
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        inner = nested.get(name)
        if (name and name == first) or (inner is not None and _passes_on(inner, first)):
            found.add("keeps")
        elif inner is not None and effect(inner, inner.body) == "keeps":
            found.add("makes")
        # A return of anything else leaves open what the function makes.
        else:
            return ""
    return found.pop() if len(found) == 1 else ""


def _passes_on(function: ast.FunctionDef | ast.AsyncFunctionDef, wrapped: str) -> bool:
    """Return whether a wrapper takes anything and hands all of it to what it wraps."""
    if not any(_is_wraps(each, wrapped) for each in function.decorator_list):
        return False
    rest, words = function.args.vararg, function.args.kwarg
    # A keyword-only parameter of the wrapper is one more than the wrapped function takes.
    if rest is None or words is None or function.args.kwonlyargs:
        return False
    names = {rest.arg, words.arg, *(each.arg for each in function.args.args)}
    # A wrapper that also reads *args or **kwargs elsewhere may demand or drop an argument.
    calls = [each for each in all_nodes(function) if _is_call_of(each, wrapped)]
    handed = {id(name) for call in calls for name in _handed_on(call)}
    used = [each for each in all_nodes(function) if isinstance(each, ast.Name) and each.id in names]
    stars = {rest.arg, words.arg}
    return bool(calls) and all(id(each) in handed for each in used if each.id in stars)


def _is_wraps(node: ast.expr, wrapped: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "wraps"
        and any(isinstance(each, ast.Name) and each.id == wrapped for each in node.args)
    )


def _is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _handed_on(call: ast.AST) -> Iterator[ast.AST]:
    """Yield the names that a call unpacks; none where it hands on anything else of its own."""
    if isinstance(call, ast.Call):
        plain = [each for each in call.args if not isinstance(each, ast.Starred)]
        if all(isinstance(each, ast.Name) for each in plain) and all(
            word.arg is None for word in call.keywords
        ):
            yield from (each.value for each in call.args if isinstance(each, ast.Starred))
            yield from (word.value for word in call.keywords)
