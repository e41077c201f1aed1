"""What the tool remembers of a request: the unit, its rendered bases, the author's todos."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scaffold.errors import ConflictError, TemplateError
from scaffold.templating.request import Request
from scaffold.transaction.change import Change
from scaffold.transaction.digest import digest
from scaffold.transaction.snapshot import Snapshot
from scaffold.units.ledger import (
    ATTRIBUTES,
    ATTRIBUTES_TEXT,
    LedgerFile,
    TemplateUse,
    Todo,
    Unit,
    base_path,
    dump_unit,
    record_path,
)
from scaffold.units.todos import OpenTodo, find_todos

if TYPE_CHECKING:
    from scaffold.templating.render import RenderedFile


def unit_of(request: Request, rendered: Iterable[RenderedFile]) -> Unit:
    """Return the unit that a request makes.

    Raises:
        TemplateError: A rendered file marks a place that cannot be found again.
    """
    files = tuple(rendered)
    kind = request.kind
    parts = [(f"{kind.name}/{style.name}", style.version, style.origin) for style in request.styles]
    # A kind without files of its own is no template that the unit could be outdated from.
    if kind.files:
        parts.insert(0, (kind.name, kind.version, kind.origin))
    return Unit(
        kind=kind.name,
        name=request.key,
        styles=request.style_names,
        answers=dict(request.answers),
        symbol=request.symbol,
        proof=request.proof,
        templates=tuple(TemplateUse(*part) for part in parts),
        files=tuple(LedgerFile(file.path, file.role, digest(file.data)) for file in files),
        entries=request.edited(),
        todos=tuple(Todo(p.file, p.symbol, p.why) for p in marked_todos(files)),
    )


def records_of(unit: Unit, rendered: Iterable[RenderedFile], snapshot: Snapshot) -> list[Change]:
    """Return the tool's own files: the ledger entry, the bases, and how git treats them.

    Raises:
        ConflictError: One of them cannot be written.
    """
    wanted = {base_path(unit.kind, unit.name, file.path): file.data for file in rendered}
    wanted[record_path(unit.kind, unit.name)] = dump_unit(unit)
    # One that exists may hold a person's lines, and stays.
    if snapshot.data(ATTRIBUTES) is None:
        wanted[ATTRIBUTES] = ATTRIBUTES_TEXT
    for path in wanted:
        if snapshot.files[path].problem:
            state = snapshot.files[path]
            code = "outside_target" if state.is_outside else "file_exists"
            raise ConflictError(f"{path} {state.problem}", code=code)
    return [
        Change(path, "record", snapshot.data(path), data)
        for path, data in sorted(wanted.items())
        if not _is_recorded(data, snapshot.data(path))
    ]


def _is_recorded(data: bytes, now: bytes | None) -> bool:
    """Return whether a record has this content already; git may have given it Windows line ends."""
    return now is not None and data in (now, now.replace(b"\r\n", b"\n"))


def marked_todos(rendered: Iterable[RenderedFile]) -> list[OpenTodo]:
    """Return the todos that rendered files leave to the author.

    Raises:
        TemplateError: A comment marks nothing.
    """
    found: list[OpenTodo] = []
    for file in rendered:
        if file.path.endswith(".py"):
            try:
                found += find_todos(file.path, file.data.decode())
            except ValueError as error:
                raise TemplateError(f"{file.path}: {error}", code="template_invalid") from error
    return found
