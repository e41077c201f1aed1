"""Whether a keyword that ``**kwargs`` hands on is taken where it ends up."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.analysis.python.sources import Source
from scaffold.deps.deprecation_texts import Function
from scaffold.deps.keywords import taken_by_kwargs
from scaffold.deps.release import Release

_DEEPEST = 6


Place = tuple[Source, Function]
"""A function with its source."""


def takes(release: Release, place: Place, name: str, depth: int = 0) -> bool | None:
    """Return whether a keyword is taken, followed through what is called with ``**kwargs``.

    Returns:
        None where that does not show: a callee is not known, or the keyword is kept in a dict.
    """
    node = place[1]
    arguments = node.args
    named = [*arguments.args, *arguments.kwonlyargs]
    if any(each.arg == name for each in named):
        return True
    if arguments.kwarg is None:
        return False
    how = taken_by_kwargs(node, name).how
    if how in ("read", "deprecated", "refused"):
        return True
    # Unread here does not mean refused: the dict may be kept and read later.
    if how == "unread" or depth > _DEEPEST:
        return None
    answers = [
        takes(release, each, name, depth + 1) if each is not None else None
        for each in _callees(release, place, arguments.kwarg.arg)
    ]
    # One callee that takes it is proof; one that is unknown leaves the rest open.
    if not answers or None in answers:
        return True if True in answers else None
    return any(answers)


def _callees(release: Release, place: Place, kwargs: str) -> Iterator[Place | None]:
    """Yield the functions that are called with ``**kwargs``; None for one that is not known."""
    spread = _copies(place[1], kwargs)
    for each in ast.walk(place[1]):
        if not isinstance(each, ast.Call):
            continue
        handed = [word.value for word in each.keywords if word.arg is None]
        if any(isinstance(value, ast.Name) and value.id in spread for value in handed):
            yield _callee(release, place, each.func)


def _copies(node: Function, kwargs: str) -> set[str]:
    found = {kwargs}
    for each in ast.walk(node):
        # A copy that loses or gains keys on the way is none of these forms, and stays unknown.
        if isinstance(each, ast.Assign) and ast.unparse(each.value) in (
            *(kwargs, f"{kwargs}.copy()", f"dict({kwargs})"),
        ):
            found |= {target.id for target in each.targets if isinstance(target, ast.Name)}
    return found


def _callee(release: Release, place: Place, function: ast.expr) -> Place | None:
    source, node = place
    names = {ast.unparse(function)}
    if names == {"super().__init__"}:
        classes = (each for each in ast.walk(source.tree) if isinstance(each, ast.ClassDef))
        owner = next((each for each in classes if node in each.body), None)
        # Of several bases the first is the next in the order of resolution, as far as it shows.
        names = {ast.unparse(each) for each in owner.bases[:1]} if owner else names
    elif isinstance(function, ast.Name):
        names = set(_assigned(node, function.id)) or names
    found = [_constructor(release, source.path, name) for name in sorted(names)]
    known = [each for each in found if each is not None]
    return known[0] if len(known) == 1 else None


def _assigned(node: Function, name: str) -> Iterator[str]:
    """Yield the names that a variable of a function is set to, alone or behind an ``or``."""
    for each in ast.walk(node):
        if not isinstance(each, ast.Assign):
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in each.targets):
            values = each.value.values if isinstance(each.value, ast.BoolOp) else [each.value]
            values = [part for value in values for part in _cast(value)]
            yield from (ast.unparse(value) for value in values if isinstance(value, ast.Name))


def _cast(value: ast.expr) -> list[ast.expr]:
    """Return what ``cast(kind, value)`` or ``d.pop(key, value)`` may give; else the value."""
    if not isinstance(value, ast.Call) or len(value.args) != 2:
        return [value]
    is_either = ast.unparse(value.func).rpartition(".")[2] in ("cast", "pop", "get")
    return value.args[1:] if is_either else [value]


def _constructor(release: Release, path: str, name: str, depth: int = 0) -> Place | None:
    """Return the function behind a name: itself, or the ``__init__`` of a class or its base."""
    found = release.index.find_in(path, name)
    node = release.definition(found)
    source = release.source(found.path) if found.path else None
    if source is None or node is None or depth > _DEEPEST:
        return None
    if not isinstance(node, ast.ClassDef):
        return source, node
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return source, each
    if not node.bases:
        return None
    return _constructor(release, source.path, ast.unparse(node.bases[0]), depth + 1)
