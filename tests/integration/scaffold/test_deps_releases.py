"""`scaffold deps audit` on real pairs of releases, from the package index.

`broken.py` of each pair marks its lines with the verdict they deserve, as the migration guides have
it; `same.py` uses what did not change, and is run with both releases where that needs no torch.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scaffold.cli.main import main

FIXTURES = Path(__file__).parents[2] / "fixtures" / "deps"
PAIRS = {
    "click": ("7.1.2", "8.1.8"),
    "pydantic": ("1.10.22", "2.11.7"),
    "transformers": ("4.57.6", "5.0.0"),
}
TRAINING = {"no_cuda", "overwrite_output_dir", "half_precision_backend", "jit_mode_eval"}
LEAST_UNCHANGED = 40
NEWER = ("model_dump", "model_validate", "model_rebuild", "model_construct", "model_json_schema")

pytestmark = pytest.mark.network
every_pair = pytest.mark.parametrize("package", PAIRS)


@pytest.fixture(scope="module")
def audits() -> dict[str, dict[str, Any]]:
    """Keeps one audit for each pair."""
    return {}


def audit(audits: dict[str, dict[str, Any]], package: str) -> dict[str, Any]:
    """Returns what the audit of a pair tells; it ends in 1, since things break."""
    if package not in audits:
        argv = ["deps", "audit", package, *PAIRS[package], "--json"]
        done = CliRunner().invoke(main, [*argv, "--target", str(FIXTURES / package)])
        assert done.exit_code == 1, done.stdout + done.stderr
        audits[package] = json.loads(done.stdout)["deps"]
    return audits[package]


@every_pair
def test_the_known_breaking_changes_are_found(audits: dict[str, Any], package: str) -> None:
    rows = (FIXTURES / package / "broken.py").read_text("utf-8").splitlines()
    marks = {
        number: found[1]
        for number, row in enumerate(rows, 1)
        if (found := re.search(r"  # ([a-z-]+)$", row))
    }
    found: dict[int, set[str]] = {}
    for row in audit(audits, package)["findings"]:
        if row["file"] == "broken.py":
            found.setdefault(row["line"], set()).add(row["verdict"])
    missed = {line: mark for line, mark in marks.items() if mark not in found.get(line, set())}
    assert len(marks) > 9
    assert missed == {}


@every_pair
def test_nothing_that_did_not_change_is_said_to_break(audits: dict[str, Any], package: str) -> None:
    found = audit(audits, package)["findings"]
    assert [row for row in found if row["file"] == "same.py" and row["level"] == "breaks"] == []
    argv = ["deps", "catalog", package, "--target", str(FIXTURES / package), "--json"]
    uses = json.loads(CliRunner().invoke(main, argv).stdout)["deps"]["uses"]
    told = {(row["line"], row["name"]) for row in found if row["file"] == "same.py"}
    same = {(row["line"], row["name"]) for row in uses if row["file"] == "same.py"} - told
    assert len(same) >= LEAST_UNCHANGED


def test_arguments_for_training_that_are_gone(audits: dict[str, Any]) -> None:
    found = audit(audits, "transformers")["findings"]
    why = {row["why"].rpartition(" ")[2].strip("'") for row in found if "Training" in row["name"]}
    assert why >= TRAINING
    trainer = next(row for row in found if row["verdict"] == "parameter-renamed")
    assert trainer["likely"] == "processing_class"


def test_the_names_to_take_instead(audits: dict[str, Any]) -> None:
    found = audit(audits, "pydantic")["findings"]
    likely = {row["likely"] for row in found if row["level"] == "deprecated"}
    assert likely >= {*NEWER, "pydantic.TypeAdapter.validate_python", "field_validator"}
    config = {row["likely"] for row in found if row["verdict"] == "override-gone"}
    assert config >= {"from_attributes", "str_strip_whitespace", "json_schema_extra"}


@pytest.mark.parametrize("package", ["click", "pydantic"])
@pytest.mark.parametrize("which", [0, 1])
def test_what_did_not_change_runs_with_both(package: str, which: int, tmp_path: Path) -> None:
    asked = f"{package}=={PAIRS[package][which]}"
    install = ["-m", "pip", "install", "-q", "--target", str(tmp_path), asked]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-S", "-P", str(FIXTURES / package / "same.py")],
        env={"PYTHONPATH": str(tmp_path), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


UV_PROJECT = """[project]
name = "mine"
version = "1"
requires-python = ">=3.11"
dependencies = ["click==7.1.2", "flask>=1.0,<3"]
[dependency-groups]
pin = ["flask==1.1.4"]
[tool.uv]
package = false
"""


def test_a_project_of_uv_is_resolved_by_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools, project = tmp_path / "tools", tmp_path / "project"
    install = ["-m", "pip", "install", "-q", "--target", str(tools), "uv"]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    monkeypatch.setenv("PATH", str(tools / "bin"), prepend=":")
    project.mkdir()
    (project / "pyproject.toml").write_text(UV_PROJECT)
    argv = ["deps", "plan", "click==8.1.8", "--target", str(project), "--json"]
    report = json.loads(CliRunner().invoke(main, argv).stdout)
    assert [row["resolver"] for row in report["deps"]["resolved"]] == ["uv"]
    assert "flask==1.1.4" in " ".join(report["deps"]["resolved"][0]["said"])
    again = CliRunner().invoke(main, [*argv[:3], "flask==2.3.3", *argv[3:]])
    assert again.exit_code == 0, again.output
    assert [each.name for each in project.iterdir()] == ["pyproject.toml"]
