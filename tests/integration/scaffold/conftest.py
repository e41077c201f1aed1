"""Targets made by the real commands, and the real verify."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from scaffold.cli.main import main
from tests.reports import REPORTS

ROOT = Path(__file__).parents[3]


class Outcome(NamedTuple):
    """Is how a command ended: its exit status, and what it printed."""

    status: int
    report: dict[str, Any]
    text: str


def run_scaffold(folder: Path, *argv: str) -> Outcome:
    """Run a command in a folder; a JSON report has to fit the schema.

    It runs in this process, as a process of its own spends most of its time on imports;
    `test_scaffold_process` and what looks at signals and streams starts the real one.
    """
    with contextlib.chdir(folder):
        done = CliRunner().invoke(main, argv, prog_name="scaffold")
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    report = json.loads(done.stdout) if "--json" in argv else {}
    if report:
        REPORTS.validate(report)
    return Outcome(done.exit_code, report, done.stdout + done.stderr)


@pytest.fixture(scope="module", autouse=True)
def bare_pytest() -> Iterator[None]:
    """Keep plugins out of the pytest that `verify` starts: their imports take longer than it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        patch.setenv("PYTEST_PLUGINS", "pytest_timeout")  # of which this repository has settings
        yield


@pytest.fixture(scope="session")
def scaffold() -> Callable[..., Outcome]:
    """Gives `run_scaffold` to tests."""
    return run_scaffold


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a project of one's own."""
    folder = tmp_path_factory.mktemp("work")
    assert run_scaffold(folder, "new", "my_rl").status == 0
    return folder / "my_rl"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies the training package and the settings of this repository."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "areal", folder / "areal", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder
