from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.skills.claude import for_claude
from scaffold.skills.sync import find_skills, sync_skills
from scaffold.spec import ScaffoldError, TargetError

SKILL = b"""---
name: add-thing
description: Adds a thing.
metadata:
  author: us
  claude-argument-hint: "NAME"
  claude-model: opus
---

# Body
--- not front matter
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    skill = tmp_path / ".agents" / "skills" / "add-thing"
    (skill / "references").mkdir(parents=True)
    (skill / "SKILL.md").write_bytes(SKILL)
    (skill / "references" / "more.md").write_bytes(b"more\r\n")
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_the_body_stays_and_claude_gets_its_keys() -> None:
    head, body = SKILL.split(b"---\n\n", 1)
    expected = head + b'argument-hint: "NAME"\nmodel: opus\n---\n\n' + body
    assert for_claude(SKILL, "x") == expected


@pytest.mark.parametrize(
    "data",
    [
        b"---\nname: x\n---\nbody\n",
        b"---\r\nname: x\r\nmetadata:\r\n  author: y\r\n---\r\nbody\r\n",
        b"---\nname: x\nmetadata:\n  author: y\nlicense: claude-none\n---\n",
        b"---\nname: x\n---",
    ],
)
def test_without_such_keys_nothing_changes(data: bytes) -> None:
    assert for_claude(data, "x") == data


@pytest.mark.parametrize("data", [b"", b"# Body\n", b"---\nname: x\n", b"text\n---\n---\n"])
def test_a_skill_without_front_matter_is_refused(data: bytes) -> None:
    with pytest.raises(ScaffoldError, match="where has no front matter") as caught:
        for_claude(data, "where")
    assert caught.value.code == "skill_invalid"


def test_sync_writes_once_and_check_agrees(repository: Path) -> None:
    assert not sync_skills(repository, check=True).ok
    assert not (repository / ".claude").exists()
    written = sync_skills(repository, check=False)
    assert [change.path for change in written.changes] == [
        ".claude/skills/add-thing/SKILL.md",
        ".claude/skills/add-thing/references/more.md",
    ]
    more = repository / ".claude" / "skills" / "add-thing" / "references" / "more.md"
    assert more.read_bytes() == b"more\r\n"
    assert sync_skills(repository, check=False).changes == ()
    assert sync_skills(repository, check=True).ok


def test_dry_run_writes_nothing(repository: Path) -> None:
    report = sync_skills(repository, check=False, dry_run=True)
    assert "+argument-hint" in report.to_text()
    assert not (repository / ".claude").exists()


def test_check_names_what_is_behind_and_the_command_that_repairs(repository: Path) -> None:
    sync_skills(repository, check=False)
    rendered = repository / ".claude" / "skills" / "add-thing"
    (rendered / "SKILL.md").write_bytes(b"edited\n")
    (rendered / "stray.md").write_bytes(b"")
    report = sync_skills(repository, check=True)
    assert not report.ok
    assert report.to_text() == (
        "behind     .claude/skills/add-thing/SKILL.md\nrepair     scaffold skills sync\n"
    )
    assert report.check == (("scaffold", "skills", "sync"),)
    assert report.warnings == (
        ".claude/skills/add-thing/stray.md has no source in .agents/skills; delete it",
    )


def test_skills_are_found_upwards_and_not_beyond_the_git_root(repository: Path) -> None:
    inner = repository / "a" / "b"
    inner.mkdir(parents=True)
    assert find_skills(inner) == repository
    (inner / ".git").mkdir()
    with pytest.raises(TargetError, match=r"no \.agents/skills"):
        find_skills(inner)
