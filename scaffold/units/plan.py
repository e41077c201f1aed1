"""Request in, changes out: pure, and every conflict is found before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from scaffold.edit.entry import Entry
from scaffold.errors import ConflictError, RegistryError, RequestError, ScaffoldError, TemplateError
from scaffold.report import Registration, SetKey, Step
from scaffold.templating.render import RenderedFile
from scaffold.templating.request import MANUAL, Request, check_destination, destinations
from scaffold.templating.spec import SUPPORT, AnswerValue, NextStep, fill
from scaffold.transaction.change import Change
from scaffold.transaction.snapshot import Snapshot
from scaffold.units.conflicts import (
    check_bound_names,
    check_neighbours,
    check_spelling,
    package_init,
)
from scaffold.units.ledger import ATTRIBUTES, Unit, base_path, record_path
from scaffold.units.records import marked_todos, records_of, unit_of
from scaffold.units.registries import RegistryEdits
from scaffold.units.todos import symbol_line

if TYPE_CHECKING:
    from scaffold.units.use import Use
    from scaffold.units.use_plan import UsePlan


@dataclass(frozen=True)
class Plan:
    """Everything that a request comes to."""

    unit: Unit
    changes: tuple[Change, ...]
    registered: tuple[Registration, ...]
    next: tuple[Step, ...]
    unfinished: tuple[Step, ...]
    configured: tuple[SetKey, ...] = ()
    hints: tuple[str, ...] = ()


def paths_to_read(request: Request) -> tuple[str, ...]:
    """Return every path that the plan of a request has to know about."""
    files = destinations(request)
    kind, key = request.kind.name, request.key
    paths = [*files, *(_package_twin(path) for path in files)]
    paths += [package_init(path) for path in files if path.endswith(".py")]
    paths += [check_destination(entry.file) for entry in request.entries()]
    paths += [check_destination(file) for file, _ in _likes(request)]
    paths += [record_path(kind, key), ATTRIBUTES, *(base_path(kind, key, path) for path in files)]
    return tuple(dict.fromkeys(paths))


def paths_to_list(request: Request) -> tuple[str, ...]:
    """Return the paths whose neighbours the plan of a request has to know by name."""
    return tuple(destinations(request))


def make_plan(
    request: Request, rendered: Sequence[RenderedFile], snapshot: Snapshot, use: Use | None = None
) -> Plan:
    """Work out every change that a request needs.

    Args:
        request: What is to be made.
        rendered: Its files as they are to be in the target.
        snapshot: What is at `paths_to_read(request)`, and in the files of ``use``.
        use: The configurations that are to use it.

    Raises:
        TemplateError: A template is wrong.
        ConflictError: Something in the target forbids the request; all reasons are given at once.
    """
    found = _Conflicts()
    found.check(lambda: _check_overwrite(request))
    found.check(lambda: check_spelling(request, snapshot))
    # The default argument binds the file of this round; a closure would see the last one.
    files = [found.check(lambda f=file: _place_file(f, request, snapshot)) for file in rendered]
    edits = RegistryEdits(lambda entry: _registry(entry, snapshot))
    for entry in request.edited():
        found.check(lambda entry=entry: edits.add(entry))
    todos = marked_todos(rendered)
    used = found.check(lambda: _used(request, use, snapshot)) if use and use.configs else None
    own = [file for file in rendered if not _was_there(file, snapshot)]
    unit = unit_of(request, own)._replace(settings=tuple(used.settings) if used else ())
    records = found.check(lambda: records_of(unit, own, snapshot))
    found.raise_all()
    is_used = bool(used and used.rows)
    unfinished = tuple(Step(todo.file, todo.line, todo.why) for todo in todos)
    return Plan(
        unit,
        (
            *(change for change in files if change),
            *edits.changes(),
            *(used.changes if used else ()),
            *records,
        ),
        tuple(edits.registered),
        (
            *unfinished,
            *_manual_steps(request, snapshot),
            *_kept_support(rendered, snapshot),
            *(used.steps if used else ()),
            *_next_steps(request, rendered, snapshot, is_used=is_used),
        ),
        unfinished,
        tuple(used.rows) if used else (),
        tuple(
            fill(step.why, {**request.names, **request.answers})
            for step in _steps(request, is_used=is_used)
            if not step.file
        ),
    )


def _steps(request: Request, *, is_used: bool) -> list[NextStep]:
    """Return what the manifests leave to do, given whether a configuration uses the unit."""
    rows = (step for part in (*request.styles, request.kind) for step in part.next)
    return [step for step in rows if not (is_used and step.is_unused)]


def _used(request: Request, use: Use, snapshot: Snapshot) -> UsePlan:
    # Brings the parser of YAML, which registries in Python do without.
    from scaffold.units.use_plan import plan_use

    return plan_use(request, use, snapshot.data)


class _Conflicts:
    """Collects refusals, so that one answer names them all."""

    def __init__(self) -> None:
        self.errors: list[ScaffoldError] = []

    def check(self, step: Callable[[], Any]) -> Any:
        """Run one step; its refusal is kept and None returned."""
        try:
            return step()
        except (ConflictError, RequestError) as error:
            self.errors.append(error)
            return None

    def raise_all(self) -> None:
        """Raise the first refusal, its text joined with that of the others."""
        if not self.errors:
            return
        # Its class and code decide the exit status.
        first = self.errors[0]
        first.message = "; ".join(dict.fromkeys(error.message for error in self.errors))
        first.hint = "\n".join(dict.fromkeys(error.hint for error in self.errors if error.hint))
        raise first


def _manual_steps(request: Request, snapshot: Snapshot) -> list[Step]:
    """Return the registry lines that no editor knows how to add, below the last line like each."""
    texts = {**request.names, **request.answers}
    rules = (rule for rule in request.rules if rule.shape == MANUAL)
    manual = (entry for entry in request.entries() if entry.shape == MANUAL)
    return [
        Step(
            each.file,
            _line_like(snapshot, each.file, f"{rule.key}{rule.value}", texts),
            f"add by hand: {each.key}{each.value}",
        )
        for each, rule in zip(manual, rules, strict=True)
    ]


def _likes(request: Request) -> list[tuple[str, str]]:
    """Return the files in which a line is looked for that a person has to add the like of."""
    names = {**request.names, **request.answers}
    rows = (step for part in (*request.styles, request.kind) for step in part.next)
    return [(fill(step.file, names), step.like) for step in rows if step.like]


def _line_like(
    snapshot: Snapshot, file: str, pattern: str, names: Mapping[str, AnswerValue]
) -> int:
    """Return the last line of a file that a pattern fits with any name, else 1."""
    state = snapshot.files.get(file)
    if state is None or state.data is None:
        return 1
    # Where a variable of the name may be, so may any other.
    parts = re.split(r"\{(\w+)\}", pattern.strip())
    form = "".join(
        re.escape(part) if not n % 2 else r"[\w -]+?" if part in names else re.escape(f"{{{part}}}")
        for n, part in enumerate(parts)
    )
    rows = state.data.decode("utf-8", "replace").splitlines()
    # The last line of a list may be the only one without a comma.
    form = form.removesuffix(",") + ",?"
    found = [n for n, row in enumerate(rows, 1) if re.fullmatch(form, row.strip())]
    return found[-1] if found else 1


def _package_twin(path: str) -> str:
    """Return the folder that would shadow a module, or be shadowed by it."""
    return str(PurePosixPath(path).with_suffix(""))


def _check_overwrite(request: Request) -> None:
    paths = [PurePosixPath(path) for path in destinations(request)]
    unused = sorted(
        each for each in request.overwrite if not any(p.is_relative_to(each) for p in paths)
    )
    if unused:
        raise RequestError(
            f"--overwrite names what this command does not write: {', '.join(unused)}",
            code="usage",
            hint=f"it writes: {', '.join(destinations(request))}",
        )


def _place_file(file: RenderedFile, request: Request, snapshot: Snapshot) -> Change | None:
    state = snapshot.files[file.path]
    if state.is_outside:
        raise ConflictError(f"{file.path} {state.problem}", code="outside_target")
    if state.problem:
        raise ConflictError(f"{file.path} {state.problem}", code="file_exists")
    # `a.py` beside a folder `a`: which of the two an import takes depends on an `__init__.py`.
    twin = _package_twin(file.path)
    if twin != file.path and snapshot.files[twin].problem == "is a folder":
        raise ConflictError(
            f"the folder {twin} is where the module {file.path} would be hidden or hide it",
            code="file_exists",
            hint="choose another name",
        )
    check_neighbours(file.path, snapshot)
    check_bound_names(request, file.path, snapshot)
    # A file that is already as it is to be needs no change.
    if state.data == file.data:
        return None
    if state.data is None:
        return Change(file.path, "created", None, file.data)
    # A file of another unit is never overwritten, whatever --overwrite names.
    owner = snapshot.owners.get(file.path)
    if owner is not None and file.role == SUPPORT:
        return None  # edited, or of another version, it serves this unit too: `_kept_support`
    if owner is not None:
        place = "another place with --to" if request.kind.subject else "another name"
        raise ConflictError(
            f"{file.path} exists and belongs to {owner}",
            code="file_exists",
            hint=f"choose {place}, or first: scaffold remove {owner}",
        )
    if request.may_overwrite(file.path):
        return Change(file.path, "replaced", state.data, file.data)
    raise ConflictError(
        f"{file.path} exists and was not generated by scaffold",
        code="file_exists",
        hint=f"choose another name, or replace it with --overwrite {file.path}",
    )


def _was_there(file: RenderedFile, snapshot: Snapshot) -> bool:
    """Return whether a module is the target's: other code may need it when all units are gone."""
    is_made = file.path in snapshot.owners or snapshot.files[file.path].data != file.data
    return file.role == SUPPORT and not is_made


def _kept_support(rendered: Iterable[RenderedFile], snapshot: Snapshot) -> Iterator[Step]:
    for file in rendered:
        owner, data = snapshot.owners.get(file.path), snapshot.files[file.path].data
        if file.role == SUPPORT and owner and data is not None and data != file.data:
            why = "was edited or is of another version, and stays; if an import of it fails: "
            yield Step(file.path, 1, f"{why}scaffold update {owner}")


def _registry(entry: Entry, snapshot: Snapshot) -> bytes:
    state = snapshot.files[entry.file]
    if state.data is None:
        code = "outside_target" if state.is_outside else "registry_missing"
        raise RegistryError(
            f"the registry {entry.file} {state.problem or 'does not exist'}",
            code=code,
            hint=f"it has to hold: {entry.table}: dict[str, str] = {{}}",
        )
    return state.data


def _next_steps(
    request: Request, rendered: Iterable[RenderedFile], snapshot: Snapshot, *, is_used: bool
) -> tuple[Step, ...]:
    variables = {**request.names, **request.answers}
    texts = {file.path: file.data.decode() for file in rendered if file.path.endswith(".py")}
    steps: list[Step] = []
    for step in _steps(request, is_used=is_used):
        if not step.file:
            continue
        file, symbol = fill(step.file, variables), fill(step.symbol, variables)
        line = symbol_line(texts[file], symbol) if symbol and file in texts else 1
        line = _line_like(snapshot, file, step.like, variables) if step.like else line
        if line is None:
            raise TemplateError(f"{file} has no {symbol!r}", code="template_invalid")
        steps.append(Step(file, line, fill(step.why, variables)))
    return tuple(steps)
