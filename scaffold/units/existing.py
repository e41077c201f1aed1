"""The unit that exists already under the name of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from scaffold.errors import ConflictError
from scaffold.report import Report, Step
from scaffold.templating.request import Request
from scaffold.templating.spec import (
    AnswerValue,
    all_answers,
)
from scaffold.units.context import Options
from scaffold.units.ledger import (
    Unit,
    read_unit,
    record_path,
)
from scaffold.units.todos import open_todos

MAX_SHOWN = 200
"""How much of an answer a refusal repeats."""


def _how_to_change(request: Request, made: Unit, command: Callable[..., Iterable[str]]) -> str:
    # Only refusals need them.
    import json
    import shlex

    if made.styles != request.style_names:
        remove = shlex.join(command("remove", made.id))
        return f"choose another name; or {remove}, then add it again"
    questions = all_answers(request.kind, request.styles)
    changed = [
        ("--set", f"{name}={json.dumps(wanted) if isinstance(wanted, list) else wanted}")
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
            f"{request.id} exists with different answers: {'; '.join(differences)}",
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


def existing_unit(root: Path, request: Request) -> Unit | None:
    """Return the unit that was made under the name of a request, or None."""
    path = root / record_path(request.kind.name, request.key)
    return read_unit(root, path) if path.is_file() else None


def nothing_to_do(
    report: Report, root: Path, request: Request, made: Unit, options: Options
) -> Report:
    """Return the report of a request whose unit exists, made with the same answers."""
    report.warnings += check_same(request, made, options.command)
    report.warnings += tuple(
        f"{file.path} is missing" for file in made.files if not (root / file.path).exists()
    )
    report.unfinished = tuple(Step(p.file, p.line, p.why) for p in open_todos(root, made))
    report.next = report.unfinished
    return report
