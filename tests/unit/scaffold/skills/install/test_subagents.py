"""Subagents are installed like skills: rendered for each client, pinned, and removed again."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scaffold.errors import ConflictError, LedgerError, ScaffoldError
from scaffold.skills.install.command import (
    InstallOptions,
    check_skills,
    install_skills,
    remove_skills,
    update_skills,
)
from scaffold.skills.install.lock import read_lock
from scaffold.skills.install.run import Options
from tests.unit.scaffold.skills.install.conftest import commit_all, write

AGENT = """---
name: critic
description: Criticises.
metadata:
  claude-tools: Read, Grep
  claude-hooks: x
  codex-sandbox_mode: danger-full-access
---

You criticise.
{more}
<!-- scaffold:source-only -->
See `docs/here.md`.
<!-- scaffold:source-only-end -->

You stop.
"""
FILES = [".claude/agents/critic.md", ".codex/agents/critic.toml", ".opencode/agents/critic.md"]
EVERY = InstallOptions()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


@pytest.fixture
def source(repository: Path) -> Path:
    write(repository, {".agents/agents/critic.md": AGENT.format(more="")})
    commit_all(repository)
    return repository


def files_of(target: Path) -> list[str]:
    found = (path for path in target.rglob("*") if path.is_file() and "state" not in path.parts)
    return sorted(path.relative_to(target).as_posix() for path in found)


def install(source: Path | str, target: Path, *names: str, how: InstallOptions = EVERY) -> str:
    report = install_skills(str(source), names, target, how, Options(target, agreed=True))
    return " ".join(each["outcome"] for each in report.extra["skills"])


def test_each_client_gets_its_form(source: Path, target: Path) -> None:
    assert install(source, target, "agents/critic") == "installed"
    assert files_of(target) == [*FILES, ".scaffold/skills-lock.toml"]
    claude = (target / FILES[0]).read_text("utf-8")
    assert "\ntools: Read, Grep\n" in claude
    assert claude.endswith("You criticise.\n\nYou stop.\n")
    assert "Installed by `scaffold skills install`" in claude
    codex = tomllib.loads((target / FILES[1]).read_text("utf-8"))
    assert (codex["name"], codex["description"]) == ("critic", "Criticises.")
    assert "You stop." in codex["developer_instructions"]
    assert "mode: subagent" in (target / FILES[2]).read_text("utf-8")
    for path in FILES:
        text = (target / path).read_text("utf-8")
        assert "docs/here.md" not in text
        assert "hooks" not in text
        assert "sandbox_mode" not in text


def test_what_it_grants_is_kept_on_request(source: Path, target: Path) -> None:
    install(source, target, "agents/critic", how=InstallOptions(grant_tools=True))
    assert "\nhooks: x\n" in (target / FILES[0]).read_text("utf-8")
    codex = tomllib.loads((target / FILES[1]).read_text("utf-8"))
    assert codex["sandbox_mode"] == "danger-full-access"
    rows = read_lock(target)["agents/critic"].permissions
    assert [each.state for each in rows if each.kind == "tools"] == ["", "", ""]


def test_without_a_name_skills_and_subagents_are_installed(source: Path, target: Path) -> None:
    assert install(source, target) == "installed installed installed"
    assert sorted(read_lock(target)) == ["agents/critic", "one", "two"]
    assert check_skills([], Options(target)).ok


def test_a_prefix_and_one_client(source: Path, target: Path) -> None:
    how = InstallOptions(clients=("codex",), prefix="acme")
    install(source, target, "agents/critic", how=how)
    assert files_of(target) == [".codex/agents/acme-critic.toml", ".scaffold/skills-lock.toml"]
    update_skills([], EVERY, Options(target))
    assert check_skills(["agents/acme-critic"], Options(target)).ok


def test_at_home_opencode_reads_another_folder(source: Path, target: Path) -> None:
    options = Options(target, user=True)
    install_skills(str(source), ["agents/critic"], target, EVERY, options)
    assert ".config/opencode/agents/critic.md" in files_of(target)
    assert FILES[2] not in files_of(target)


def test_an_update_an_edit_and_a_removal(source: Path, target: Path) -> None:
    options = Options(target, agreed=True)
    install(source, target, "agents/critic")
    write(source, {".agents/agents/critic.md": AGENT.format(more="Politely.\n")})
    assert not update_skills([], EVERY, options).warnings
    assert "Politely." in (target / FILES[0]).read_text("utf-8")
    (target / FILES[1]).write_text("mine")
    assert not check_skills([], options).ok
    write(source, {".agents/agents/critic.md": AGENT.format(more="")})
    with pytest.raises(ConflictError) as caught:
        update_skills([], EVERY, options)
    assert caught.value.code == "skill_edited"
    update_skills([], InstallOptions(overwrite=(FILES[1],)), options)
    assert check_skills([], options).ok
    remove_skills(["agents/critic"], [], options)
    assert files_of(target) == []


@pytest.mark.parametrize("path", [*FILES, ".claude/agents/Critic.md"])
def test_a_name_that_is_taken_is_refused(source: Path, target: Path, path: str) -> None:
    write(target, {path: "mine"})
    with pytest.raises(ConflictError) as caught:
        install(source, target, "agents/critic")
    assert caught.value.code == "skill_exists"
    assert path in caught.value.message
    assert files_of(target) == [path]


def test_a_lock_file_names_no_other_file(source: Path, target: Path) -> None:
    install(source, target, "agents/critic")
    lock = target / ".scaffold/skills-lock.toml"
    lock.write_text(lock.read_text("utf-8").replace(FILES[0], ".claude/agents/other.md"), "utf-8")
    with pytest.raises(LedgerError) as caught:
        remove_skills(["agents/critic"], [], Options(target))
    assert caught.value.code == "skill_lock_invalid"


def test_one_that_is_gone_or_unknown(source: Path, target: Path) -> None:
    with pytest.raises(ScaffoldError) as caught:
        install(source, target, "agents/critik")
    assert "agents/critic" in caught.value.message
    install(source, target, "agents/critic")
    (source / ".agents/agents/critic.md").unlink()
    with pytest.raises(ScaffoldError) as caught:
        update_skills([], EVERY, Options(target))
    assert caught.value.code == "skill_unknown"


def test_those_of_the_tool_name_nothing_of_its_repository(target: Path) -> None:
    install("builtin", target)
    names = {path.stem for path in (target / ".claude/agents").iterdir()}
    assert names == {path.stem for path in Path(".agents/agents").glob("*.md")}
    ours = re.compile(
        r"CONTRIBUTING|\bmake (?:lint|test|docs)|`(?:docs/en|tests/(?:unit|integration|golden)"
        r"|templates|scaffold/(?:archon|cli|edit|runners|transaction|units))/"
    )
    for path in target.rglob("*"):
        if path.is_file() and path.suffix in (".md", ".toml") and "lock" not in path.name:
            found = ours.search(path.read_text("utf-8"))
            assert not found, f"{path}: {found}"
