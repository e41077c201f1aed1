"""Everything about one unit."""

from __future__ import annotations

from typing import Any

from scaffold.report import Report, Step, entry_label
from scaffold.target.target import describe
from scaffold.units.context import Options
from scaffold.units.ledger import find_unit, sound_units
from scaffold.units.status import status_json, unit_status
from scaffold.units.todos import open_todos

MAX_SHOWN = 200
"""How much of an answer is shown to people."""


def show_unit(unit_id: str, options: Options) -> Report:
    """Report everything about one unit."""
    target = options.find()
    unit = find_unit(target.root, unit_id)
    others, _ = sound_units(target.root)
    status = unit_status(target.root, unit, target.catalogue, others)
    todos = tuple(Step(p.file, p.line, p.why) for p in open_todos(target.root, unit))
    rows = [f"{unit.id}: {', '.join(status.states)}"]
    rows += [f"template   {use.id} version {use.version}" for use in unit.templates]
    rows += [f"answer     {name} = {_shortened(value)}" for name, value in unit.answers.items()]
    rows += [f"proof      {unit.proof}"] * bool(unit.proof)
    rows += [f"{state:<10} {path}" for path, state in status.files.items()]
    rows += [
        f"registered {e.file}  {entry_label(e.table, e.key)}" + f" = {e.value!r}" * bool(e.value)
        for e in unit.entries
    ]
    rows += [f"configured {row.file}: {row.key} = {row.value}" for row in unit.settings]
    rows += [f"yours      {step.file}:{step.line}  {step.why}" for step in todos]
    return Report(
        "show",
        describe(target),
        unfinished=todos,
        check=(options.command("verify", unit.id),),
        extra={"unit": status_json(status)},
        text="\n".join(rows) + "\n",
    )


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"
