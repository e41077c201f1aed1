"""What a function does with one keyword that only its ``**kwargs`` takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, NamedTuple

from scaffold.deps.deprecation_texts import Function, has_warning, raised_text
from scaffold.deps.release import Place, Release

Treatment = Literal["refused", "deprecated", "read", "passed", "unread"]


class Taken(NamedTuple):
    """The fate of a keyword in the new release.

    Args:
        how: ``refused`` (it raises), ``deprecated`` (it warns), ``read``, ``passed`` on to
            something else, or ``unread``.
        text: The words of the warning or error.
    """

    how: Treatment
    text: str = ""


def taken_by_kwargs(node: Function, name: str) -> Taken:
    """Return what the body of a function with ``**kwargs`` does with a keyword."""
    kwargs = node.args.kwarg
    if kwargs is None:
        return Taken("unread")
    nodes = list(ast.walk(node))
    reading = [each for each in nodes if _reads(each, kwargs.arg, name)]
    assigned = [each for each in nodes if isinstance(each, ast.Assign) and each.value in reading]
    targets = [target for each in assigned for target in each.targets]
    held = {target.id for target in targets if isinstance(target, ast.Name)}
    is_read = bool(reading)
    for each in nodes:
        if isinstance(each, ast.If) and _is_about(each.test, held, kwargs.arg, name):
            refused = raised_text(each.body)
            # `if "x" in kwargs: raise` refuses it, `if "x" not in kwargs: raise` asks for it.
            if refused is not None and _means_given(each.test):
                return Taken("refused", refused)
            warned = has_warning(each.body)
            if warned:
                return Taken("deprecated", warned)
            is_read = True
    if is_read:
        return Taken("read")
    return Taken("passed" if _passes_on(nodes, kwargs.arg) else "unread")


def _reads(node: ast.AST, kwargs: str, name: str) -> bool:
    """Return whether an expression is ``kwargs.pop("name")``, ``.get("name")`` or ``["name"]``."""
    key: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        if node.func.attr in ("pop", "get", "setdefault") and _is(node.func.value, kwargs):
            key = node.args[0]
    elif isinstance(node, ast.Subscript) and _is(node.value, kwargs):
        key = node.slice
    return isinstance(key, ast.Constant) and key.value == name


def _is_about(test: ast.expr, held: set[str], kwargs: str, name: str) -> bool:
    names = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
    # Sentinels are libraries' ways to tell a default from a given None.
    if held and names <= {*held, "_Unset", "Undefined", "UNSET"} and names & held:
        return True
    words = {each.value for each in ast.walk(test) if isinstance(each, ast.Constant)}
    return kwargs in names and name in words and isinstance(test, (ast.Compare, ast.NamedExpr))


def _means_given(test: ast.expr) -> bool:
    """Return whether a condition holds for any value that was given: ``x is not None``, ``x``."""
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], (ast.IsNot, ast.In, ast.NotEq))
    return isinstance(test, (ast.Name, ast.NamedExpr))


def _passes_on(nodes: list[ast.AST], kwargs: str) -> bool:
    for each in nodes:
        if isinstance(each, ast.Call):
            handed = [word.value for word in each.keywords if word.arg is None]
            if any(_is(value, kwargs) for value in [*each.args, *handed]):
                return True
        elif any(_is(value, kwargs) for value in _stored(each)):
            return True
    return False


def _stored(node: ast.AST) -> list[ast.AST]:
    """Return the values by which a statement or a dict hands something on."""
    if isinstance(node, (ast.Assign, ast.Return)) and node.value is not None:
        value = node.value
        is_copy = isinstance(value, ast.Call) and ast.unparse(value.func).endswith(".copy")
        return [value, *ast.walk(value)] if is_copy else [value]
    if isinstance(node, ast.For):
        return list(ast.walk(node.iter))
    return list(node.values) if isinstance(node, ast.Dict) else []


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


_DEEPEST = 6


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
    """Return the one function that is called, of a class its constructor."""
    found: list[Place] = []
    for name in dict.fromkeys(_names(place, function)):
        signature = release.index.signature_of(release.index.find_in(place[0].path, name))
        body = None if signature is None else release.body_of(signature)
        found += [] if body is None else [body]
    return found[0] if len(found) == 1 else None


def _names(place: Place, function: ast.expr) -> Iterator[str]:
    """Yield the names that what is called may go by, in the order of the text."""
    source, node = place
    name = ast.unparse(function)
    if name != "super().__init__":
        yield name
    for each in ast.walk(node if name != "super().__init__" else source.tree):
        # Of several bases the first is the next in the order of resolution, as far as it shows.
        if isinstance(each, ast.ClassDef) and node in each.body:
            yield from map(ast.unparse, each.bases[:1])
        # `kind = kind or more.pop("kind", Default)`: only one of these is a class.
        elif isinstance(each, ast.Assign) and name in map(ast.unparse, each.targets):
            yield from (one.id for one in ast.walk(each.value) if isinstance(one, ast.Name))
