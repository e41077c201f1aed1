"""What using a unit comes to: keys of configurations, set in the files that hold them.

The keys are those of the kind's ``[[use]]`` tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from scaffold.edit.setting import Setting
from scaffold.edit.yaml_list import scalar_source
from scaffold.edit.yaml_setting import find_value, set_value
from scaffold.errors import RegistryError, RequestError
from scaffold.report import Report, SetKey, Step
from scaffold.target.target import Target
from scaffold.templating.request import Request
from scaffold.templating.spec import fill
from scaffold.transaction.change import Change
from scaffold.units.context import Options
from scaffold.units.ledger import dump_unit, find_unit, record_path
from scaffold.units.use import Use, files_of, find_use
from scaffold.units.work import at_work

Read = Callable[[str], "bytes | None"]


@dataclass
class UsePlan:
    """What using a unit comes to."""

    settings: list[Setting] = field(default_factory=list[Setting])
    changes: list[Change] = field(default_factory=list[Change])
    rows: list[SetKey] = field(default_factory=list[SetKey])
    steps: list[Step] = field(default_factory=list[Step])


def plan_use(request: Request, use: Use, read: Read) -> UsePlan:
    """Work out what is set; nothing is written.

    Args:
        request: The unit.
        use: The configurations.
        read: Return a file of the target, None where there is none.

    Raises:
        RegistryError: A file that a person named cannot be edited.
        RequestError: A configuration that a person named has no place for the unit.
    """
    whole = UsePlan()
    before = {file: data for file in use.files() if (data := read(file)) is not None}
    after = dict(before)
    for config in use.configs:
        part, data = UsePlan(), dict(after)
        try:
            _use_in(config, request, use, data, part)
        except RegistryError as error:
            if use.is_asked:
                raise
            # The whole configuration stays as it is: half of it would train with neither.
            text = f"left as it is ({error.message}); to train with {request.key}, set it by hand"
            whole.steps.append(Step(config, 1, text))
            continue
        after = data
        whole.settings += part.settings
        whole.rows += part.rows
        whole.steps += part.steps
    whole.changes = [
        Change(file, "edited", data, after[file])
        for file, data in before.items()
        if data != after[file]
    ]
    return whole


class _Wanted(NamedTuple):
    key: str
    value: str
    where: str


def _use_in(config: str, request: Request, use: Use, data: dict[str, bytes], plan: UsePlan) -> None:
    files = [file for file in files_of(config) if file in data]
    groups: dict[str, list[_Wanted]] = {}
    for each in _wanted(request, use.found):
        groups.setdefault(each.where, []).append(each)
    fitting = {
        where: rows
        for where, rows in groups.items()
        if any(_holds(data[file], file, where, use) for file in files)
    }
    known = [rows for rows in fitting.values() if all(row.value for row in rows)]
    if use.is_asked and not known:
        raise _no_place(config, groups, fitting)
    for rows in fitting.values():
        if rows in known:
            for row in rows:
                _set(files, data, row, plan)
        elif known or use.found:
            plan.steps.append(_left_open(files, data, rows))


def _text(rows: Iterable[_Wanted]) -> str:
    return ", ".join(f"{row.key} = {row.value}" if row.value else row.key for row in rows)


def _wanted(request: Request, data: Mapping[str, str]) -> list[_Wanted]:
    variables = {"data": "", "held_out": "", **request.names, **request.answers, **data}
    found: list[_Wanted] = []
    for style in request.style_names:
        for rule in request.kind.use:
            names = {**variables, "each_style": style}
            value = fill(rule.value, names)
            source = value if rule.is_code or not value else scalar_source(value, "")
            row = _Wanted(fill(rule.key, names), source, fill(rule.where, names))
            if row not in found:
                found.append(row)
    return found


def _holds(data: bytes, file: str, where: str, use: Use) -> bool:
    key, is_value, value = where.partition("=")
    has_parent, source = find_value(data, file, key)
    if is_value:
        return source is not None and source.strip("'\"") == value
    return source is not None or (use.is_asked and has_parent)


def _set(files: Sequence[str], data: dict[str, bytes], row: _Wanted, plan: UsePlan) -> None:
    found = {file: find_value(data[file], file, row.key) for file in files}
    file = next((f for f in files if found[f][1] is not None), None)
    file = file or next(f for f in files if found[f][0])
    was = found[file][1]
    setting = Setting(file, row.key, row.value, was)
    data[file], line = set_value(data[file], setting)
    if was != row.value:
        plan.settings.append(setting)
    plan.rows.append(SetKey(file, row.key, row.value, line))


def _left_open(files: Sequence[str], data: dict[str, bytes], rows: Sequence[_Wanted]) -> Step:
    """Return what to say of keys whose values nobody named, while others of the file were set."""
    file = next(f for f in files if find_value(data[f], f, rows[0].key)[0])
    line = set_value(data[file], Setting(file, rows[0].key, "x"))[1]
    return Step(file, line, f"set as well: {_text(rows)}")


def _no_place(
    config: str, groups: dict[str, list[_Wanted]], fitting: dict[str, list[_Wanted]]
) -> RequestError:
    if fitting:
        row = next(row for rows in fitting.values() for row in rows if not row.value)
        return RequestError(
            f"--use {config}: nothing gives {row.key} a value",
            code="usage",
            hint="name your data with --from PATH",
        )
    return RequestError(
        f"--use {config}: it has none of {', '.join(groups)}",
        code="usage",
        hint="name the YAML of a run that trains with such a unit",
    )


def use_made(report: Report, target: Target, request: Request, options: Options) -> Report:
    """Set the configurations that ``--use`` names to a unit that exists."""
    with at_work(f"{report.command} {request.key}", options) as work:
        made = find_unit(work.root, request.id)
        plan = plan_use(request, find_use(target, request, options), _reader(work.root))
        record = record_path(made.kind, made.name)
        unit = made._replace(settings=(*made.settings, *plan.settings))
        before = (work.root / record).read_bytes()
        work.apply([*plan.changes, Change(record, "record", before, dump_unit(unit))])
        report.changes = work.report.changes
        report.configured = tuple(plan.rows)
        report.next = (*report.next, *plan.steps)
    return report


def _reader(root: Path) -> Read:
    def read(file: str) -> bytes | None:
        return (root / file).read_bytes() if (root / file).is_file() else None

    return read
