"""From units to verdicts: every level of every unit, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scaffold.analysis.process import end_all, end_like_ctrl_c
from scaffold.errors import LedgerError
from scaffold.report import Report, Step
from scaffold.target.target import Target, describe
from scaffold.units.ledger import Unit, find_unit, read_units
from scaffold.units.todos import OpenTodo, open_todos
from scaffold.verify.checkers import check_files
from scaffold.verify.checks import Level, judged, not_run
from scaffold.verify.interpreter import Interpreter, find_interpreter
from scaffold.verify.levels import Bench, Limits, run_episodes, run_tests
from scaffold.verify.registered import registered_unit
from scaffold.verify.rendered import Renewed, renew
from scaffold.verify.static import check_static, has_broken_file

Verdict = Literal["ok", "failed", "unproven", "unfinished"]
HINT = "write what is marked YOURS, or delete the comment to keep what is there"


@dataclass(frozen=True)
class UnitVerdict:
    """What verification found out about one unit.

    Args:
        unit: What was verified.
        levels: The outcome of each level.
        open: The places still left to the author.
        allow_stub: Whether such places are accepted.
    """

    unit: Unit
    levels: tuple[Level, ...]
    open: tuple[OpenTodo, ...]
    allow_stub: bool

    @property
    def verdict(self) -> Verdict:
        """The verdict: what failed weighs more than what is open or was not run."""
        if any(level.status == "failed" for level in self.levels):
            return "failed"
        if self.open and not self.allow_stub:
            return "unfinished"
        return "unproven" if any(level.is_lacking for level in self.levels) else "ok"

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as reports carry it."""
        levels = [level.to_json() for level in self.levels]
        return {"id": self.unit.id, "verdict": self.verdict, "levels": levels}


def verify_units(
    target: Target,
    ids: Sequence[str],
    *,
    python: str | None,
    allow_stub: bool,
    log: Callable[[str], None],
    data: Path | None = None,
    completions: Path | None = None,
    timeout_s: float = 300.0,
    renews: bool = True,
) -> Report:
    """Verify units of a target; this runs the target's code.

    Args:
        target: The repository.
        ids: ``kind/name`` or unique names; none for everything that was made.
        python: The interpreter that a person named, if any.
        allow_stub: Whether places that are left to the author are accepted.
        log: Takes progress, line by line.
        data: Rows of one's own to try units on.
        completions: Completions of one's own, with the rows that they answer.
        timeout_s: How long the tests and the episodes of one unit may take, each.
        renews: Whether what is rendered from registries is written anew; else what is behind fails.

    Raises:
        ScaffoldError: An ID is unknown, or no interpreter can be run.
    """
    units = [_find(target, each) for each in ids] if ids else list(read_units(target.root))
    report = Report("verify", describe(target))
    if not units:
        report.ok = False
        report.text = "nothing was generated here, so there is nothing to verify\n"
        report.extra = {"verdict": "unproven", "python": None, "units": [], "behind": []}
        return report
    python_ = find_interpreter(target, python)
    bench = Bench(target, python_, Limits.within(timeout_s), data, completions)
    log(f"running code of {target.root} with {bench.python.describe()}")
    verdicts = [_verify(bench, unit, allow_stub, log) for unit in units]
    renewed = renew(target.root, writes=renews)
    report.changes = renewed.changes
    return _fill(report, bench.python, verdicts, renewed)


def _find(target: Target, unit_id: str) -> Unit:
    try:
        return find_unit(target.root, unit_id)
    except LedgerError as error:
        # A broken record is reported, and not passed over by way of the registry.
        found = registered_unit(target, unit_id) if error.code == "unit_unknown" else None
        if found is None:
            raise
        return found


def _verify(bench: Bench, unit: Unit, allow_stub: bool, log: Callable[[str], None]) -> UnitVerdict:
    rules = _rules(bench.target, unit)
    static = check_static(bench.target, unit, str(rules.get("contract", "")))
    if static.status == "passed":
        style = check_files(bench.target, unit, bench.python)
        static = judged("static", [*static.details, *style], static.reason)
    _log_findings(log, unit, static)
    if has_broken_file(static):
        reason = "a file is missing or no Python"
        levels = [static, not_run("tests", reason), not_run("episodes", reason)]
    else:
        levels = [static, *_run_levels(bench, unit, rules)]
    for level in levels[1:]:
        _log_findings(log, unit, level)
    return UnitVerdict(unit, tuple(levels), open_todos(bench.target.root, unit), allow_stub)


def _rules(target: Target, unit: Unit) -> Mapping[str, Any]:
    """Return the [verify] table of a unit's kind and style; a kind that is gone has none."""
    catalogue = target.catalogue
    if unit.kind not in catalogue.kind_names():
        return {}
    kind = catalogue.kind(unit.kind)
    known = [name for name in unit.styles if name in catalogue.style_names(kind.name)]
    own = [catalogue.style(kind.name, name).verify for name in known]
    return {**kind.verify, **(own[0] if len(own) == 1 else {})}


def _run_levels(bench: Bench, unit: Unit, rules: Mapping[str, Any]) -> tuple[Level, Level]:
    """Run tests and episodes at once: each is a process that spends its time on imports."""
    end_like_ctrl_c()
    with ThreadPoolExecutor(max_workers=2) as pool:
        tests = pool.submit(run_tests, bench, unit)
        episodes = pool.submit(run_episodes, bench, unit, rules)
        try:
            return tests.result(), episodes.result()
        except KeyboardInterrupt:
            end_all()
            raise


def _log_findings(log: Callable[[str], None], unit: Unit, level: Level) -> None:
    log(f"{unit.id}  {level.level:<8} {level.status}")


def _fill(
    report: Report, python: Interpreter, verdicts: Sequence[UnitVerdict], renewed: Renewed
) -> Report:
    behind: list[Verdict] = ["failed"] if renewed.problems else []
    overall = _worst([*behind, *(each.verdict for each in verdicts)])
    report.ok = overall == "ok"
    report.unfinished = tuple(
        Step(place.file, place.line, place.why) for each in verdicts for place in each.open
    )
    report.warnings = tuple(
        f"{each.unit.id}: {row.check}: {row.message}"
        for each in verdicts
        for level in each.levels
        for row in level.details
        if row.status == "warning"
    )
    report.extra = {
        "verdict": overall,
        "python": {"argv": list(python.argv), "version": python.version, "why": python.why},
        "units": [each.to_json() for each in verdicts],
        "behind": list(renewed.problems),
    }
    report.text = _text(python, verdicts, overall, renewed)
    return report


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    order: tuple[Verdict, ...] = ("failed", "unfinished", "unproven", "ok")
    return min(verdicts, key=order.index)


def _text(
    python: Interpreter, verdicts: Sequence[UnitVerdict], overall: Verdict, renewed: Renewed
) -> str:
    rows = [f"python     {python.describe()}"]
    for each in verdicts:
        rows.append(f"{each.verdict:<10} {each.unit.id}")
        for level in each.levels:
            rows.append(f"  {level.level:<8} {level.status:<8} {level.reason}")
            failures = [row for row in level.details if row.status == "failed"]
            # The first failure is the reason of the level, which is shown already.
            rows += [f"    {row.check}: {row.message}" for row in failures[1:]]
        left = "accepted" if each.allow_stub else "yours"
        rows += [f"  {left:<8} {place.file}:{place.line}  {place.why}" for place in each.open]
    if any(each.open and not each.allow_stub for each in verdicts):
        rows.append(f"hint       {HINT}")
    # With the record of rendered files: it belongs into the commit too.
    rows += [f"renewed    {change.path}" for change in renewed.changes]
    rows += [f"failed     {problem}" for problem in renewed.problems]
    rows.append(f"verdict    {overall}")
    return "\n".join(rows) + "\n"
