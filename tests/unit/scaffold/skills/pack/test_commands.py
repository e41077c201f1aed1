"""The commands as they are typed: what they print, and how they end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from scaffold.cli.main import main
from tests.reports import REPORTS


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[Any, dict[str, Any]]:
    """Returns the exit status and the JSON report of a command."""
    with pytest.raises(SystemExit) as caught:
        main([*argv, "--json"])
    report = json.loads(capsys.readouterr().out)
    REPORTS.validate(report)
    return caught.value.code, report


def test_a_skill_is_started_listed_and_rendered(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Adds a metric. Use when a number is to be logged."
    status, report = run(capsys, "skills", "new", "add-metric", "--description", text)
    assert (status, report["check"][1]) == (0, ["scaffold", "skills", "sync"])
    status, report = run(capsys, "skills", "list")
    assert [row["name"] for row in report["skills"]] == ["add-metric"]
    assert report["skills"][0]["description"] == text
    status, report = run(capsys, "skills", "sync", "--check")
    assert (status, report["ok"]) == (1, False)
    status, report = run(capsys, "skills", "sync")
    assert (status, len(report["changes"])) == (0, 2)
    assert run(capsys, "skills", "sync", "--check")[0] == 0


def test_an_edit_ends_with_one_until_it_is_named(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "skills", "new", "add-metric")
    run(capsys, "skills", "sync")
    rendered = repository / ".claude/skills/add-metric/SKILL.md"
    rendered.write_text("mine\n")
    status, report = run(capsys, "skills", "sync")
    assert (status, report["error"]["code"]) == (1, "output_edited")
    assert report["edited"] == [".claude/skills/add-metric/SKILL.md"]
    monkeypatch.chdir(repository / ".claude")
    status, report = run(capsys, "skills", "sync", "--overwrite", "skills/add-metric")
    assert (status, report["edited"]) == (0, [])
    assert rendered.read_text() != "mine\n"


@pytest.mark.parametrize("name", ["sync", "list"])
def test_without_skills_the_way_to_some_is_named(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report = run(capsys, "skills", name)
    assert (status, report["error"]["code"]) == (1, "target_missing")
    assert "skills new" in report["error"]["hint"]


def test_a_wrong_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "skills", "new", "a/b")[0] == 2
    assert run(capsys, "skills", "sync", "--overwrite", "/")[0] in (1, 2)


def test_a_target_that_is_no_folder_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    status, report = run(capsys, "skills", "list", "--target", "nowhere")
    assert (status, report["error"]["code"]) == (1, "target_missing")


def test_a_folder_that_is_gone_is_no_fault(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = repository / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    status, report = run(capsys, "skills", "list")
    os.chdir(repository)
    assert (status, report["error"]["code"]) == (1, "target_missing")
