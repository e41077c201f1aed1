"""Names that something in the target has already: a unit, a registered key, a file, a variable."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from scaffold.edit import shapes
from scaffold.errors import ConflictError
from scaffold.syntax import parse
from scaffold.templating.names import fold
from scaffold.templating.request import Request
from scaffold.transaction.snapshot import Snapshot

_HINT = "choose another name"


def package_init(path: str) -> str:
    """Return the file of the package that a module is in; empty for what is no module."""
    place = PurePosixPath(path)
    return str(place.with_name("__init__.py")) if place.suffix == ".py" else ""


def check_spelling(request: Request, snapshot: Snapshot) -> None:
    """Refuse a name that a unit or a registered key has in another spelling.

    Raises:
        ConflictError: One has.
    """
    twins = _twins(request.key, snapshot.siblings)
    for entry in request.edited():
        data = snapshot.data(entry.file)
        if data is not None:
            twins += _twins(entry.key, shapes.read_entries(data, entry))
    if twins:
        raise ConflictError(
            f"the name {request.key!r} is taken: there is {request.kind.name} {twins[0]!r} already",
            code="name_taken",
            hint=_HINT,
        )


def check_neighbours(path: str, snapshot: Snapshot) -> None:
    """Refuse a file whose name one beside it has in another spelling.

    Where a file system knows no upper case the two are one file, and to a reader always.

    Raises:
        ConflictError: There is one.
    """
    name = PurePosixPath(path).name
    names = {each.removesuffix(".py"): each for each in snapshot.neighbours.get(path, ())}
    twins = _twins(name.removesuffix(".py"), names)
    # The file itself may exist: overwriting it is decided elsewhere.
    if twins and name not in names.values():
        other = PurePosixPath(path).with_name(names[twins[0]])
        raise ConflictError(
            f"{path} would be {other} in another spelling", code="name_taken", hint=_HINT
        )


def check_bound_names(request: Request, path: str, snapshot: Snapshot) -> None:
    """Refuse a module whose package has a variable, function or import of its name.

    Importing the module would put it in the place of that name.

    Args:
        request: What is to be made.
        path: One of its files.
        snapshot: What is at `package_init(path)`.

    Raises:
        ConflictError: The package has one.
    """
    init, name = package_init(path), PurePosixPath(path).stem
    data = snapshot.data(init) if init in snapshot.files else None
    if data is None or name == "__init__" or snapshot.data(path) is not None:
        return
    try:
        line = next((line for bound, line in _bound(parse(data).body) if bound == name), None)
    except SyntaxError:  # the registry's own error has more than could be said here
        return
    if line is not None:
        raise ConflictError(
            f"a module {name!r} would take the place of what {init}:{line} calls so, "
            f"and break the imports of {request.kind.name}s",
            code="name_stdlib",
            hint=_HINT,
        )


def _twins(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are this one in another spelling."""
    return sorted(each for each in known if fold(each) == fold(name) and each != name)


def _bound(body: Iterable[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Yield the names that statements of a module bind, with their lines."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for row in node.names:
                yield row.asname or row.name.partition(".")[0], node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.If | ast.Try | ast.With):
            # Handlers are no statements themselves, but what they contain may bind names.
            parts = [*ast.iter_child_nodes(node)]
            handled = [
                row for each in parts if isinstance(each, ast.ExceptHandler) for row in each.body
            ]
            yield from _bound(row for row in (*parts, *handled) if isinstance(row, ast.stmt))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (each for target in targets for each in ast.walk(target))
            yield from ((n.id, n.lineno) for n in names if isinstance(n, ast.Name))
