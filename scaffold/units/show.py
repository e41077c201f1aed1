"""The commands that only look: what can be made, where, and what became of what was made."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scaffold.errors import ScaffoldError, TargetError, TemplateError
from scaffold.report import Report, Step, entry_label
from scaffold.target.target import Target, describe
from scaffold.templating.manifests import Catalogue, catalogue_for
from scaffold.templating.spec import Kind, Style, all_answers
from scaffold.units.context import Options, leftover_warning
from scaffold.units.ledger import find_unit, sound_units, unit_ids
from scaffold.units.status import status_json as _status_json

if TYPE_CHECKING:
    pass

MAX_SHOWN = 200
"""How much of an answer is shown to people."""


def list_templates(options: Options) -> Report:
    """Lists what can be made, and what was made in the target, if there is one."""
    try:
        target = options.find()
    except TargetError:
        if options.target is not None:
            raise
        target = None
    catalogue = target.catalogue if target else catalogue_for(None)
    kinds: list[dict[str, Any]] = []
    report = Report("list", extra={"kinds": kinds, "units": []})
    for name in catalogue.kind_names():
        try:
            kinds.append(_kind_json(catalogue, catalogue.kind(name)))
        except TemplateError as error:  # one that is wrong stops no other
            report.warnings += (error.message,)
    rows: list[str] = []
    for kind in kinds:
        rows.append(f"{kind['command']:<17} {kind['title']}{_origin(kind['origin'])}")
        for style in kind["styles"]:
            head = f"  --{kind['option']} {style['name']:<12}"
            rows.append(f"{head} {style['help']}{_origin(style['origin'])}")
    if target is not None:
        report.target = describe(target)
        report.extra["units"] = unit_ids(target.root)
        made = [f"  {each}{_mark(target, each)}" for each in report.extra["units"]]
        rows += ["", f"made in {target.root}:", *(made or ["  -"])]
    report.text = "\n".join(rows) + "\n"
    return report


def explain_target(options: Options) -> Report:
    """Tells which target was found, why, and where things go in it."""
    target = options.find()
    rows = {kind: place.registry for kind, place in target.kinds.items()}
    registries = {kind: f"{row.file}:{row.table}" for kind, row in rows.items()}
    extra = {"tests": target.tests, "registries": registries, "python": target.python}
    rows = [f"target     {target.root}", f"layout     {target.layout}: {target.why}"]
    rows += [f"package    {target.package}", f"tests      {target.tests}"]
    rows += [f"registry   {kind:<10} {where}" for kind, where in sorted(registries.items())]
    return Report(
        "target", describe(target), warnings=leftover_warning(target.root), extra=extra,
        text="\n".join(rows) + "\n",
    )  # fmt: skip


def show_unit(unit_id: str, options: Options) -> Report:
    """Tells everything about one unit."""
    from scaffold.units.status import unit_status
    from scaffold.units.todos import open_places

    target = options.find()
    unit = find_unit(target.root, unit_id)
    others, _ = sound_units(target.root)
    status = unit_status(target.root, unit, target.catalogue, others)
    places = tuple(Step(p.file, p.line, p.why) for p in open_places(target.root, unit))
    rows = [f"{unit.id}: {', '.join(status.states)}"]
    rows += [f"template   {use.id} version {use.version}" for use in unit.templates]
    rows += [f"answer     {name} = {_shortened(value)}" for name, value in unit.answers.items()]
    rows += [f"proof      {unit.proof}"] * bool(unit.proof)
    rows += [f"{state:<10} {path}" for path, state in status.files.items()]
    rows += [
        f"registered {e.file}  {entry_label(e.table, e.key)}" + f" = {e.value!r}" * bool(e.value)
        for e in unit.entries
    ]
    rows += [f"yours      {step.file}:{step.line}  {step.why}" for step in places]
    return Report(
        "show",
        describe(target),
        unfinished=places,
        check=(options.command("verify", unit.id),),
        extra={"unit": _status_json(status)},
        text="\n".join(rows) + "\n",
    )


def _mark(target: Target, unit_id: str) -> str:
    """Returns what to say of a unit whose proof failed, "" of any other."""
    kind = unit_id.partition("/")[0]
    known = kind in target.catalogue.kind_names() and target.catalogue.kind(kind).writer
    with suppress(ScaffoldError):  # `status` tells of a record that cannot be read
        if known and find_unit(target.root, unit_id).proof == "unproven":
            return " (unproven)"
    return ""


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"


def _origin(origin: str) -> str:
    """Returns what to print of a template that is not built in."""
    return "" if origin == "builtin" else f" (from the {origin})"


def _kind_json(catalogue: Catalogue, kind: Kind) -> dict[str, Any]:
    styles = [catalogue.style(kind.name, name) for name in catalogue.style_names(kind.name)]
    return {
        "kind": kind.name,
        "command": kind.command,
        "title": kind.title,
        "origin": kind.origin,
        "option": kind.option,
        "multiple": kind.multiple,
        "default": kind.default,
        "styles": [_style_json(kind, style) for style in styles],
    }


def _style_json(kind: Kind, style: Style) -> dict[str, Any]:
    answers = [
        {"name": row.name, "option": row.option, "type": row.type, "default": row.default,
         "choices": list(row.choices), "help": row.help}
        for row in all_answers(kind, [style]).values()
    ]  # fmt: skip
    return {
        "name": style.name,
        "title": style.title,
        "help": style.help,
        "origin": style.origin,
        "version": style.version,
        "answers": answers,
    }
