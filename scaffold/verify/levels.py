"""The levels that run the target's code: the generated tests, and episodes in a runner."""

from __future__ import annotations

import ast
import json
import os
import re
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from scaffold.errors import TargetError
from scaffold.syntax import parse
from scaffold.target.target import Target
from scaffold.units.ledger import Unit
from scaffold.units.todos import OpenTodo, is_marked, open_todos
from scaffold.verify.checks import Check, Level, failed, judged, not_needed, not_run
from scaffold.verify.interpreter import PROBED, Interpreter
from scaffold.verify.process import Finished, run_limited
from scaffold.verify.registry_tests import registry_tests

PLUGINS = Path(__file__).resolve().parent.parent / "runners" / "pytest_plugins"
SELECTION = "scaffold_one_unit"
"""The plugin that leaves out what a registry's tests ask of other units."""

UNIT_PROBE = Path(__file__).resolve().parent.parent / "runners" / "unit_probe"
AUTHORS_PART = "NotImplementedError: YOURS"
"""What a generated test raises where it needs what only the author knows."""

# `tests/test_x.py:9: in test_x`, a call in a short traceback.
CALL = re.compile(r"^(?P<file>\S.*?):(?P<line>\d+): in ", re.MULTILINE)

MISSED = re.compile(r"No module named '(\w+)")
"""The error of an import of a package that is not installed."""

# A few rows are enough for episodes that take seconds each.
MOST_ROWS = 8
MOST_COMPLETIONS = 64

SAMPLES = "SAMPLES"
"""The literal in a dataset's test that holds rows of its source."""


@dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds.

    Args:
        process_s: The tests of a unit, and its episodes.
        episode_s: One episode.
        call_s: One call of a reward; AsyncRewardWrapper's own limit is the default.
    """

    process_s: float = 300.0
    episode_s: float = 30.0
    call_s: float = 15.0

    @classmethod
    def within(cls, process_s: float) -> Limits:
        """Return limits of which the smaller ones are over before the process is killed."""
        # A call is over before its episode, the episode before the process, and each can be named.
        return cls(process_s, min(30.0, process_s / 4), min(15.0, process_s / 8))


@dataclass(frozen=True)
class Bench:
    """What units of a target are tried on.

    Args:
        target: The repository.
        python: What runs its code.
        limits: How long it may take.
        data: A person's own rows: a JSONL file, or for datasets also a folder.
        completions: A person's own completions, a JSONL file; without it the file of that kind
            beside the unit's test.
        engine: What generates: "target" for its embedded engine if it has one, or "own" for the
            runner's.
    """

    target: Target
    python: Interpreter
    limits: Limits
    data: Path | None = None
    completions: Path | None = None
    engine: str = "target"


# --- tests --------------------------------------------------------------------------------------


def run_tests(bench: Bench, unit: Unit) -> Level:
    """Run the unit's tests with pytest."""
    files = [file.path for file in unit.files if file.role == "test"]
    if not files:
        return not_needed("tests", "the unit has no tests")
    shared = registry_tests(bench.target, unit)
    if "pytest" not in bench.python.packages:
        return not_run("tests", f"{bench.python.argv[0]} has no pytest; install it there")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # No `.pytest_cache` is left in the target; the report has paths from its root, also where
        # a folder in it has a configuration of its own.
        options = ["-p", "no:cacheprovider", f"--rootdir={bench.target.root}", "--tb=short"]
        options += [f"--junit-xml={report}"]
        done = run_limited(
            [*bench.python.argv, "-m", "pytest", "-p", SELECTION, *options, *files, *shared.files],
            bench.target.root,
            bench.limits.process_s,
            {
                "HF_DATASETS_CACHE": str(Path(folder) / "cache"),
                "PYTHONPATH": os.pathsep.join(
                    [
                        str(bench.target.root),
                        *filter(None, [os.environ.get("PYTHONPATH")]),
                        str(PLUGINS),
                    ]
                ),
                "SCAFFOLD_OTHER_UNITS": json.dumps(shared.others),
            },
        )
        return _judge_tests(done, report, bench, files, open_todos(bench.target.root, unit))


def _judge_tests(
    done: Finished, report: Path, bench: Bench, files: list[str], todos: Sequence[OpenTodo]
) -> Level:
    if done.status is None:
        text = (
            f"not finished within {bench.limits.process_s:g} s; "
            f"run pytest {' '.join(files)} to see where"
        )
        return judged("tests", [failed("time limit", text)], "")
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        text = f"pytest {done.describe()} without a report:\n{done.last_lines()}"
        return judged("tests", [failed("pytest", text)], "")
    problems = [
        (f"{case.get('name')}", problem)
        for case in cases
        for problem in (*case.findall("failure"), *case.findall("error"))
    ]
    findings = [failed(name, _first_line(problem)) for name, problem in problems]
    own = [case for case in cases if _is_of(case, files)]
    skipped = [case for case in own if case.find("skipped") is not None]
    if not own:
        findings = [failed("pytest", f"{' '.join(files)} holds no test; {done.describe()}")]
    elif len(skipped) == len(own):
        reason = _first_line(skipped[0].find("skipped"))
        return not_run("tests", f"every test was skipped: {reason}")
    # All tests fail for a package that is not installed, which proves nothing about the unit.
    elif lack := bench.python.lack(_missed(findings)):
        return not_run("tests", lack)
    elif findings and all(
        _awaits_author(problem, bench.target.root, todos) for _, problem in problems
    ):
        many = f"{len(findings)} tests wait for the author"
        waiting = many if len(findings) > 1 else "1 test waits for the author"
        return not_run("tests", f"{waiting}: {findings[0].message}")
    elif done.status and not findings:
        findings = [failed("pytest", f"pytest {done.describe()}:\n{done.last_lines()}")]
    note = f", {len(skipped)} skipped" if skipped else ""
    note += f"; {len(cases) - len(own)} registry tests" if len(cases) > len(own) else ""
    return judged("tests", findings, f"{len(own) - len(skipped)} passed{note}")


def _awaits_author(problem: ElementTree.Element, root: Path, todos: Sequence[OpenTodo]) -> bool:
    """Return whether a test asked for what only the author knows, or ran into an open place."""
    line = _first_line(problem)
    if AUTHORS_PART in line:
        return True
    calls = list(CALL.finditer(problem.text or ""))
    is_raised = "NotImplementedError" in line and bool(calls)
    return is_raised and is_marked(root, todos, calls[-1]["file"], int(calls[-1]["line"]))


def _is_of(case: ElementTree.Element, files: Sequence[str]) -> bool:
    """Return whether a case is one of these files; that of a file that fails is named after it."""
    modules = tuple(file.removesuffix(".py").replace("/", ".") for file in files)
    return (case.get("classname") or case.get("name") or "").startswith(modules)


def _missed(findings: Sequence[Check]) -> set[str]:
    """Return the training packages that all failures come from the absence of."""
    found = [MISSED.search(row.message) for row in findings]
    names = {each[1] for each in found if each}
    return names & set(PROBED) if all(found) else set()


def _first_line(problem: ElementTree.Element | None) -> str:
    if problem is None:
        return ""
    message, text = problem.get("message", ""), problem.text or ""
    errors = [row[2:].strip() for row in text.splitlines() if row.startswith("E ")]
    if message == "collection failure" and errors:  # which does not name the cause
        message = errors[-1]
    return (message or text).strip().partition("\n")[0][:300]


# --- episodes -----------------------------------------------------------------------------------


def run_episodes(bench: Bench, unit: Unit, rules: Mapping[str, Any]) -> Level:
    """Run the kind's runner on the unit.

    Args:
        bench: Where and how.
        unit: What is tried.
        rules: The [verify] table of the kind; its key `episodes` names the runner.
    """
    runner = rules.get("episodes")
    if not runner:
        return not_needed("episodes", f"units of kind {unit.kind} have no episodes")
    lack = bench.python.lack(["areal", "torch", "transformers"])
    if lack:
        return not_run("episodes", lack)
    request = _request(bench, unit)
    if isinstance(request, str):
        return not_run("episodes", request)
    with tempfile.TemporaryDirectory() as folder:
        return _run_probe(bench, runner, request, Path(folder))


def _run_probe(bench: Bench, name: str, request: dict[str, Any], folder: Path) -> Level:
    asked, answered = folder / "request.json", folder / "result.jsonl"
    asked.write_text(json.dumps(request), encoding="utf-8")
    done = run_limited(
        [*bench.python.argv, str(UNIT_PROBE), name, str(asked), str(answered)],
        bench.target.root,
        bench.limits.process_s,
        {"HF_DATASETS_CACHE": str(folder / "cache")},
    )
    rows = _read_rows(answered)
    return judged("episodes", _read_findings(rows, done, bench.limits), _proven(rows))


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the result; the last line of a runner that was killed may be incomplete."""
    rows: list[dict[str, Any]] = []
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for line in text.splitlines():
        try:
            rows.append(cast("dict[str, Any]", json.loads(line)))
        except ValueError:
            break
    return rows


def _read_findings(rows: list[dict[str, Any]], done: Finished, limits: Limits) -> list[Check]:
    checks = [row for row in rows if row["event"] == "check"]
    findings = [Check(row["check"], row["status"], row["message"]) for row in checks]
    faults = [row["message"] for row in rows if row["event"] == "fault"]
    findings += [failed("runner", f"the runner itself failed: {text}") for text in faults]
    if any(row["event"] == "done" for row in rows):
        return findings
    stage = next((row["name"] for row in reversed(rows) if row["event"] == "stage"), "starting")
    if done.status is None:
        text = (
            f"not finished within {limits.process_s:g} s, killed while {stage}; "
            "find what blocks or loops"
        )
        return [*findings, failed("time limit", text)]
    text = f"the process {done.describe()} while {stage}; a unit must not end the process"
    output = done.last_lines()
    return [*findings, failed("process", f"{text}:\n{output}" if output else text)]


def _proven(rows: list[dict[str, Any]]) -> str:
    passed = [row for row in rows if row["event"] == "check" and row["status"] == "passed"]
    # That the unit could be imported is no news.
    texts = [row["message"] for row in passed if row["check"] not in ("import", "engine")]
    return "; ".join(text for text in texts if text)


def _request(bench: Bench, unit: Unit) -> dict[str, Any] | str:
    """Return what the runner is asked, or why there is nothing to ask."""
    if unit.kind == "dataset":
        return _dataset_request(bench, unit)
    tests = [file.path for file in unit.files if file.role == "test"]
    beside = str(PurePosixPath(tests[0]).with_suffix(".jsonl")) if tests else ""
    return {
        "symbol": unit.symbol,
        "name": unit.name,
        "files": {file.role: file.path for file in unit.files},
        "is_registered": bool(unit.entries),
        "answers": dict(unit.answers),
        "rows": None if bench.data is None else _own_rows(bench.data, "--data")[:MOST_ROWS],
        "completions": own_completions(bench, beside),
        "completions_file": beside,
        "case_rewards": sorted(_case_rewards(bench.target.root / tests[0])) if tests else [],
        "engine": bench.engine,
        "episode_timeout_s": bench.limits.episode_s,
        "call_timeout_s": bench.limits.call_s,
    }


def _dataset_request(bench: Bench, unit: Unit) -> dict[str, Any] | str:
    request: dict[str, Any] = {
        "module": unit.symbol,
        "name": unit.name,
        "types": list(unit.styles),
        "path": None if bench.data is None else str(bench.data.resolve()),
    }
    if bench.data is None:
        tests = [file.path for file in unit.files if file.role == "test"]
        # Read as text: to import the test would run it.
        samples = [_literal(bench.target.root / path, SAMPLES) for path in tests]
        request["samples"] = next((found for found in samples if found), None)
        if request["samples"] is None:
            return f"no rows to load: give --data PATH, or a literal {SAMPLES} in the unit's test"
    return request


def _own_rows(path: Path, option: str) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise _unreadable(option, path, str(error)) from error
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise _unreadable(option, path, "it must hold one JSON object per line")
    return cast("list[dict[str, Any]]", rows)


def own_completions(bench: Bench, beside: str) -> list[dict[str, Any]]:
    """Return a person's completions: each a row with ``completions``, a text for each turn."""
    path, option = bench.completions, "--completions"
    if path is None:
        path, option = bench.target.root / beside, ""
        if not (beside and path.is_file()):
            return []
    rows: list[dict[str, Any]] = []
    for row in _own_rows(path, option):
        given: Any = row.pop("completions", None) or [row.pop("completion", None)]
        found = cast("list[Any]", given) if isinstance(given, list) else [given]
        if not all(isinstance(each, str) for each in found):
            raise _unreadable(option, path, "each row needs a text completion, or completions")
        rows.append({**row, "completions": found})
    return rows[:MOST_COMPLETIONS]


def _unreadable(option: str, path: Path, reason: str) -> TargetError:
    return TargetError(
        f"{option} {path} cannot be read: {reason}".lstrip(),
        code="target_invalid",
        hint="give a JSONL file of rows as the dataset yields them",
    )


def _case_rewards(path: Path) -> set[float]:
    """Return the rewards that the literal CASES of a test expects, the last part of each case."""
    cases = _assigned(path, "CASES")
    rows = cases.elts if isinstance(cases, ast.List | ast.Tuple) else []
    last = [row.elts[-1] for row in rows if isinstance(row, ast.Tuple) and row.elts]
    values = [each.value for each in last if isinstance(each, ast.Constant)]
    return {float(value) for value in values if isinstance(value, int | float)}


def _assigned(path: Path, name: str) -> ast.expr | None:
    """Return what is assigned to a name at the top level of a Python file, or None."""
    try:
        tree = parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(each, ast.Name) and each.id == name for each in targets):
            return cast("ast.expr | None", getattr(node, "value", None))
    return None


def _literal(path: Path, name: str) -> Any:
    """Return the value of a literal assigned at the top level of a Python file, or None."""
    value = _assigned(path, name)
    if value is None:
        return None
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError):
        return None
