from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scaffold.report import ReportedChange
from scaffold.target.target import find_target
from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import LedgerFile, Unit
from scaffold.units.todos import OpenTodo
from scaffold.verify import verify_units
from scaffold.verify.checks import Check, Level, failed, judged, not_needed, not_run, warning
from scaffold.verify.interpreter import Interpreter
from scaffold.verify.levels import Bench, Limits, run_episodes, run_tests
from scaffold.verify.rendered import Renewed
from scaffold.verify.verdict import UnitVerdict, _text

UNIT = Unit("reward", "x", (), {})
OPEN = OpenTodo("x.py", 3, "f", "write it")
PASSED = judged("static", [warning("a", "b")], "fine")
FAILED = judged("tests", [failed("a", "b"), failed("c", "d")], "")


@pytest.mark.parametrize(
    ("levels", "todos", "allow_stub", "verdict"),
    [
        ([PASSED], (), False, "ok"),
        ([PASSED, not_needed("episodes", "none")], (), False, "ok"),
        ([PASSED], (OPEN,), False, "unfinished"),
        ([PASSED], (OPEN,), True, "ok"),
        ([PASSED, not_run("tests", "no pytest")], (), True, "unproven"),
        ([FAILED, PASSED], (OPEN,), True, "failed"),
    ],
)
def test_verdicts(
    levels: list[Level], todos: tuple[OpenTodo, ...], allow_stub: bool, verdict: str
) -> None:
    assert UnitVerdict(UNIT, tuple(levels), todos, allow_stub).verdict == verdict


def test_a_level_tells_its_first_failure() -> None:
    assert (PASSED.status, PASSED.reason) == ("passed", "fine")
    assert (FAILED.status, FAILED.reason) == ("failed", "a: b (and 1 more)")
    skipped = judged("episodes", [Check("x", "skipped", "no proxy")], "")
    assert (skipped.status, skipped.reason, skipped.is_lacking) == ("skipped", "no proxy", True)


def test_all_that_was_renewed_is_told_the_record_too() -> None:
    changes = (ReportedChange("a/SKILL.md", "edited"), ReportedChange("b/skills.sums", "record"))
    text = _text(Interpreter(("python",), "test"), (), "ok", Renewed(changes))
    assert "renewed    a/SKILL.md\nrenewed    b/skills.sums\n" in text


def bench(root: Path, *packages: str) -> Bench:
    python = Interpreter(("python",), "test", "3.11.0", frozenset(packages))
    return Bench(find_target(root), python, Limits())


def test_what_the_interpreter_lacks_is_not_run(project: Path) -> None:
    unit = Unit("reward", "x", (), {}, files=(LedgerFile("tests/test_x.py", "test", ""),))
    tests = run_tests(bench(project, "areal"), unit)
    assert (tests.status, tests.is_lacking) == ("skipped", True)
    assert "has no pytest" in tests.reason
    episodes = run_episodes(bench(project, "areal"), unit, load_kind("reward").verify)
    assert episodes.is_lacking
    assert episodes.reason.startswith("python has no torch, transformers; name an interpreter")


def test_a_project_has_neither_tests_in_a_runner_nor_episodes(project: Path) -> None:
    unit = Unit("project", "my_rl", (), {})
    level = run_episodes(bench(project), unit, load_kind("project").verify)
    assert (level.status, level.is_lacking) == ("skipped", False)


def test_nothing_made_is_nothing_proven(checkout: Path) -> None:
    lines: list[str] = []
    report = verify_units(
        find_target(checkout), [], python=None, allow_stub=False, log=lines.append
    )
    assert (report.ok, report.extra["verdict"], lines) == (False, "unproven", [])


def test_a_broken_file_is_reported_and_not_run(project: Path) -> None:
    """Runs no code of the target at all, so it needs no training package."""
    add_unit(load_kind("reward"), "sums", ["math"], {}, Options(project))
    (project / "my_rl" / "reward" / "sums.py").write_text("def sums_reward_fn(:\n")
    lines: list[str] = []
    report = verify_units(
        find_target(project),
        ["sums"],
        python=sys.executable,
        allow_stub=False,
        log=lines.append,
    )
    told = json.loads(json.dumps(report.to_json()))
    (unit,) = told["units"]
    assert (report.ok, told["verdict"], unit["id"]) == (False, "failed", "reward/sums")
    assert [level["status"] for level in unit["levels"]] == ["failed", "skipped", "skipped"]
    assert unit["levels"][0]["reason"] == "syntax: my_rl/reward/sums.py:1: invalid syntax"
    assert told["python"]["argv"] == [sys.executable]
    assert "failed     reward/sums" in report.to_text()
    assert lines[0].startswith("running code of ")
