from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from scaffold.errors import ConflictError, RequestError
from scaffold.skills.pack.new import new_skill, skill_name
from scaffold.skills.pack.sync import sync_skills


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("add-metric", "add-metric"),
        ("Add metric", "add-metric"),
        ("addMetric", "add-metric"),
        ("add__metric_2", "add-metric-2"),
        ("-add-", "add"),
    ],
)
def test_any_spelling_of_a_name_will_do(typed: str, name: str) -> None:
    assert skill_name(typed) == name


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("", "name_empty"),
        ("--", "name_empty"),
        ("../x", "name_characters"),
        ("añadir", "name_characters"),
        ("a" * 65, "name_length"),
    ],
)
def test_what_is_no_name_is_refused(typed: str, code: str) -> None:
    with pytest.raises(RequestError) as caught:
        skill_name(typed)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "description", [None, "Adds: a #1 'thing'. Use when \"it\" is missing.", "yes", "- x"]
)
def test_a_skill_is_started_with_every_section(tmp_path: Path, description: str | None) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "inner").mkdir()
    report = new_skill(tmp_path / "inner", "Add metric", description, dry_run=False)
    assert [each.path for each in report.changes] == [".agents/skills/add-metric/SKILL.md"]
    text = (tmp_path / ".agents/skills/add-metric/SKILL.md").read_text()
    _, head, body = text.split("---\n", 2)
    fields = yaml.safe_load(head)
    assert fields["name"] == "add-metric"
    assert fields["description"] == (description or fields["description"])
    assert body.startswith("\n# Add metric\n")
    assert body.count("\n## ") == 8
    rows = text.splitlines()
    assert all(rows[step.line - 1] for step in report.next), "each step names a line with text"
    sync_skills(tmp_path, check=False)
    assert sync_skills(tmp_path, check=True).ok


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    report = new_skill(tmp_path, "add-metric", None, dry_run=True)
    assert "+# Add metric" in report.to_text()
    assert list(tmp_path.iterdir()) == []


def test_a_skill_that_is_there_stays(tmp_path: Path) -> None:
    new_skill(tmp_path, "add-metric", None, dry_run=False)
    with pytest.raises(ConflictError, match="is there already"):
        new_skill(tmp_path, "add_metric", None, dry_run=False)


@pytest.mark.parametrize("description", ["", "x" * 201])
def test_a_description_that_clients_would_cut_is_refused(tmp_path: Path, description: str) -> None:
    with pytest.raises(RequestError, match="1 to 200 characters") as caught:
        new_skill(tmp_path, "add-metric", description, dry_run=False)
    assert caught.value.code == "answer_invalid"
