from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scaffold.skills.pack import refresh as outputs
from scaffold.skills.pack.sync import sync_skills

PLACE = ".agents/skills/add-thing/SKILL.md"
HEAD = "---\nname: add-thing\ndescription: Adds a thing.\n---\n\n# Title\n\n"


def write(root: Path, *blocks: str, run: str = "") -> Path:
    (root / ".git").mkdir(exist_ok=True)
    skill = root / PLACE
    skill.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"<!-- scaffold:begin {each} -->\n<!-- scaffold:end -->\n" for each in blocks)
    skill.write_text(HEAD + text)
    (root / "data").mkdir(exist_ok=True)
    (root / "data" / "a.txt").write_text("a\n")
    if run:
        (root / "pyproject.toml").write_text(f"[tool.scaffold.skills]\nrun = ['{run}']\n")
    return skill


def test_static_blocks_are_renewed_in_the_source_and_in_what_is_rendered(tmp_path: Path) -> None:
    skill = write(tmp_path, "tree data")
    checked = sync_skills(tmp_path, check=True)
    assert f"behind     {PLACE}\n" in checked.to_text()
    report = sync_skills(tmp_path, check=False)
    assert report.changes[0][:2] == (PLACE, "edited")
    assert "data/\n    a.txt" in skill.read_text()
    assert (tmp_path / ".claude/skills/add-thing/SKILL.md").read_text() == skill.read_text()
    assert sync_skills(tmp_path, check=True).ok
    (tmp_path / "data" / "b.txt").write_text("")
    assert not sync_skills(tmp_path, check=True).ok


def test_a_block_of_a_reference_and_of_a_subagent_is_renewed_too(tmp_path: Path) -> None:
    write(tmp_path)
    block = "<!-- scaffold:begin tree data -->\n<!-- scaffold:end -->\n"
    reference = tmp_path / ".agents/skills/add-thing/references/more.md"
    reference.parent.mkdir()
    reference.write_text(block)
    agent = tmp_path / ".agents/agents/judge.md"
    agent.parent.mkdir()
    agent.write_text(f"---\nname: judge\ndescription: Judges.\n---\n\n{block}")
    sync_skills(tmp_path, check=False)
    for path in (reference, tmp_path / ".claude/skills/add-thing/references/more.md", agent):
        assert "a.txt" in path.read_text()
    assert "a.txt" in (tmp_path / ".codex/agents/judge.toml").read_text()


def test_a_block_of_a_linked_skill_is_renewed_where_it_stands(tmp_path: Path) -> None:
    skill = write(tmp_path, "tree data")
    (tmp_path / "skills").mkdir()
    skill.parent.rename(tmp_path / "skills" / "add-thing")
    (tmp_path / ".agents/skills/add-thing").symlink_to("../../skills/add-thing")
    sync_skills(tmp_path, check=False)
    assert "a.txt" in (tmp_path / "skills/add-thing/SKILL.md").read_text()
    assert (tmp_path / ".agents/skills/add-thing").is_symlink()
    assert sync_skills(tmp_path, check=True).ok


def test_a_wrong_block_is_told_and_the_rest_is_done(tmp_path: Path) -> None:
    skill = write(tmp_path, "tree nowhere", "tree data")
    report = sync_skills(tmp_path, check=False)
    assert not report.ok
    assert report.error is not None
    assert report.error.code == "block_invalid"
    assert report.error.message == f"{PLACE}:8: no file of nowhere is meant"
    assert "a.txt" in skill.read_text()
    assert f"wrong      {PLACE}:8: no file" in sync_skills(tmp_path, check=True).to_text()


OUTPUT = 'output "cat data/a.txt" inputs=data'


def test_an_output_is_run_where_that_is_allowed_and_stale_again_later(tmp_path: Path) -> None:
    skill = write(tmp_path, OUTPUT, run="cat")
    assert sync_skills(tmp_path, check=False).ok
    assert "```console\n$ cat data/a.txt\na\n```" in skill.read_text()
    assert " hash=" in skill.read_text()
    assert sync_skills(tmp_path, check=True).ok
    (tmp_path / "data" / "a.txt").write_text("b\n")
    checked = sync_skills(tmp_path, check=True)
    assert f"stale      {PLACE}:8\n" in checked.to_text()
    dry = sync_skills(tmp_path, check=False, dry_run=True)
    assert dry.changes == ()
    assert dry.warnings == (f"{PLACE}:8: its output is stale; `scaffold skills sync` updates it",)
    sync_skills(tmp_path, check=False)
    assert "\nb\n```" in skill.read_text()


def test_check_and_dry_run_execute_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "data" / "made"
    write(tmp_path, f'output "touch {made}" inputs=data/a.txt', run="touch")
    sync_skills(tmp_path, check=True)
    sync_skills(tmp_path, check=False, dry_run=True)
    assert not made.exists()
    sync_skills(tmp_path, check=False)
    assert made.exists()


def test_nothing_is_run_that_is_not_allowed(tmp_path: Path) -> None:
    made = tmp_path / "data" / "made"
    write(tmp_path, f'output "touch {made}" inputs=data/a.txt', run="cat")
    report = sync_skills(tmp_path, check=False)
    assert report.error is not None
    assert report.error.code == "command_refused"
    assert 'run = ["touch"]' in report.error.hint
    assert not made.exists()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("cat data/none", "ended with 1: cat: data/none: No such file"),
        ("no-such-program-here", "cannot be run: No such file"),
        (f"{sys.executable} -c 'print(chr(120) * 30000)'", "printed 30000 characters"),
    ],
)
def test_a_command_that_fails_is_told(tmp_path: Path, command: str, why: str) -> None:
    write(tmp_path, f'output "{command}" inputs=data', run=command.split()[0])
    report = sync_skills(tmp_path, check=False)
    assert report.error is not None
    assert report.error.code == "block_invalid"
    assert why in report.error.message


def test_a_command_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "TIMEOUT_S", 0.2)
    write(tmp_path, 'output "sleep 60" inputs=data', run="sleep")
    report = sync_skills(tmp_path, check=False)
    assert report.error is not None
    assert "did not end within" in report.error.message


def test_a_status_that_is_promised_is_no_failure(tmp_path: Path) -> None:
    skill = write(tmp_path, 'output "grep -c x data/a.txt" inputs=data status=1', run="grep")
    assert sync_skills(tmp_path, check=False).ok
    assert "data/a.txt\n0\n```" in skill.read_text()


def test_the_root_of_this_machine_is_not_stored(tmp_path: Path) -> None:
    skill = write(tmp_path, 'output "pwd -P" inputs=data', run="pwd")
    assert sync_skills(tmp_path, check=False).ok
    assert "$ pwd -P\n.\n```" in skill.read_text()


def test_our_own_command_is_this_one(tmp_path: Path) -> None:
    skill = write(tmp_path, 'output "scaffold --version" inputs=data', run="scaffold")
    assert sync_skills(tmp_path, check=False).ok
    assert "$ scaffold --version\nscaffold, version " in skill.read_text()
