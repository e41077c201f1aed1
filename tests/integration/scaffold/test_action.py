"""Does the action do what it says? Its scripts run as a runner runs them, with inputs filled in."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.integration.clients.kit import make_repository

ROOT = Path(__file__).parents[3]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["id"]: step for step in ACTION["runs"]["steps"]}
SKILL = "---\nname: greet\ndescription: Greets. Use when somebody comes.\n---\n\n# Greet\n\n"
EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")


class Ran(NamedTuple):
    """Is how a step ended: its status and text, its outputs, and what it adds to the summary."""

    status: int
    text: str
    outputs: dict[str, str]
    summary: str


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Makes a repository whose only skill names a file that exists."""
    folder = tmp_path / "a checkout"
    (folder / ".agents" / "skills" / "greet").mkdir(parents=True)
    say(folder, "Read `docs/greeting.md`.\n")
    (folder / "docs").mkdir()
    (folder / "docs" / "greeting.md").write_text("Hello.\n", encoding="utf-8")
    return make_repository(folder)


def say(folder: Path, text: str) -> None:
    """Writes the body of the skill."""
    path = folder / ".agents" / "skills" / "greet" / "SKILL.md"
    path.write_text(SKILL + text, encoding="utf-8")


@pytest.fixture
def scaffold(tmp_path: Path) -> Path:
    """Returns the command, as the step `install` leaves it."""
    command = tmp_path / "scaffold"
    line = f'PYTHONPATH="{ROOT}" exec "{sys.executable}" -m scaffold "$@"'
    command.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    command.chmod(0o755)
    return command


def run_step(name: str, folder: Path, known: dict[str, str]) -> Ran:
    """Runs the script of a step with what the expressions of the action stand for."""
    temp = folder.parent / "runner"
    temp.mkdir(exist_ok=True)
    files = {"GITHUB_OUTPUT": temp / "output", "GITHUB_STEP_SUMMARY": temp / "summary"}
    for file in files.values():
        file.write_text("")
    values = {f"inputs.{key}": given["default"] for key, given in ACTION["inputs"].items()} | known

    def filled(text: str) -> str:
        return EXPRESSION.sub(lambda found: values[found[1]], text)

    env = {key: filled(text) for key, text in STEPS[name]["env"].items()}
    env |= {key: str(file) for key, file in files.items()} | {"RUNNER_TEMP": str(temp)}
    (temp / "script.sh").write_text(STEPS[name]["run"], encoding="utf-8")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(temp / "script.sh")],
        cwd=folder / filled(STEPS[name].get("working-directory", ".")),
        env={"PATH": os.environ["PATH"], "HOME": str(temp), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    outputs = dict(row.split("=", 1) for row in files["GITHUB_OUTPUT"].read_text().splitlines())
    summary = files["GITHUB_STEP_SUMMARY"].read_text()
    return Ran(done.returncode, done.stdout + done.stderr, outputs, summary)


def check(folder: Path, scaffold: Path, **inputs: str) -> Ran:
    """Runs the step `check` with inputs of the action."""
    given = {f"inputs.{key.replace('_', '-')}": value for key, value in inputs.items()}
    return run_step("check", folder, {"steps.install.outputs.scaffold": str(scaffold), **given})


def test_its_form_is_that_of_a_composite_action() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(("run" in step) == ("shell" in step) for step in STEPS.values())
    assert all(re.search(r"@v\d+$", step["uses"]) for step in STEPS.values() if "uses" in step)
    used = EXPRESSION.findall(yaml.safe_dump(ACTION))
    assert {name for name in used if name.startswith("inputs.")} == {
        f"inputs.{name}" for name in ACTION["inputs"]
    }


def test_no_input_is_pasted_into_a_script() -> None:
    assert not [name for name, step in STEPS.items() if EXPRESSION.search(step.get("run", ""))]


def test_true_guidance_is_clean(other: Path, scaffold: Path) -> None:
    ran = check(other, scaffold)
    assert (ran.status, ran.outputs) == (0, {"verdict": "clean"}), ran.text
    assert "1 true, 0 false" in ran.summary


def test_a_finding_is_an_annotation_and_fails(other: Path, scaffold: Path) -> None:
    say(other, "Read `docs/greetings.md`.\n")
    ran = check(other, scaffold, sarif="found.sarif")
    assert (ran.status, ran.outputs) == (1, {"verdict": "findings"}), ran.text
    assert "::error file=.agents/skills/greet/SKILL.md,line=8," in ran.text
    assert "docs/greetings.md" in ran.summary
    (run,) = json.loads((other / "found.sarif").read_text(encoding="utf-8"))["runs"]
    assert len(run["results"]) == 1


def test_options_and_paths_are_words_and_not_commands(other: Path, scaffold: Path) -> None:
    say(other, "Read `docs/greetings.md`.\n")
    ran = check(other, scaffold, options="--ignore=path-missing\n", paths=".agents/skills\n")
    assert (ran.status, ran.outputs) == (0, {"verdict": "clean"}), ran.text
    ran = check(other, scaffold, paths="$(touch ran); a b")
    assert ran.status != 0
    assert "$(touch ran); a b" in ran.text
    assert not (other / "ran").exists()


def test_another_folder_can_be_checked(other: Path, scaffold: Path, tmp_path: Path) -> None:
    say(other, "Read `docs/greetings.md`.\n")
    ran = check(tmp_path, scaffold, working_directory=other.name)
    assert ran.outputs == {"verdict": "findings"}, ran.text


def test_with_sync_a_copy_that_is_behind_fails(other: Path, scaffold: Path) -> None:
    assert check(other, scaffold).status == 0
    ran = check(other, scaffold, sync="true")
    assert (ran.status, ran.outputs) == (1, {"verdict": "clean"}), ran.text
    assert ".claude/skills/greet/SKILL.md" in ran.text


@pytest.mark.network
def test_it_installs_the_tool(other: Path) -> None:
    known = {"steps.python.outputs.python-path": sys.executable, "github.action_path": str(ROOT)}
    ran = run_step("install", other, known)
    assert ran.status == 0, ran.text
    assert check(other, Path(ran.outputs["scaffold"])).outputs == {"verdict": "clean"}
