"""Do the commands of this repository hold together: Makefile, `.ci/run`, hooks and workflow?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))


def make(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *argv], cwd=ROOT, capture_output=True, text=True, check=False)


def test_make_alone_lists_every_target_with_its_purpose():
    listed = re.findall(r"^  make ([a-z-]+) +\S", make().stdout, flags=re.MULTILINE)
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert phony
    assert set(listed) == set(phony[1].split()) == TARGETS


def test_an_unfit_python_is_refused_before_anything_is_made(tmp_path: Path):
    result = make("venv", f"VENV={tmp_path}/env", "PYTHON=false")
    assert result.returncode == 2
    assert "Python 3.11 or newer is needed" in result.stderr
    assert not (tmp_path / "env").exists()


def test_a_python_that_makes_no_environments_is_refused_with_the_remedy(tmp_path: Path):
    python = tmp_path / "python"
    # Answers like a Debian python3 without python3-venv: new enough, and without ensurepip.
    python.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n')
    python.chmod(0o755)
    result = make("venv", f"VENV={tmp_path}/env", f"PYTHON={python}")
    assert result.returncode == 2
    assert "apt-get install python3-venv" in result.stderr


def run_ci(checkout: Path, **variables: str) -> str:
    """Runs a copy of `.ci/run` with a `make` that says how it was called."""
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci" / "run")
    commands = checkout / "commands"
    commands.mkdir()
    stand_in = commands / "make"
    stand_in.write_text('#!/bin/sh\necho "$PWD|$*|${AREAL_GSM8K_DIR:-}"\n')
    stand_in.chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if name != "AREAL_GSM8K_DIR"}
    environment = clean | {"PATH": f"{commands}:{clean['PATH']}"} | variables
    result = subprocess.run(
        [str(checkout / ".ci" / "run")],
        cwd=checkout.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


def test_ci_runs_the_tests_at_the_root(tmp_path: Path):
    checkout = tmp_path / "checkout"
    assert run_ci(checkout).splitlines() == [f"{checkout}|test|", f"{checkout}|test-heavy|"]


def test_ci_finds_real_data_beside_the_checkout(tmp_path: Path):
    data = tmp_path / "shared" / "data" / "gsm8k"
    data.mkdir(parents=True)
    assert run_ci(tmp_path / "checkout").endswith(f"|{data}")


def test_ci_keeps_the_place_that_is_already_set(tmp_path: Path):
    (tmp_path / "shared" / "data" / "gsm8k").mkdir(parents=True)
    assert run_ci(tmp_path / "checkout", AREAL_GSM8K_DIR="mine").endswith("|mine")


def test_the_workflow_calls_the_same_commands_as_people():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    steps = [
        step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step
    ]
    assert ".ci/run" in steps
    for command in set(steps) - {".ci/run"}:
        words = command.split()
        assert words[0] == "make"
        assert words[1] in TARGETS


def test_the_toolkit_is_tested_on_every_system_and_python_that_it_names():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    matrix = workflow["jobs"]["toolkit"]["strategy"]["matrix"]
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert matrix["python"] == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)


@pytest.mark.parametrize("stage", ["pre-commit", "pre-push"])
def test_the_hooks_run_what_make_lint_runs(stage: str):
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    lint = MAKEFILE.split("\nlint:")[1].split("\n\n")[0]
    for hook in hooks["repos"][0]["hooks"]:
        if stage in hook.get("stages", ["pre-commit"]):
            tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
            assert f"$(BIN)/{tool}" in lint
