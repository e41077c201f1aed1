"""Every template on every target: it renders, lints, imports, passes its own test and verify."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaffold.templating.manifests import load_kind, load_style, style_names
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import read_units
from scaffold.units.project import new_project
from scaffold.units.remove import remove_unit
from scaffold.units.status import show_status
from tests.integration.scaffold.test_every_choice import choices

ROOT = Path(__file__).parents[3]
LAYOUTS = ROOT / "tests" / "fixtures" / "layouts"
KINDS = ("dataset", "reward", "workflow")
TARGETS = ("project", "repository", "today", "older")

ABSENT = {"older": {"math"}}
"""Styles that need what the package of a target does not have: MathVerifyWorker came later."""

ASKED = {
    "dataset": "takes_processor=lambda dataset_config: False",
    "reward": "REWARDS={}",
    "workflow": "WORKFLOWS={}",
}
"""What our trainers import from registries of ours, which the ones of a checkout replace."""

Case = tuple[str, str, dict[str, Any]]


def make(target: str, folder: Path) -> Path:
    """Makes a target whose code can be imported and run."""
    if target == "project":
        new_project(load_kind("project"), "my_rl", [], {"areal_source": ""}, Options(folder))
        return folder / "my_rl"
    root = folder / target
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "areal", root / "areal", ignore=ignored)
    if target == "repository":
        shutil.copy(ROOT / "pyproject.toml", root)
    else:
        # Ours stay, which code of ours imports; no kind here is a model.
        models = shutil.ignore_patterns("archon")
        shutil.copytree(LAYOUTS / target, root, dirs_exist_ok=True, ignore=models)
        for registry, names in ASKED.items():
            # An assignment would make the registry look like one of ours.
            with (root / "areal" / registry / "__init__.py").open("a") as file:
                file.write(f"\nglobals().update({names})\n")
    if target == "older":  # it imports its workflows eagerly
        (root / "areal" / "workflow" / "vision_rlvr.py").unlink()
    return root


# In every run the golden trees have all styles in a project, and test_layouts.py has checkouts.
pytestmark = pytest.mark.slow


@pytest.fixture(params=TARGETS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Makes each target in turn."""
    return make(request.param, tmp_path)


def every_style() -> Iterator[Case]:
    for kind in KINDS:
        for style in style_names(kind):
            yield kind, style, {}


def every_choice() -> Iterator[Case]:
    for kind, style, _ in every_style():
        for answers in choices(kind, style):
            yield kind, style, answers


def add_all(root: Path, cases: Iterator[Case]) -> list[str]:
    """Adds units one after the other, without a commit, and returns their ids."""
    options = Options(root, with_format=False)
    ids: list[str] = []
    fitting = (case for case in cases if case[1] not in ABSENT.get(root.name, ()))
    for number, (kind, style, answers) in enumerate(fitting):
        # No name is part of another: older registries look for names inside of paths.
        name = f"made_{number:03}_{style.replace('-', '_')}"
        report = add_unit(load_kind(kind), name, (style,), answers, options)
        # What is written for another framework is found by its dotted path.
        is_ours = not load_style(kind, style).framework
        assert bool(report.registered) == is_ours, report.warnings
        ids.append(f"{kind}/{name}")
    assert len(ids) > 3
    return ids


def check_lint(root: Path, ids: list[str]) -> list[str]:
    """Runs the linter on all that was made, and returns the tests."""
    units = [unit for unit in read_units(root) if unit.id in ids]
    files = [file for unit in units for file in unit.files]
    paths = [file.path for file in files if file.path.endswith(".py")]
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["lint"]
    common = ["-q", "--isolated", "--no-cache", "--line-length=100", "--target-version=py311"]
    lint = [f"--select={','.join(rules['select'])}", f"--ignore={','.join(rules['ignore'])}"]
    for argv in (["check", *common, *lint], ["format", "--check", *common]):
        command = [sys.executable, "-m", "ruff", *argv, *paths]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return [file.path for file in files if file.role == "test"]


def run_tests(root: Path, tests: list[str]) -> None:
    """Runs all tests in one process: the imports cost more than they do."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, "--import-mode=importlib", "-W", "error", *tests],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def check_and_take_back(root: Path, ids: list[str], before: dict[str, bytes]) -> None:
    states = {row["id"]: row["states"] for row in show_status(Options(root)).extra["units"]}
    assert {unit: states[unit] for unit in ids} == {unit: ["untouched"] for unit in ids}
    for unit in ids:
        remove_unit(unit, (), Options(root))
    assert files(root) == before


def files(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file())
    skipped = {"__pycache__", "state", ".pytest_cache"}
    return {str(p): p.read_bytes() for p in paths if not skipped & set(p.relative_to(root).parts)}


def test_every_style(root: Path) -> None:
    before = files(root)
    ids = add_all(root, every_style())
    run_tests(root, check_lint(root, ids))
    check_and_take_back(root, ids, before)


@pytest.mark.timeout(1800)
def test_every_choice(root: Path) -> None:
    before = files(root)
    ids = add_all(root, every_choice())
    run_tests(root, check_lint(root, ids))
    check_and_take_back(root, ids, before)


@pytest.mark.timeout(1800)
def test_every_style_verifies(root: Path, scaffold: Callable[..., Any]) -> None:
    ids = add_all(root, every_style())
    argv = ["--json", "--allow-stub", "--python", sys.executable]
    done = scaffold(root, "verify", *ids, *argv)
    wrong = [unit for unit in done.report["units"] if unit["verdict"] != "ok"]
    assert wrong == []
    assert [unit["id"] for unit in done.report["units"]] == ids
