"""The commands around Archon models: measured, written, staged, proven, then registered."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from scaffold.answers import complete_answers
from scaffold.archon.explain import explain_lines, unknown_lines
from scaffold.archon.proof import proof_lines
from scaffold.archon.source import ModelSource, read_source, source_of
from scaffold.commands import (
    Options,
    Trial,
    made_unit,
    manner_for,
    nothing_to_do,
    origin_warnings,
    rendered_files,
    reported_changes,
    request_for,
    verify_made,
    write_unit,
)
from scaffold.ledger import MadeEntry, Unit, find_unit
from scaffold.names import canonical_key
from scaffold.report import Report
from scaffold.request import Request
from scaffold.spec import Kind, RequestError, ScaffoldError, Style, TargetError, all_answers
from scaffold.target import Target, describe

if TYPE_CHECKING:
    from scaffold.changes import Change
    from scaffold.render import RenderedFile
    from scaffold.renewal import Renewal

KIND = "archon-model"
PROVEN, UNPROVEN = "proven", "unproven"
Log = Callable[[str], None]


class Wish(NamedTuple):
    """Says how a model is to be made.

    Args:
        name: What it is called; None for its model_type.
        python: What ``--python`` named.
        explain: Whether the report tells each decision with its evidence.
        keep_unproven: Whether it is registered although its proof fails.
        skip_proof: Whether a dry run does without the proof.
        timeout_s: The limit of the measuring and of the proof, each.
    """

    name: str | None = None
    python: str | None = None
    explain: bool = False
    keep_unproven: bool = False
    skip_proof: bool = False
    timeout_s: float = 1800.0


def add_model(
    kind: Kind, typed: str, given: Mapping[str, Any], wish: Wish, options: Options, log: Log
) -> Report:
    """Adds the model that a model_type, a config.json or a checkpoint folder names.

    Nothing is written before the proof is over; what is not proven is not registered.
    """
    if wish.skip_proof and not options.dry_run:
        raise RequestError(
            "--skip-proof goes with --dry-run: what is written is proven", code="usage"
        )
    target, settled = options.find_settled(kind.command)
    source = read_source(typed, options.folder)
    request = model_request(target, kind, source, given, wish.name)
    request = replace(request, overwrite=options.overwritten(target.root))
    report = Report(kind.command, describe(target), dry_run=options.dry_run)
    report.check = (options.command("verify", request.id),)
    report.warnings += (*settled, *origin_warnings(request))
    if request.names["registered"] != source.model_type:
        report.warnings += (
            f"{source.model_type!r} is registered already, so this model is found by "
            f"{request.names['registered']!r}",
        )
    made = made_unit(target.root, request)
    if made is not None:
        return _already_made(report, target, request, made, wish, options)
    work = ModelWork(target, wish, log)
    design = work.derive(source, request.answers)
    request = _measured(request, design)
    drawn = work.draw(request, source, design, options)
    report.warnings += drawn.warnings
    _tell_design(report, drawn.design, wish)
    report = _written(report, target, drawn.request, drawn.rendered, drawn.proof, wish, options)
    if options.dry_run:  # whose text is the diff alone
        for line in report.found:
            log(line)
    return report


def explain_model(
    typed: str, given: Mapping[str, Any], wish: Wish, options: Options, log: Log
) -> Report:
    """Tells what is found out about a model: each decision with its evidence; writes nothing."""
    target = _target_or_folder(options)
    kind = target.catalogue.kind(KIND)
    source = read_source(typed, options.folder)
    answers = _answers(kind, source, given)
    work = ModelWork(target, wish, log)
    design = work.derive(source, answers)
    report = Report("archon explain", extra={"design": design})
    report.text = "\n".join(explain_lines(design)) + "\n"
    return report


def model_request(
    target: Target, kind: Kind, source: ModelSource, given: Mapping[str, Any], name: str | None
) -> Request:
    """Returns the request for one model: its answers checked and its names derived."""
    styles = target.catalogue.styles(kind, ())
    key = canonical_key(name or source.model_type.replace(".", "_"), kind.suffixes, kind.reserved)
    answers = _answers(kind, source, given)

    def registered(spelling: str) -> Request:
        return request_for(target, kind, styles, key, answers, {"registered": spelling})

    request = registered(source.model_type)
    is_taken = name is not None and _is_taken(target, request)
    return registered(key) if is_taken else request


def _is_taken(target: Target, request: Request) -> bool:
    """Tells whether a registry has the model_type for another model already."""
    from scaffold.edit import shapes

    for entry in request.edited():
        with suppress(OSError, ScaffoldError):  # the plan says what is wrong with it
            known = shapes.read_entries((target.root / entry.file).read_bytes(), entry)
            if entry.key in known and known[entry.key] != entry.value:
                return True
    return False


@dataclass(frozen=True)
class Drawn:
    """A design as files, and what the proof of them came to.

    Attributes:
        design: As derived, with the refusals of what the proof found wrong.
        proof: Empty where it was not wanted.
    """

    request: Request
    design: Mapping[str, Any]
    rendered: tuple[RenderedFile, ...]
    warnings: tuple[str, ...]
    proof: Mapping[str, Any]


class ModelWork:
    """Is one model on its way from the question to the proof."""

    def __init__(self, target: Target, wish: Wish, log: Log) -> None:
        from scaffold.verify.interpreter import find_interpreter

        self.target = target
        self.python = find_interpreter(target, wish.python)
        self.timeout_s = wish.timeout_s
        self.has_proof = not wish.skip_proof
        self.log = log

    def derive(self, source: ModelSource, answers: Mapping[str, Any]) -> dict[str, Any]:
        """Measures the model of transformers, in the target's interpreter."""
        self.log(f"measuring {source.model_type} with {self.python.describe()}")
        found = self._probe("derive", _asked(source, answers))
        return {**cast("dict[str, Any]", found["design"]), "versions": found["versions"]}

    def render(
        self, request: Request, design: Mapping[str, Any], options: Options
    ) -> tuple[Request, tuple[RenderedFile, ...], tuple[str, ...]]:
        """Writes the design as the target would write it."""
        from scaffold.archon.staging import check_shared_parts
        from scaffold.archon.written import with_written

        own = self.target.catalogue.files(request.kind.name)
        request, sources = with_written(request, design, own)
        manner = manner_for(self.target, request)
        rendered, warnings = rendered_files(
            self.target, request, manner, with_format=options.with_format, sources=sources
        )
        texts = {file.path: file.data for file in rendered}
        check_shared_parts(self.target.root, self.target.package, texts)
        return request, rendered, warnings

    def draw(
        self,
        request: Request,
        source: ModelSource,
        design: Mapping[str, Any],
        options: Options,
        *,
        is_fast: bool = False,
        is_split: bool = False,
    ) -> Drawn:
        """Writes a design and proves it; where only options are wrong, it is made to refuse them.

        An option that no measurement explains shows in the proof, which says by which conditions
        the model would refuse it. So it is written once more with them, and proven once more.
        """
        drawn = Drawn(request, design, (), (), {})
        for _ in range(2):
            made, rendered, warnings = self.render(request, drawn.design, options)
            drawn = replace(drawn, request=made, rendered=rendered, warnings=warnings)
            if not self.has_proof:
                break
            proof = self.prove(
                made, source, rendered, drawn.design, is_fast=is_fast, is_split=is_split
            )
            drawn = replace(drawn, proof=proof)
            wrong = cast("list[dict[str, str]]", proof.get("refusals") or [])
            if proof.get("ok") or not wrong:
                break
            self.log(f"{request.key} gets {len(wrong)} options wrong; it is made to refuse them")
            drawn = replace(drawn, design=with_refusals(drawn.design, wrong))
        return drawn

    def prove(
        self,
        request: Request,
        source: ModelSource,
        rendered: Sequence[RenderedFile],
        design: Mapping[str, Any],
        *,
        is_fast: bool = False,
        is_split: bool = False,
    ) -> dict[str, Any]:
        """Proves the files where nothing of the target has changed yet.

        With ``is_split`` the model is also split over two processes, in every way; with ``is_fast``
        few configurations do.
        """
        from scaffold.archon.staging import stage_files

        self.log(f"proving {request.key} against transformers {design['versions']['transformers']}")
        with tempfile.TemporaryDirectory() as folder:
            test = stage_files(rendered, request.names["inside"], Path(folder))
            asked = {
                **_asked(source, request.answers),
                "spec": request.symbol,
                "design": design,
                "package": request.names["registry_module"],
                "overlay": str(Path(folder) / "package"),
                "test": None if test is None else str(test),
                "fast": is_fast,
                "split": is_split,
            }
            return self._probe("prove", asked)

    def _probe(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        from scaffold.archon.probe import probe

        return probe(name, asked, self.python, self.target.root, self.timeout_s)


def with_refusals(
    design: Mapping[str, Any], refusals: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """Returns a design that refuses more configurations; what it refuses already stays once."""
    known = cast("list[Mapping[str, str]]", design.get("refusals") or [])
    said = {row["condition"] for row in known}
    return {**design, "refusals": [*known, *(r for r in refusals if r["condition"] not in said)]}


def _asked(source: ModelSource, answers: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model_type": source.model_type,
        "config": source.config,
        "checkpoint": None if source.checkpoint is None else str(source.checkpoint),
        "text_only": bool(answers["text_only"]),
        "trust_remote_code": bool(answers["trust_remote_code"]),
    }


def _answers(kind: Kind, source: ModelSource, given: Mapping[str, Any]) -> dict[str, Any]:
    known = {"model_type": source.model_type, "config": source.config_text}
    return {**complete_answers(all_answers(kind, ()), {**given, **known})}


def _measured(request: Request, design: Mapping[str, Any]) -> Request:
    version = str(design["versions"].get("transformers", ""))
    return replace(request, answers={**request.answers, "transformers": version})


def _target_or_folder(options: Options) -> Target:
    """Returns the target, or what stands for one where a model is only looked at."""
    try:
        return options.find()
    except TargetError as error:
        if options.target is not None or error.code != "target_missing":
            raise
        return Target(options.folder, "none", "areal", "tests", {})


def _already_made(
    report: Report, target: Target, request: Request, made: Unit, wish: Wish, options: Options
) -> Report:
    known = {**request.answers, "transformers": made.answers.get("transformers", "")}
    request = replace(request, answers=known)
    report = nothing_to_do(report, target.root, request, made, options)
    if made.proof == UNPROVEN:
        if wish.keep_unproven and not made.entries:
            return register_unit(report, target, made, request.edited(), UNPROVEN, options)
        report.warnings += (f"{made.id} is unproven",)
    return report


def _tell_design(report: Report, design: Mapping[str, Any], wish: Wish) -> None:
    lines = explain_lines(design) if wish.explain else tuple(unknown_lines(design))
    report.found += lines
    if wish.explain:
        report.extra["design"] = dict(design)


def _written(
    report: Report,
    target: Target,
    request: Request,
    rendered: tuple[RenderedFile, ...],
    proof: Mapping[str, Any],
    wish: Wish,
    options: Options,
) -> Report:
    is_proven = bool(proof.get("ok"))
    request = replace(request, proof=PROVEN if is_proven else UNPROVEN)
    if proof:
        report.extra["proof"] = dict(proof)
        report.found += proof_lines(proof)
    if not is_proven and not wish.keep_unproven and not wish.skip_proof:
        request = replace(request, rules=(), styles=_without_next(request))
        report.ok = False
        report.warnings += (
            f"{request.id} is not proven and not registered; "
            f"once `scaffold verify {request.id}` passes, it is",
        )
    elif not is_proven:
        report.warnings += (f"{request.id} is not proven",)
    return write_unit(report, target, request, rendered, options)


def _without_next(request: Request) -> tuple[Style, ...]:
    """Returns the styles without what to do with a model that can be used."""
    return tuple(replace(style, next=()) for style in request.styles)


def renew_model(
    target: Target, unit: Unit, request: Request, options: Options, earlier: Iterable[Change]
) -> tuple[Renewal, tuple[str, ...]]:
    """Works out how a model is brought up to date: measured and written anew, merged, proven again.

    Args:
        target: Where it stands.
        unit: The model as it was made.
        request: The model as it is to be.
        options: Whether the target's formatters run.
        earlier: What the same command does before.

    Returns:
        What is written, and warnings.
    """
    from scaffold.renewal import plan_renewal

    source = source_of(dict(request.answers))
    work = ModelWork(target, Wish(), lambda line: None)
    design = work.derive(source, request.answers)
    request, rendered, warnings = work.render(_measured(request, design), design, options)
    kept = replace(request, proof=unit.proof, rules=request.rules if unit.entries else ())
    renewal = plan_renewal(target.root, unit, kept, rendered, earlier)
    if all(change.action == "record" for change in renewal.changes):
        return renewal, warnings
    merged = _merged(target.root, rendered, renewal)
    proof = {} if renewal.conflicts else work.prove(request, source, merged, design)
    is_proven = bool(proof.get("ok"))
    rules = request.rules if is_proven else ()
    settled = replace(request, proof=PROVEN if is_proven else UNPROVEN, rules=rules)
    if not is_proven:
        why = "a merge has conflicts" if renewal.conflicts else proof_lines(proof)[0]
        warnings += (f"{unit.id} is not proven as merged, and not registered: {why}",)
    return plan_renewal(target.root, unit, settled, rendered, earlier), warnings


def _merged(
    root: Path, rendered: Iterable[RenderedFile], renewal: Renewal
) -> tuple[RenderedFile, ...]:
    """Returns the files as they will stand there once a renewal is written."""
    planned = {change.path: change.after for change in renewal.changes}
    found: list[RenderedFile] = []
    for file in rendered:
        place = root / file.path
        data = planned.get(file.path, place.read_bytes() if place.is_file() else None)
        found += [replace(file, data=data)] if data is not None else []
    return tuple(found)


def verify_and_register(ids: Iterable[str], how: Trial, log: Log, options: Options) -> Report:
    """Runs what was made, and registers the models among it that are proven now."""
    report = verify_made(ids, how, log, options)
    register_proven(report, options)
    return report


def register_proven(report: Report, options: Options) -> None:
    """Registers the unproven models that a verification has found to be proven.

    Args:
        report: That of the verification, which is told what was registered.
        options: Where it was.
    """
    verdicts = {row["id"]: row["verdict"] for row in report.extra.get("units", [])}
    target = options.find()
    for unit_id, verdict in verdicts.items():
        if not unit_id.startswith(f"{KIND}/") or verdict != "ok":
            continue
        unit = _recorded(target, unit_id)
        if unit is not None and unit.proof == UNPROVEN:
            register_unit(report, target, unit, _entries(target, unit), PROVEN, options)
            rows = [f"registered {r.file}:{r.line}  {r.key}\n" for r in report.registered]
            report.text = (report.text or "") + "".join(rows)


def register_unit(
    report: Report,
    target: Target,
    unit: Unit,
    entries: Sequence[MadeEntry],
    proof: str,
    options: Options,
) -> Report:
    """Adds the registry lines of a unit that stands there, and what its proof came to."""
    from scaffold.archon.registering import register

    changes, lines = register(target.root, unit, entries, proof, dry_run=options.dry_run)
    report.changes += reported_changes(changes)
    report.registered += tuple(lines)
    return report


def _recorded(target: Target, unit_id: str) -> Unit | None:
    from scaffold.spec import LedgerError

    try:
        return find_unit(target.root, unit_id)
    except LedgerError:
        return None


def _entries(target: Target, unit: Unit) -> tuple[MadeEntry, ...]:
    kind = target.catalogue.kind(unit.kind)
    request = model_request(target, kind, source_of(dict(unit.answers)), {}, unit.name)
    return request.edited()
