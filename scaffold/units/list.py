"""What can be made, where, and what was made already."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from scaffold.errors import ScaffoldError, TargetError, TemplateError
from scaffold.report import Report
from scaffold.target.target import Target, describe
from scaffold.templating.manifests import Catalogue, catalogue_for
from scaffold.templating.spec import Kind, Style, all_answers
from scaffold.transaction.leftovers import leftover_warning
from scaffold.units.context import Options
from scaffold.units.ledger import find_unit, unit_ids


def list_templates(options: Options) -> Report:
    """List what can be made, and what was made in the target, if there is one."""
    try:
        target = options.find()
    # Outside of a repository the built-in templates can be listed all the same.
    except TargetError as error:
        if options.target is not None or error.code != "target_missing":
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
        rows += ["", f"generated in {target.root}:", *(made or ["  -"])]
    report.text = "\n".join(rows) + "\n"
    return report


def explain_target(options: Options) -> Report:
    """Return which target was found, why, and where things go in it."""
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


def _mark(target: Target, unit_id: str) -> str:
    """Return what to say of a unit whose proof failed, "" of any other."""
    kind = unit_id.partition("/")[0]
    known = kind in target.catalogue.kind_names() and target.catalogue.kind(kind).writer
    with suppress(ScaffoldError):  # `status` reports a record that cannot be read
        if known and find_unit(target.root, unit_id).proof == "unproven":
            return " (unproven)"
    return ""


def _origin(origin: str) -> str:
    """Return what to print of a template that is not built in."""
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
