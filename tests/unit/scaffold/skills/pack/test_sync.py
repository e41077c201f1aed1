from __future__ import annotations

import json
import os
import stat
import subprocess
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from scaffold.errors import ConflictError, RequestError, ScaffoldError, TargetError
from scaffold.skills.pack.plan import RECORD
from scaffold.skills.pack.sources import find_pack
from scaffold.skills.pack.sync import overwritten, sync_skills
from scaffold.transaction import disk
from tests.faulty_disk import NO_SPACE, Death, FaultyDisk, die

SKILL = """---
name: add-thing
description: Adds a thing.
metadata:
  author: us
  claude-argument-hint: "NAME"
---

# Body
"""
AGENT = """---
name: judge
description: 'Judges: a change.'
metadata:
  claude-tools: Read, Bash
  codex-model_reasoning_effort: high
  opencode-temperature: "1"
---

You judge. \"\"\"No\"\"\" \\mercy.
"""
RENDERED = ".claude/skills/add-thing/SKILL.md"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    skill = tmp_path / ".agents" / "skills" / "add-thing"
    (skill / "references").mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    (skill / "references" / "more.md").write_bytes(b"more\r\n")
    (tmp_path / ".git").mkdir()
    return tmp_path


def configure(repository: Path, text: str) -> None:
    (repository / "pyproject.toml").write_text(text)


def add_agent(repository: Path) -> None:
    (repository / ".agents" / "agents").mkdir()
    (repository / ".agents" / "agents" / "judge.md").write_text(AGENT)


def test_sync_writes_once_and_check_agrees(repository: Path) -> None:
    assert not sync_skills(repository, check=True).ok
    assert not (repository / ".claude").exists()
    written = sync_skills(repository, check=False)
    assert [change.path for change in written.changes] == [
        RENDERED,
        ".claude/skills/add-thing/references/more.md",
        RECORD,
    ]
    more = repository / ".claude" / "skills" / "add-thing" / "references" / "more.md"
    assert more.read_bytes() == b"more\r\n"
    assert sync_skills(repository, check=False).changes == ()
    checked = sync_skills(repository, check=True)
    assert checked.ok
    assert checked.to_text() == "2 rendered files are in sync with .agents\n"


def test_the_record_is_what_sha256sum_reads(repository: Path) -> None:
    (repository / ".agents/skills/add-thing/references/more.md").write_bytes(b"more\n")
    sync_skills(repository, check=False)
    done = subprocess.run(["sha256sum", "--check", "--strict", RECORD], cwd=repository)
    assert done.returncode == 0


def test_dry_run_writes_nothing(repository: Path) -> None:
    report = sync_skills(repository, check=False, dry_run=True)
    assert "+argument-hint" in report.to_text()
    assert not (repository / ".claude").exists()
    assert not (repository / ".scaffold").exists()


def test_check_names_what_is_behind_and_the_command_that_repairs(repository: Path) -> None:
    sync_skills(repository, check=False)
    (repository / ".agents/skills/add-thing/SKILL.md").write_text(SKILL + "More.\n")
    (repository / ".claude/skills/add-thing/stray.md").write_bytes(b"")
    report = sync_skills(repository, check=True)
    assert not report.ok
    assert report.to_text() == (
        f"behind     {RENDERED}\n"
        "behind     .scaffold/skills.sums\n"
        "stray      .claude/skills/add-thing/stray.md\n"
        "repair     scaffold skills sync\n"
    )
    assert report.check == (("scaffold", "skills", "sync"),)


def test_an_edit_is_reported_and_kept_until_it_is_named(repository: Path) -> None:
    sync_skills(repository, check=False)
    (repository / RENDERED).write_text("mine\n")
    (repository / ".agents/skills/add-thing/SKILL.md").write_text(SKILL + "More.\n")
    assert "edited     .claude/skills/add-thing/SKILL.md\n" in (
        sync_skills(repository, check=True).to_text()
    )
    report = sync_skills(repository, check=False)
    assert not report.ok
    assert report.error is not None
    assert report.error.code == "output_edited"
    assert f"--overwrite {RENDERED}" in report.error.hint
    assert (repository / RENDERED).read_text() == "mine\n"
    named = sync_skills(repository, check=False, overwrite=frozenset({".claude/skills"}))
    assert named.ok
    assert (repository / RENDERED).read_text().endswith("More.\n")
    assert sync_skills(repository, check=True).ok


def test_a_file_that_sync_never_wrote_is_a_persons(repository: Path) -> None:
    (repository / RENDERED).parent.mkdir(parents=True)
    (repository / RENDERED).write_text("by hand\n")
    assert not sync_skills(repository, check=False).ok
    assert (repository / RENDERED).read_text() == "by hand\n"
    more = repository / ".claude/skills/add-thing/references/more.md"
    assert more.exists(), "the rest is rendered all the same"


def test_other_line_ends_are_no_edit(repository: Path) -> None:
    sync_skills(repository, check=False)
    text = (repository / RENDERED).read_bytes().replace(b"\n", b"\r\n")
    (repository / RENDERED).write_bytes(text)
    assert sync_skills(repository, check=False).ok
    assert b"\r\n" not in (repository / RENDERED).read_bytes()


def test_what_lost_its_source_goes_unless_it_was_edited(repository: Path) -> None:
    add_agent(repository)
    sync_skills(repository, check=False)
    (repository / ".claude/agents/judge.md").write_text("mine\n")
    (repository / ".agents/agents/judge.md").unlink()
    report = sync_skills(repository, check=False)
    assert report.extra["edited"] == [".claude/agents/judge.md"]
    assert not (repository / ".codex").exists(), "its folder was empty, too"
    assert not (repository / ".opencode").exists()
    assert (repository / ".claude/agents/judge.md").read_text() == "mine\n"
    named = sync_skills(repository, check=False, overwrite=frozenset({".claude/agents/judge.md"}))
    assert named.ok
    assert not (repository / ".claude/agents").exists()
    assert sync_skills(repository, check=True).ok


def test_a_claude_skill_without_source_is_left_alone(repository: Path) -> None:
    own = repository / ".claude" / "skills" / "own" / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("own\n")
    assert sync_skills(repository, check=False).ok
    assert sync_skills(repository, check=True).ok
    assert own.read_text() == "own\n"


def test_what_git_ignores_is_no_stray_and_ignored_renderings_are_told_of(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    skill = tmp_path / ".agents/skills/add-thing/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL)
    (tmp_path / ".gitignore").write_text(".DS_Store\n")
    assert sync_skills(tmp_path, check=False).warnings == ()
    (tmp_path / ".claude/skills/add-thing/.DS_Store").write_text("")
    assert sync_skills(tmp_path, check=True).ok
    (tmp_path / ".gitignore").write_text(".claude/\n")
    assert sync_skills(tmp_path, check=True).warnings == ()
    (tmp_path / RENDERED).unlink()
    (warning,) = sync_skills(tmp_path, check=False).warnings
    assert warning.startswith(f"git ignores {RENDERED}: ")


def test_a_record_cannot_have_other_files_deleted(repository: Path) -> None:
    (repository / "keep.py").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    (repository / ".scaffold").mkdir()
    rows = [f"{empty}  keep.py\n", f"{empty}  .claude/../keep.py\n"]
    (repository / RECORD).write_text("".join(rows))
    sync_skills(repository, check=False)
    assert (repository / "keep.py").exists()


def test_a_conflict_in_the_record_settles_itself(repository: Path) -> None:
    sync_skills(repository, check=False)
    record = (repository / RECORD).read_text()
    other = record.replace(record[:64], "0" * 64)
    (repository / RECORD).write_text(f"<<<<<<< ours\n{other}=======\n{record}>>>>>>> theirs\n")
    (repository / ".agents/skills/add-thing/SKILL.md").write_text(SKILL + "More.\n")
    assert sync_skills(repository, check=False).ok
    assert "<" not in (repository / RECORD).read_text()
    assert sync_skills(repository, check=True).ok


def test_subagents_are_rendered_for_three_clients(repository: Path) -> None:
    add_agent(repository)
    sync_skills(repository, check=False)
    _, head, body = (repository / ".claude/agents/judge.md").read_text().split("---\n", 2)
    assert yaml.safe_load(head) == {
        "name": "judge",
        "description": "Judges: a change.",
        "tools": "Read, Bash",
    }
    assert body == '\nYou judge. """No""" \\mercy.\n'
    assert tomllib.loads((repository / ".codex/agents/judge.toml").read_text()) == {
        "name": "judge",
        "description": "Judges: a change.",
        "model_reasoning_effort": "high",
        "developer_instructions": 'You judge. """No""" \\mercy.\n',
    }
    _, head, body = (repository / ".opencode/agents/judge.md").read_text().split("---\n", 2)
    assert yaml.safe_load(head) == {
        "description": "Judges: a change.",
        "mode": "subagent",
        "temperature": 1,
    }


def test_only_the_clients_that_are_named_are_rendered_for(repository: Path) -> None:
    add_agent(repository)
    configure(repository, '[tool.scaffold.skills]\nclients = ["codex"]\n')
    sync_skills(repository, check=False)
    made = {path.name for path in repository.iterdir()}
    assert made == {".agents", ".codex", ".git", ".scaffold", "pyproject.toml"}
    configure(repository, '[tool.scaffold.skills]\nclients = ["claude"]\n')
    sync_skills(repository, check=False)
    assert not (repository / ".codex").exists()
    assert (repository / RENDERED).exists()


def test_an_unknown_client_is_refused(repository: Path) -> None:
    configure(repository, '[tool.scaffold.skills]\nclients = ["cloude"]\n')
    with pytest.raises(ScaffoldError, match="did you mean 'claude'") as caught:
        sync_skills(repository, check=True)
    assert caught.value.code == "client_unknown"


def test_commands_are_rendered_where_they_are_asked_for(repository: Path) -> None:
    configure(repository, "[tool.scaffold.skills]\ncommands = true\n")
    sync_skills(repository, check=False)
    text = (repository / ".opencode/commands/add-thing.md").read_text()
    assert yaml.safe_load(text.split("---\n")[1]) == {"description": "Adds a thing."}
    assert "`add-thing`" in text
    assert "$ARGUMENTS" in text


PLUGIN = """
[project]
name = "my-pack"
version = "1.2"
description = "Skills."
license = "MIT"
[tool.scaffold.skills.plugin]
author = "us"
marketplace = "shop"
[tool.scaffold.skills.opencode]
share = "disabled"
"""


def test_manifests_are_written_for_whoever_asks(repository: Path) -> None:
    report = sync_skills(repository, check=False)
    assert not (repository / "opencode.json").exists()
    assert not (repository / ".claude-plugin").exists()
    assert "plugin manifests" in report.found[0]
    assert "opencode.json" in report.found[0]
    configure(repository, PLUGIN)
    assert sync_skills(repository, check=False).found == ()
    loaded = {
        path: json.loads((repository / path).read_text())
        for path in (
            ".claude/.claude-plugin/plugin.json",
            ".claude-plugin/marketplace.json",
            ".claude/.codex-plugin/plugin.json",
            ".agents/plugins/marketplace.json",
            "opencode.json",
        )
    }
    head = {"name": "my-pack", "version": "1.2", "description": "Skills.", "license": "MIT"}
    head["author"] = {"name": "us"}
    assert loaded[".claude/.claude-plugin/plugin.json"] == head
    market = loaded[".claude-plugin/marketplace.json"]
    assert (market["name"], market["owner"]) == ("shop", {"name": "us"})
    assert market["plugins"][0]["source"] == "./.claude"
    assert loaded[".claude/.codex-plugin/plugin.json"].items() >= head.items()
    assert loaded[".agents/plugins/marketplace.json"]["plugins"][0]["source"]["path"] == "./.claude"
    assert loaded["opencode.json"] == {
        "$schema": "https://opencode.ai/config.json",
        "share": "disabled",
    }
    assert sync_skills(repository, check=True).ok


def test_codex_has_no_plugin_where_claude_has_no_skills(repository: Path) -> None:
    configure(repository, f'[tool.scaffold.skills]\nclients = ["codex"]\n{PLUGIN}')
    assert sync_skills(repository, check=False).ok
    assert not (repository / ".agents" / "plugins").exists()


def test_an_opencode_json_by_hand_is_not_overwritten(repository: Path) -> None:
    (repository / "opencode.json").write_text("{}\n")
    assert sync_skills(repository, check=False).ok, "nobody asked for one"
    configure(repository, PLUGIN)
    report = sync_skills(repository, check=False)
    assert report.extra["edited"] == ["opencode.json"]
    assert (repository / "opencode.json").read_text() == "{}\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows knows no run bit")
def test_a_script_keeps_its_run_bit(repository: Path) -> None:
    script = repository / ".agents/skills/add-thing/run.sh"
    script.write_text("#!/bin/sh\n")
    sync_skills(repository, check=False)
    script.chmod(0o755)
    assert "run.sh (its run bits)" in sync_skills(repository, check=True).to_text()
    sync_skills(repository, check=False)
    rendered = repository / ".claude/skills/add-thing/run.sh"
    assert rendered.stat().st_mode & stat.S_IXUSR
    assert sync_skills(repository, check=True).ok
    script.chmod(0o644)
    sync_skills(repository, check=False)
    assert not rendered.stat().st_mode & stat.S_IXUSR


def test_a_rendered_folder_that_is_a_link_to_the_source_is_let_be(repository: Path) -> None:
    (repository / ".claude").mkdir()
    (repository / ".claude" / "skills").symlink_to("../.agents/skills")
    report = sync_skills(repository, check=False)
    assert report.ok
    assert "is a link to its source" in report.warnings[0]
    assert (repository / ".agents/skills/add-thing/SKILL.md").read_text() == SKILL
    assert sync_skills(repository, check=True).ok


def test_a_rendered_folder_that_leads_out_is_refused(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (repository / ".claude").symlink_to(outside)
    with pytest.raises(ConflictError, match="leads out of the repository") as caught:
        sync_skills(repository, check=False)
    assert caught.value.code == "outside_target"
    assert list(outside.iterdir()) == []


def test_a_folder_where_a_file_has_to_go_is_named(repository: Path) -> None:
    (repository / RENDERED).mkdir(parents=True)
    with pytest.raises(ConflictError, match=r"SKILL\.md cannot be read") as caught:
        sync_skills(repository, check=False)
    assert caught.value.code == "file_exists"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user whom modes bind")
def test_a_read_only_folder_ends_in_an_error(repository: Path) -> None:
    repository.chmod(0o555)
    try:
        with pytest.raises(ScaffoldError, match="nothing was changed"):
            sync_skills(repository, check=False)
    finally:
        repository.chmod(0o755)


def test_skills_are_found_upwards_and_not_beyond_the_git_root(repository: Path) -> None:
    inner = repository / "a" / "b"
    inner.mkdir(parents=True)
    assert find_pack(inner) == repository
    (inner / ".git").mkdir()
    with pytest.raises(TargetError, match=r"no \.agents/skills"):
        find_pack(inner)


def test_what_is_overwritten_lies_inside(tmp_path: Path) -> None:
    assert overwritten(["x", "../r/y"], tmp_path / "r", tmp_path / "r") == {"x", "y"}
    for path in ("..", "/etc/passwd", "."):
        with pytest.raises(RequestError, match="not a file or folder inside"):
            overwritten([path], tmp_path, tmp_path)


def test_overwriting_what_is_not_there_is_told(repository: Path) -> None:
    report = sync_skills(repository, check=False, overwrite=frozenset({"nothing.md"}))
    assert report.warnings == ("--overwrite nothing.md: there is no such file",)


@pytest.mark.parametrize("fail", ["dies", "has no space"])
def test_whatever_step_fails_the_next_sync_brings_all_in_step(
    tmp_path: Path, fail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(root: Path) -> Path:
        skill = root / ".agents" / "skills" / "add-thing"
        skill.mkdir(parents=True)
        (root / ".git").mkdir()
        tree = "<!-- scaffold:begin tree .agents -->\n<!-- scaffold:end -->\n"
        (skill / "SKILL.md").write_text(SKILL + tree)
        (skill / "run.sh").write_text("#!/bin/sh\n")
        (skill / "run.sh").chmod(0o755)
        return root

    counter = FaultyDisk()
    monkeypatch.setattr(disk, "DISK", counter)
    sync_skills(make(tmp_path / "whole"), check=False)
    for step in range(1, len(counter.steps) + 1, 3):
        root = make(tmp_path / str(step))
        how = die if fail == "dies" else NO_SPACE
        monkeypatch.setattr(disk, "DISK", FaultyDisk(step, how, is_final=fail == "dies"))
        with suppress(Death, ScaffoldError):
            sync_skills(root, check=False)
        monkeypatch.setattr(disk, "DISK", disk.Disk())
        sync_skills(root, check=False)
        assert sync_skills(root, check=True).ok, f"after step {step} of {counter.steps}"


def test_line_ends_as_git_checks_them_out_are_in_step(repository: Path) -> None:
    (repository / ".agents" / "agents").mkdir()
    (repository / ".agents" / "agents" / "judge.md").write_text(AGENT)
    sync_skills(repository, check=False)
    for path in (RENDERED, ".codex/agents/judge.toml", ".claude/agents/judge.md", RECORD):
        text = (repository / path).read_bytes().replace(b"\n", b"\r\n")
        (repository / path).write_bytes(text)
    assert sync_skills(repository, check=True).ok


def test_other_line_ends_of_a_program_are_behind(repository: Path) -> None:
    program = repository / ".agents/skills/add-thing/tool.bin"
    program.write_bytes(b"\0a\n")
    sync_skills(repository, check=False)
    (repository / ".claude/skills/add-thing/tool.bin").write_bytes(b"\0a\r\n")
    assert not sync_skills(repository, check=True).ok


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_source_that_stands_among_rendered_skills_is_never_written_or_lost(
    repository: Path,
) -> None:
    skill = repository / ".claude/skills/own"
    skill.mkdir(parents=True)
    text = SKILL.replace("add-thing", "own").encode()
    (skill / "SKILL.md").write_bytes(text)
    (repository / ".agents/skills/own").symlink_to("../../.claude/skills/own")
    report = sync_skills(repository, check=False, overwrite=frozenset([".claude"]))
    assert (skill / "SKILL.md").read_bytes() == text
    assert any("own/SKILL.md is a link to its source" in each for each in report.warnings)
    (repository / ".agents/skills/own").unlink()
    sync_skills(repository, check=False)
    assert (skill / "SKILL.md").read_bytes() == text


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_what_is_rendered_stays_when_its_source_becomes_a_link(repository: Path) -> None:
    sync_skills(repository, check=False)
    (repository / ".agents/skills").rename(repository / "skills")
    (repository / ".agents/skills").symlink_to("../skills")
    assert sync_skills(repository, check=True).ok
    assert sync_skills(repository, check=False).changes == ()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_in_the_place_of_a_rendered_file_is_told(repository: Path) -> None:
    (repository / RENDERED).parent.mkdir(parents=True)
    os.mkfifo(repository / RENDERED)
    with pytest.raises(ConflictError, match=r"SKILL\.md cannot be read: it is not a file"):
        sync_skills(repository, check=False)


@pytest.mark.parametrize("path", [".claude", ".claude/skills/add-thing"])
def test_a_file_in_the_place_of_a_folder_is_named(repository: Path, path: str) -> None:
    (repository / path).parent.mkdir(parents=True, exist_ok=True)
    (repository / path).write_text("a person's\n")
    with pytest.raises(ConflictError, match=f"^{path} is not a folder"):
        sync_skills(repository, check=False)
    (repository / path).unlink()
    assert sync_skills(repository, check=False).ok
