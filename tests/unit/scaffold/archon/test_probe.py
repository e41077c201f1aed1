"""What is told of a probe: its result, its refusal, and where it was when it ended otherwise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from scaffold.archon import probe as probes
from scaffold.errors import TargetError
from scaffold.verify.interpreter import Interpreter

PYTHON = Interpreter((sys.executable,), "test", "3", frozenset(["torch", "transformers"]))
HEAD = """\
import json, os, sys, time
name, asked, answered = sys.argv[1:]
request = json.load(open(asked))
def stage(text):
    with open(answered + ".stages", "a") as file:
        print(json.dumps({"name": text}), file=file)
def answer(**row):
    json.dump({"ok": False, "error": None, "result": None} | row, open(answered, "w"))
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a probe of which the test gives the code."""

    def run_code(code: str, timeout_s: float = 60.0, log: Any = None) -> dict[str, Any]:
        folder = tmp_path / "runners" / "archon_probe"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "__main__.py").write_text(HEAD + code)
        monkeypatch.setattr(probes, "RUNNERS", tmp_path / "runners")
        return probes.probe("derive", {"x": 1}, PYTHON, tmp_path, timeout_s, log)

    return run_code


def test_a_result_comes_with_its_versions(run: Any) -> None:
    code = 'answer(ok=True, result={"got": request, "name": name}, versions={"torch": "2"})\n'
    assert run(code) == {"got": {"x": 1}, "name": "derive", "versions": {"torch": "2"}}


def test_a_probe_that_runs_says_what_it_is_about(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "PROGRESS_S", 0.01)
    lines: list[str] = []

    def log(line: str) -> None:
        lines.append(line)
        if "norms" in line:
            (tmp_path / "heard").touch()

    # It ends once its line was heard.
    code = (
        "stage('measuring norms')\n"
        f"while not os.path.exists({str(tmp_path / 'heard')!r}): time.sleep(0.01)\n"
        "answer(ok=True, result={})\n"
    )
    run(code, log=log)
    assert lines.count("  measuring norms") == 1


@pytest.mark.parametrize(
    ("code", "wanted", "message"),
    [
        ('answer(error={"code": "rope_unknown", "message": "m"})', "rope_unknown", "m"),
        ('answer(error={"code": "odd", "message": "m"})', "probe_failed", "the probe 'derive'"),
        ("stage('measuring norms'); os._exit(7)", "probe_failed", "status 7 while measuring norms"),
        ("raise SystemExit('torch is broken')", "probe_failed", "torch is broken"),
    ],
)
def test_an_end_without_a_result_is_explained(
    run: Any, code: str, wanted: str, message: str
) -> None:
    with pytest.raises(TargetError) as refusal:
        run(code + "\n")
    assert refusal.value.code == wanted
    assert message in refusal.value.message


def test_a_probe_that_does_not_end_is_killed_and_says_where_it_was(run: Any) -> None:
    with pytest.raises(TargetError) as refusal:
        run("stage('measuring norms')\ntime.sleep(600)\n", 2.0)
    assert refusal.value.code == "probe_failed"
    assert "killed after 2 s, while measuring norms" in refusal.value.message
    assert "--timeout" in refusal.value.hint


def test_an_interpreter_without_torch_is_told_before_anything_runs(tmp_path: Path) -> None:
    bare = Interpreter((sys.executable,), "test", "3", frozenset(["transformers"]))
    with pytest.raises(TargetError) as refusal:
        probes.probe("derive", {}, bare, tmp_path, 60.0)
    assert refusal.value.code == "interpreter_lacks"
    assert "has no torch" in refusal.value.message
    assert "--python" in refusal.value.hint
