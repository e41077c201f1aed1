"""What the tool remembers of a request: the unit, its rendered bases, the author's places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from scaffold.errors import ConflictError, TemplateError
from scaffold.templating.request import Request
from scaffold.templating.spec import (
    AnswerValue,
    all_answers,
)
from scaffold.transaction.change import Change, digest
from scaffold.transaction.snapshot import Snapshot
from scaffold.units.ledger import (
    ATTRIBUTES,
    ATTRIBUTES_TEXT,
    MadeFile,
    Place,
    TemplateUse,
    Unit,
    base_path,
    dump_unit,
    record_path,
)
from scaffold.units.todos import OpenPlace, find_places

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
        files=tuple(MadeFile(file.path, file.role, digest(file.data)) for file in files),
        entries=request.edited(),
        places=tuple(Place(p.file, p.symbol, p.why) for p in marked_places(files)),
    )


def records_of(unit: Unit, rendered: Iterable[RenderedFile], snapshot: Snapshot) -> list[Change]:
    """Return the tool's own files: the ledger entry, the bases, and how git treats them.

    Raises:
        ConflictError: One of them cannot be written.
    """
    wanted = {base_path(unit.kind, unit.name, file.path): file.data for file in rendered}
    wanted[record_path(unit.kind, unit.name)] = dump_unit(unit)
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
        if not _is_same(data, snapshot.data(path))
    ]


def _is_same(data: bytes, now: bytes | None) -> bool:
    """Return whether a record says this already; git may have given it Windows line ends."""
    return now is not None and data in (now, now.replace(b"\r\n", b"\n"))


def marked_places(rendered: Iterable[RenderedFile]) -> list[OpenPlace]:
    """Return the places that rendered files leave to the author.

    Raises:
        TemplateError: A comment marks nothing.
    """
    found: list[OpenPlace] = []
    for file in rendered:
        if file.path.endswith(".py"):
            try:
                found += find_places(file.path, file.data.decode())
            except ValueError as error:
                raise TemplateError(f"{file.path}: {error}", code="template_invalid") from error
    return found


MAX_SHOWN = 200
"""How much of an answer a refusal repeats."""


def _how_to_change(request: Request, made: Unit, command: Callable[..., Iterable[str]]) -> str:
    import shlex  # only refusals need it

    if made.styles != request.style_names:
        remove = shlex.join(command("remove", made.id))
        return f"choose another name; or {remove}, then add it again"
    questions = all_answers(request.kind, request.styles)
    changed = [
        ("--set", f"{name}={wanted}")
        for name, wanted in sorted(request.answers.items())
        if made.answers.get(name, questions[name].default) != wanted
    ]
    return shlex.join(command("update", made.id, *(word for pair in changed for word in pair)))


def _shown(value: AnswerValue | None) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def check_same(
    request: Request, made: Unit, command: Callable[..., Iterable[str]]
) -> tuple[str, ...]:
    """Compare a request with the unit that exists under its name.

    Args:
        request: What is to be made.
        made: What exists.
        command: Makes a command for the same target of its words, for the hint of a refusal.

    Returns:
        Warnings: a template that has moved on since.

    Raises:
        ConflictError: The unit was made with other styles or answers.
    """
    differences: list[str] = []
    if made.styles != request.style_names:
        was, wanted = ", ".join(made.styles), ", ".join(request.style_names)
        differences.append(f"{request.kind.option} was {was}, not {wanted}")
    questions = all_answers(request.kind, request.styles)
    for name, wanted in sorted(request.answers.items()):
        # A question that came later was answered by its default, as far as the unit is concerned.
        was = made.answers.get(name, questions[name].default)
        if was != wanted:
            differences.append(f"{name} was {_shown(was)}, not {_shown(wanted)}")
    if differences:
        raise ConflictError(
            f"{request.id} exists, made with other answers: {'; '.join(differences)}",
            code="answers_differ",
            hint=_how_to_change(request, made, command),
        )
    newest = {f"{request.kind.name}/{style.name}": style.version for style in request.styles}
    newest[request.kind.name] = request.kind.version
    return tuple(
        f"the template {use.id} has moved on from version {use.version} to {newest[use.id]} since"
        for use in made.templates
        if newest.get(use.id, use.version) > use.version
    )
