from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.files import list_files
from scaffold.skills.pack.list import cost_of, list_skills, tokens
from scaffold.skills.pack.sources import read_pack


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in (("add-a", "x" * 100), ("add-b", "y" * 2000)):
        place = tmp_path / ".agents/skills" / name / "SKILL.md"
        place.parent.mkdir(parents=True)
        place.write_text(f"---\nname: {name}\ndescription: {text}\n---\n{'z' * 400}")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("添加", 2), ("naïve", 2)]
)
def test_tokens_are_estimated(text: str, count: int) -> None:
    assert tokens(text) == count


def test_each_client_pays_for_what_it_shows(root: Path) -> None:
    short, long = read_pack(list_files(root)).skills
    assert cost_of(short, "claude") == (28, 100)
    assert cost_of(long, "claude").listing == 384, "cut after 1,536 characters"
    assert cost_of(short, "codex").listing > cost_of(short, "claude").listing, "and its path"
    assert cost_of(short, "codex").body > 100, "it reads the front matter, too"
    assert cost_of(short, "opencode").listing > cost_of(short, "codex").listing
    assert cost_of(short, "opencode").body == 100


def test_the_list_names_every_skill_with_its_costs(root: Path) -> None:
    report = list_skills(root)
    rows = report.to_text().splitlines()
    assert rows[1].split()[:6] == ["add-a", "100", "characters", "28", "/", "100"]
    assert rows[3].split()[:5] == ["all", "2", "412", "of", "2000"]
    first = report.to_json()["skills"][0]
    assert first["description_characters"] == 100
    assert first["tokens"]["claude"] == {"listing": 28, "body": 100}
    assert "estimated" in rows[-1]


def test_a_bad_skill_is_told_beside_the_others(root: Path) -> None:
    (root / ".agents/skills/add-a/SKILL.md").write_text("no front matter")
    (root / ".agents/skills/add-c").mkdir()
    (root / ".agents/skills/add-c/SKILL.md").write_bytes(b"\xff\xfe")
    (root / ".agents/skills/add-d").symlink_to("/")
    report = list_skills(root)
    assert [each["name"] for each in report.to_json()["skills"]] == ["add-b"]
    assert not report.ok
    assert report.error is not None
    assert "add-a/SKILL.md has no front matter" in report.error.message
    assert "add-c/SKILL.md is not UTF-8" in report.error.message
    assert "add-d leads out of the repository" in report.error.message
    assert "add-b" in report.to_text()
