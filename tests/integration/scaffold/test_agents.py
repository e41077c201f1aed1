"""Agents on repositories that cannot serve their model to them: what was not run is said."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Lays the registries of an AReaL checkout over a copy of the package without its proxy."""
    shutil.copytree(
        ROOT / "areal", tmp_path / "areal", ignore=shutil.ignore_patterns("__pycache__", "openai")
    )
    layout = ROOT / "tests" / "fixtures" / "layouts" / "today"
    shutil.copytree(layout, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.heavy
def test_an_agent_passes_its_test_and_its_episodes_are_not_run(
    scaffold: Callable[..., Any], checkout: Path
) -> None:
    added = scaffold(checkout, "add-workflow", "adder", "--style=agent", "--feedback=No.")
    assert added.status == 0, added.text
    done = scaffold(checkout, "verify", "adder", "--json", "--python", sys.executable)
    assert (done.status, done.report["verdict"]) == (1, "unproven"), done.text
    (unit,) = done.report["units"]
    levels = {level["level"]: level for level in unit["levels"]}
    statuses = {name: level["status"] for name, level in levels.items()}
    assert statuses == {"static": "passed", "tests": "passed", "episodes": "skipped"}
    assert "areal.experimental.openai.AgentProxy" in levels["episodes"]["reason"]
