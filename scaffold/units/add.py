"""The commands behind the command line: each settles a request, does it, returns a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from scaffold.errors import ConflictError, TargetError
from scaffold.report import Report, ReportedChange, Step, unified_diff
from scaffold.target.target import (
    Target,
    describe,
    existing_folder,
    find_target,
    key_names,
    registry_rules,
    unit_names,
    with_kind_names,
)
from scaffold.templating.answers import complete_answers
from scaffold.templating.manifests import catalogue_for
from scaffold.templating.names import canonical_key
from scaffold.templating.request import Request, check_same
from scaffold.templating.spec import Answer, Kind, Style, all_answers
from scaffold.transaction.state import has_journal
from scaffold.units.ledger import Unit, read_unit, read_units, record_path

if TYPE_CHECKING:
    from scaffold.target.style import Manner
    from scaffold.templating.render import RenderedFile
    from scaffold.transaction.change import Change
    from scaffold.transaction.snapshot import Snapshot
    from scaffold.units.columns import ColumnMap
    from scaffold.units.plan import Plan

    RenderedFiles = tuple[RenderedFile, ...]

# Rendering and LibCST are imported where they are used: help, listing and a run that has nothing to
# do must not pay for them.


class Options(NamedTuple):
    """Holds what every command accepts.

    Args:
        folder: The working folder.
        target: What ``--target`` named, or None to look for one from the working folder.
        dry_run: Whether to write nothing.
        overwrite: What ``--overwrite`` named.
        with_format: Whether the target's formatters run on what is written.
        sample: Data that ``--from`` named, to find answers in.
    """

    folder: Path
    target: str | None = None
    dry_run: bool = False
    overwrite: tuple[str, ...] = ()
    with_format: bool = True
    sample: str | None = None

    def command(self, *words: str) -> tuple[str, ...]:
        """Returns a command for the same target, as it can be run from the working folder."""
        where = () if self.target is None else ("--target", self.target)
        return ("scaffold", *words, *where)

    def find(self) -> Target:
        """Returns the target that the options mean."""
        if self.target is None:
            return find_target(self.folder)
        if not self.target:
            raise TargetError(
                "--target is empty", code="target_missing", hint="give --target a folder"
            )
        return find_target(self.folder / self.target, exact=True)

    def overwritten(self, root: Path) -> frozenset[str]:
        """Returns what ``--overwrite`` named, relative to a target's root."""
        return frozenset(_relative(path, root, self.folder) for path in self.overwrite)

    def find_settled(self, command: str) -> tuple[Target, tuple[str, ...]]:
        """Returns the target that a writing command means, and what to warn of.

        An earlier run that was cut short is settled first: a template may have been among its
        files, or a setting.
        """
        target = self.find()
        if self.dry_run or not has_journal(target.root):
            return target, leftover_warning(target.root)
        from scaffold.transaction.apply import settle

        settled = settle(target.root, command)
        return self.find(), settled_warning(settled)


def add_unit(
    kind: Kind, typed: str, styles: Iterable[str], given: Mapping[str, Any], options: Options
) -> Report:
    """Adds a unit of a kind to the target: its files, its registry line and its record."""
    command = kind.command or f"add {kind.name}"
    target, settled = options.find_settled(command)
    chosen = target.catalogue.styles(kind, styles)
    key = canonical_key(typed, kind.suffixes, kind.reserved)
    given, columns = _sampled(kind, chosen, given, options)
    request = replace(
        request_for(target, kind, chosen, key, given),
        overwrite=options.overwritten(target.root),
    )
    report = Report(command, describe(target), dry_run=options.dry_run)
    report.check = (options.command("verify", request.id),)
    report.warnings += (*settled, *origin_warnings(request))
    if columns is not None:
        report.found = columns.lines()
        report.extra["columns"] = [vars(match) for match in columns.matches]
    made = made_unit(target.root, request)
    if made is not None and not has_journal(target.root):
        return nothing_to_do(report, target.root, request, made, options)
    manner = manner_for(target, request)
    request = replace(request, names=_names(target, kind, key, chosen, manner.names))
    rendered, warnings = rendered_files(target, request, manner, with_format=options.with_format)
    report.warnings += warnings
    return write_unit(report, target, request, rendered, options)


def write_unit(
    report: Report, target: Target, request: Request, rendered: RenderedFiles, options: Options
) -> Report:
    """Plans a unit whose files are rendered and writes it, or tells what would be written.

    Args:
        report: What is known so far; it is filled in and returned.
        target: Where the unit goes.
        request: The unit.
        rendered: Its files, as they are to stand in the target.
        options: Whether anything is written.
    """
    if options.dry_run:
        plan = _plan(request, rendered, _look(request, target.root))
        return _told(report, _tidied(target, request, plan, options))
    from scaffold.transaction.apply import session

    # Refusals come before the lock, which leaves a file; what is written is planned under it.
    seen = None if has_journal(target.root) else _look(request, target.root)
    plan = None if seen is None else _plan(request, rendered, seen)
    with session(target.root, f"{report.command} {request.key}") as opened:
        report.warnings += settled_warning(opened.settled)
        made = made_unit(target.root, request)
        if made is not None:
            return nothing_to_do(report, target.root, request, made, options)
        found = _look(request, target.root)
        if plan is None or found != seen:
            plan = _plan(request, rendered, found)
        plan = _tidied(target, request, plan, options)
        opened.apply(plan.changes)
    return _told(report, plan)


def add_tests(
    kind: Kind, module: str, style: str | None, to: str | None, options: Options
) -> Report:
    """Adds tests for a module that stands in the target; see `scaffold.units.subject`."""
    from scaffold.units.subject import read_subject

    found = read_subject(options.find(), module, options.folder, style or "", to or "")
    return add_unit(kind, found.key, (found.style,), found.answers, options)


def request_for(
    target: Target,
    kind: Kind,
    styles: tuple[Style, ...],
    key: str,
    given: Mapping[str, Any],
    otherwise: Mapping[str, str] | None = None,
) -> Request:
    """Returns the request for one unit in a target, its answers checked and its names derived."""
    names = _names(target, kind, key, styles, otherwise)
    answers = complete_answers(all_answers(kind, styles), given)
    return Request(kind, styles, key, answers, names, registry_rules(target, kind))


def new_project(
    kind: Kind,
    typed: str,
    styles: Iterable[str],
    given: Mapping[str, Any],
    options: Options,
    *,
    with_git: bool = False,
) -> Report:
    """Makes a project of one's own in a new folder, inside ``--target`` or the working folder."""
    catalogue = catalogue_for(None)
    chosen = catalogue.styles(kind, styles)
    key = canonical_key(typed, kind.suffixes, kind.reserved)
    root = existing_folder(options.folder / (options.target or ".")) / key
    names = key_names(key) | {"kind": kind.name, "style": chosen[0].name, "package": key}
    questions = all_answers(kind, chosen)
    answers = complete_answers(questions, _with_computed(questions, given))
    request = Request(kind, chosen, key, answers, with_kind_names(kind, names))
    target = {"root": str(root), "layout": "project", "package": key}
    report = Report(kind.command, target, dry_run=options.dry_run)
    made = made_unit(root, request)
    if made is not None:
        return nothing_to_do(report, root, request, made, options)
    _check_free(root)
    from scaffold.units.plan import render_request

    rendered = render_request(request, catalogue.files(kind.name))
    plan = _plan(request, rendered, _look(request, root))
    if not options.dry_run:
        from scaffold.transaction.apply import create_folder

        files = ((change.path, change.after) for change in plan.changes)
        create_folder(root, [(path, data) for path, data in files if data is not None])
        report.warnings += _git_init(root) if with_git else _inside_target(root)
    report.check = (("scaffold", "target", "--target", str(root)),)
    return _told(report, plan)


class Trial(NamedTuple):
    """Says how units are verified.

    Args:
        python: What ``--python`` named.
        allow_stub: Whether places that are left to the author are accepted.
        data: What ``--data`` named.
        timeout_s: The limit of the tests and of the episodes of each unit.
    """

    python: str | None = None
    allow_stub: bool = False
    data: str | None = None
    timeout_s: float = 300.0


def verify_made(
    ids: Iterable[str], how: Trial, log: Callable[[str], None], options: Options
) -> Report:
    """Runs what was made; see `scaffold.verify`."""
    from scaffold.verify import verify_units

    return verify_units(
        options.find(),
        tuple(ids),
        python=how.python,
        allow_stub=how.allow_stub,
        log=log,
        data=None if how.data is None else options.folder / how.data,
        timeout_s=how.timeout_s,
    )


def verify_added(report: Report, log: Callable[[str], None], options: Options) -> None:
    """Verifies what an add made, and puts the verdict into the report of the add."""
    verified = verify_made([report.check[0][2]], Trial(), log, options)
    report.text = report.to_text() + verified.to_text()
    report.ok = verified.ok
    report.unfinished = verified.unfinished
    report.warnings += verified.warnings
    report.extra |= verified.extra


def leftover_warning(root: Path) -> tuple[str, ...]:
    """Returns what to say where a run was cut short and nothing may be written."""
    if not has_journal(root):
        return ()
    from scaffold.transaction.journal import describe_leftover

    left = describe_leftover(root)
    if left is None:
        return ()
    if left.is_running:
        return (f"`scaffold {left.command}` is writing here at this moment",)
    return (
        f"`scaffold {left.command}` was interrupted while it wrote {', '.join(left.files)}; "
        "`scaffold recover` or the next writing command settles it first",
    )


def rendered_files(
    target: Target,
    request: Request,
    manner: Manner,
    *,
    with_format: bool = True,
    sources: Mapping[str, bytes] | None = None,
) -> tuple[RenderedFiles, tuple[str, ...]]:
    """Returns the files of a request as they are to stand in the target, and warnings.

    ``sources`` are the template files, path to bytes; without them those of the kind.
    """
    from scaffold.target.restyle import dress
    from scaffold.units.plan import render_request

    rendered = render_request(request, sources or target.catalogue.files(request.kind.name))
    return dress(target, rendered, manner, with_format=with_format)


def _names(
    target: Target,
    kind: Kind,
    key: str,
    styles: tuple[Style, ...],
    otherwise: Mapping[str, str] | None,
) -> dict[str, str]:
    return unit_names(target, kind, key, "" if kind.multiple else styles[0].name, otherwise)


def manner_for(target: Target, request: Request) -> Manner:
    """Returns the target's manner; nothing is learned where it is said where tests go.

    A layout says it, and the manifest of a kind that is the repository's own.
    """
    from scaffold.target.restyle import manner_of

    manner = manner_of(target, request.names)
    place = target.place(request.kind)
    is_said = request.kind.origin == "repository" and "test" in request.kind.place
    is_said = is_said or (place is not None and "test" in place.names)
    is_said = is_said and "test" not in target.style
    return replace(manner, names={}) if is_said else manner


def _tidied(target: Target, request: Request, plan: Plan, options: Options) -> Plan:
    if not options.with_format:
        return plan
    from scaffold.target.restyle import tidy

    return replace(plan, changes=tidy(target, plan.changes, request.edited()))


def _look(request: Request, root: Path) -> Snapshot:
    from scaffold.transaction.snapshot import take_snapshot
    from scaffold.units.plan import paths_to_list, paths_to_read

    made = (root / record_path(request.kind.name, "x")).parent
    siblings = [path.stem for path in sorted(made.glob("*.toml"))]
    files = paths_to_list(request)
    seen = take_snapshot(root, paths_to_read(request), siblings, files)
    taken = {path for path in files if seen.data(path) is not None}
    units = read_units(root) if taken else ()  # which costs time, and decides about these only
    owners = {file.path: unit.id for unit in units for file in unit.files if file.path in taken}
    return replace(seen, owners=owners)


def _plan(request: Request, rendered: RenderedFiles, seen: Snapshot) -> Plan:
    from scaffold.units.plan import make_plan

    return make_plan(request, rendered, seen)


def made_unit(root: Path, request: Request) -> Unit | None:
    """Returns the unit that was made under the name of a request, or None."""
    path = root / record_path(request.kind.name, request.key)
    return read_unit(root, path) if path.is_file() else None


def nothing_to_do(
    report: Report, root: Path, request: Request, made: Unit, options: Options
) -> Report:
    """Returns the report of a request whose unit exists, made with the same answers."""
    from scaffold.units.todos import open_places

    report.warnings += check_same(request, made, options.command)
    report.warnings += tuple(
        f"{file.path} is missing" for file in made.files if not (root / file.path).exists()
    )
    report.unfinished = tuple(Step(p.file, p.line, p.why) for p in open_places(root, made))
    report.next = report.unfinished
    return report


def settled_warning(settled: str) -> tuple[str, ...]:
    """Returns what to say of an earlier run that was settled first."""
    return (f"an earlier run was interrupted; it was {settled} first",) if settled else ()


def origin_warnings(request: Request) -> tuple[str, ...]:
    """Returns what to say of templates that did not come with the tool."""
    parts = [request.kind, *request.styles]
    foreign = sorted({part.origin for part in parts if part.origin != "builtin"})
    return tuple(f"a template of {request.id} comes from the {each}" for each in foreign)


def _told(report: Report, plan: Plan) -> Report:
    """Returns the report with what the plan comes to."""
    report.changes = reported_changes(plan.changes)
    report.registered = plan.registered
    report.next = plan.next
    report.unfinished = plan.unfinished
    return report


def reported_changes(changes: Iterable[Change]) -> tuple[ReportedChange, ...]:
    """Returns changes as reports carry them."""
    return tuple(_reported(change) for change in changes)


def _reported(change: Change) -> ReportedChange:
    is_record = change.action == "record"
    diff = "" if is_record else unified_diff(change.path, change.before, change.after)
    return ReportedChange(change.path, change.action, diff)


def _with_computed(questions: Mapping[str, Answer], given: Mapping[str, Any]) -> dict[str, Any]:
    """Fills in what a manifest says to find out (`default_from`) where no answer was given."""
    filled = dict(given)
    for name, question in questions.items():
        if question.default_from == "training_package" and filled.get(name) is None:
            from scaffold.units.origin import training_package

            filled[name] = training_package()
    return filled


def _sampled(
    kind: Kind, styles: tuple[Style, ...], given: Mapping[str, Any], options: Options
) -> tuple[Mapping[str, Any], ColumnMap | None]:
    """Returns the answers, completed from the sample if there is one."""
    if options.sample is None:
        return given, None
    from scaffold.units.sample import answers_from_sample

    path = Path(options.sample)
    path = options.folder / path if (options.folder / path).exists() else path
    names = [style.name for style in styles]
    return answers_from_sample(path, all_answers(kind, styles), names, given)


def _inside_target(root: Path) -> tuple[str, ...]:
    """Returns what to say of a project that another target holds, so that neither is meant."""
    try:
        around = find_target(root.parent).root
    except TargetError as error:
        if error.code != "target_ambiguous":
            return ()
        around = root.parent
    return (
        f"{root} lies inside the target {around}: commands in it want --target {root}, "
        "or make it a repository of its own with git init",
    )


def _git_init(root: Path) -> tuple[str, ...]:
    import subprocess

    try:
        subprocess.run(["git", "init", "-q", str(root)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return (f"git init failed: {error}",)
    return ()


def _check_free(root: Path) -> None:
    if root.is_symlink() or (root.exists() and not root.is_dir()):
        raise ConflictError(f"{root} exists and is no folder", code="file_exists")
    if root.is_dir() and any(root.iterdir()):
        raise ConflictError(
            f"{root} exists and is not empty",
            code="file_exists",
            hint="choose another name, or another folder with --target",
        )


def _relative(path: str, root: Path, folder: Path) -> str:
    """Returns a path that a person named, relative to the target's root."""
    place = Path(path)
    for candidate in (folder / place, root / place):
        if candidate.resolve().is_relative_to(root) and candidate.exists():
            return candidate.resolve().relative_to(root).as_posix()
    return PurePath(path).as_posix()
