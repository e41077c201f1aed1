"""The commands that make and explain models: nothing is written before the proof is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scaffold.archon.explain import explain_lines, unknown_lines
from scaffold.archon.pipeline import (
    KIND,
    PROVEN,
    UNPROVEN,
    Log,
    ModelOptions,
    ModelWork,
    measured,
    model_answers,
    model_request,
)
from scaffold.archon.proof_report import proof_lines
from scaffold.archon.source import read_source
from scaffold.archon.update import register_unit
from scaffold.errors import RequestError, TargetError
from scaffold.report import Report
from scaffold.target.target import Target, describe
from scaffold.templating.request import Request
from scaffold.templating.spec import Kind
from scaffold.units.add import write_unit
from scaffold.units.context import Options, origin_warnings
from scaffold.units.existing import existing_unit, nothing_to_do
from scaffold.units.ledger import Unit

if TYPE_CHECKING:
    from scaffold.templating.render import RenderedFile


def add_model(
    kind: Kind, typed: str, given: Mapping[str, Any], how: ModelOptions, options: Options, log: Log
) -> Report:
    """Add the model that a model_type, a config.json or a checkpoint folder names.

    Nothing is written before the proof is over; what is not proven is not registered.
    """
    if how.skip_proof and not options.dry_run:
        raise RequestError(
            "--skip-proof requires --dry-run: a written model is always proven", code="usage"
        )
    target, settled = options.find_settled(kind.command)
    source = read_source(typed, options.folder)
    request = model_request(target, kind, source, given, how.name)
    request = replace(request, overwrite=options.overwritten(target.root))
    report = Report(kind.command, describe(target), dry_run=options.dry_run)
    report.check = (options.command("verify", request.id),)
    report.warnings += (*settled, *origin_warnings(request))
    if request.names["registered"] != source.model_type:
        report.warnings += (
            f"{source.model_type!r} is already registered, so this model is found as "
            f"{request.names['registered']!r}",
        )
    made = existing_unit(target.root, request)
    # A model takes minutes to measure, so what exists is found first.
    if made is not None:
        return _nothing_to_do(report, target, request, made, how, options)
    work = ModelWork(target, how, log)
    design = work.derive(source, request.answers, request.names["parts"])
    request = measured(request, design)
    drawn = work.draw(request, source, design, options)
    report.warnings += drawn.warnings
    lines = explain_lines(drawn.design) if how.explain else tuple(unknown_lines(drawn.design))
    report.found += lines
    if how.explain:
        report.extra["design"] = dict(drawn.design)
    report = _written(report, target, drawn.request, drawn.rendered, drawn.proof, how, options)
    if options.dry_run:  # whose text is the diff alone
        for line in report.found:
            log(line)
    return report


def explain_model(
    typed: str, given: Mapping[str, Any], how: ModelOptions, options: Options, log: Log
) -> Report:
    """Return what is found out about a model: each decision with its evidence; writes nothing."""
    target = _target_or_folder(options)
    kind = target.catalogue.kind(KIND)
    source = read_source(typed, options.folder)
    answers = model_answers(kind, source, given)
    work = ModelWork(target, how, log)
    design = work.derive(source, answers)
    report = Report("archon explain", extra={"design": design})
    report.text = "\n".join(explain_lines(design)) + "\n"
    return report


def _target_or_folder(options: Options) -> Target:
    """Return the target, or a stand-in where a model is only looked at."""
    try:
        return options.find()
    except TargetError as error:
        if options.target is not None or error.code != "target_missing":
            raise
        # Measuring needs an interpreter and no repository.
        return Target(options.folder, "none", "areal", "tests", {})


def _nothing_to_do(
    report: Report,
    target: Target,
    request: Request,
    made: Unit,
    how: ModelOptions,
    options: Options,
) -> Report:
    # The version of transformers is only known after measuring, and is no difference here.
    known = {**request.answers, "transformers": made.answers.get("transformers", "")}
    request = replace(request, answers=known)
    report = nothing_to_do(report, target.root, request, made, options)
    if made.proof == UNPROVEN:
        # The second run with --keep-unproven registers what the first one wrote and left alone.
        if how.keep_unproven and not made.entries:
            return register_unit(report, target, made, request.edited(), UNPROVEN, options)
        report.warnings += (f"{made.id} is unproven",)
    return report


def _written(
    report: Report,
    target: Target,
    request: Request,
    rendered: tuple[RenderedFile, ...],
    proof: Mapping[str, Any],
    how: ModelOptions,
    options: Options,
) -> Report:
    is_proven = bool(proof.get("ok"))
    request = replace(request, proof=PROVEN if is_proven else UNPROVEN)
    if proof:
        report.extra["proof"] = dict(proof)
        report.found += proof_lines(proof)
    if not is_proven and not how.keep_unproven and not how.skip_proof:
        # The files are written for a look at what differs; the registry names proven models only.
        # What to do next is for a model that can be used.
        styles = tuple(replace(style, next=()) for style in request.styles)
        request = replace(request, rules=(), styles=styles)
        report.ok = False
        report.warnings += (
            f"{request.id} is not proven and not registered; "
            f"once `scaffold verify {request.id}` passes, it is",
        )
    elif not is_proven:
        report.warnings += (f"{request.id} is not proven",)
    return write_unit(report, target, request, rendered, options)
