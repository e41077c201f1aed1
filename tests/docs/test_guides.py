"""Are AGENTS.md, CLAUDE.md, CONTRIBUTING.md and the subagents true, short and complete?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_archon_skill import copy_of_repository
from tests.docs.test_claims import command_faults, commands_in, path_faults

ROOT = Path(__file__).parents[2]
GUIDES = [ROOT / name for name in ("AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md")]
AGENTS = sorted((ROOT / ".agents" / "agents").glob("*.md"))
EXPERTS = {"algorithm-expert", "archon-expert", "fsdp-expert", "launcher-expert"}
READERS = {"planner", "code-reviewer", "code-verifier"}
MAX_LINES = 80
MAX_AGENT_LINES = 100
MAX_DESCRIPTION = 200


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    found = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert found, f"there is no section {heading!r}"
    return found


# --- AGENTS.md and CLAUDE.md --------------------------------------------------------------------


def test_the_guide_is_short_and_imported() -> None:
    assert len(text_of("AGENTS.md").splitlines()) <= MAX_LINES
    assert text_of("CLAUDE.md") == "@AGENTS.md\n"


def test_the_guide_names_every_skill() -> None:
    named = re.findall(
        r"`(\.agents/skills/[a-z-]+/SKILL\.md)`", section(text_of("AGENTS.md"), "Skills")
    )
    there = [path.relative_to(ROOT).as_posix() for path in ROOT.glob(".agents/skills/*/SKILL.md")]
    assert sorted(named) == sorted(there)


def test_the_layers_are_in_the_order_of_the_contracts() -> None:
    project = text_of("pyproject.toml")
    rows = re.findall(
        r"^\| `(areal|scaffold)` \| (.+) \|$", text_of("AGENTS.md"), flags=re.MULTILINE
    )
    assert len(rows) == 2
    for package, told in rows:
        contract = project.partition(f'id = "{package}-layers"')[2].partition("\n]")[0]
        levels = re.findall(r'^    "(.+)",', contract, flags=re.MULTILINE)
        depth = {word: at for at, level in enumerate(levels) for word in re.findall(r"\w+", level)}
        groups = [re.findall(r"`(\w+)(?:\.py)?`", group) for group in told.split(";")]
        at = [{depth[name] for name in group} for group in groups]
        assert all(len(level) == 1 for level in at), f"{groups} are no levels of {package}"
        assert at == sorted(at, key=min)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_its_commands_and_paths_are_there(guide: Path) -> None:
    assert path_faults(guide) == []
    assert [fault for words in commands_in(guide) for fault in command_faults(words)] == []


# --- CONTRIBUTING.md ----------------------------------------------------------------------------


@pytest.mark.parametrize("heading", ["Add a skill", "Add a template", "Add a reward"])
def test_six_steps_and_the_command_first(heading: str, tmp_path: Path) -> None:
    """Runs the commands that open the section, in a copy of this repository."""
    text = section(text_of("CONTRIBUTING.md"), heading)
    assert re.findall(r"^(\d)\. ", text, flags=re.MULTILINE) == list("123456")
    before, _, block = text.partition("```bash\n")
    assert "1. " not in before
    root = copy_of_repository(tmp_path / "repository")
    commands = block.partition("```")[0].splitlines()
    assert commands
    for command in commands:
        done = in_copy(root, command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def in_copy(root: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of the guide with the `scaffold` of the copy, whose templates it then sees."""
    bash = shutil.which("bash")
    assert bash is not None
    line = re.sub(r"^scaffold\b", '"$PY" -m scaffold', command)
    return subprocess.run(
        [bash, "-c", line],
        cwd=root,
        env={**os.environ, "PY": sys.executable, "PYTHONPATH": str(root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_started_skill_is_listed_and_renders(tmp_path: Path) -> None:
    root = copy_of_repository(tmp_path / "repository")
    lines = section(text_of("CONTRIBUTING.md"), "Add a skill").partition("```bash\n")[2]
    for command in (lines.splitlines()[0], "scaffold skills sync", "scaffold skills sync --check"):
        done = in_copy(root, command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert (root / ".claude" / "skills" / "add-metric" / "SKILL.md").is_file()
    assert "add-metric" in in_copy(root, "scaffold skills list").stdout


# --- subagents ----------------------------------------------------------------------------------


def test_there_is_one_for_each_subject() -> None:
    assert {path.stem for path in AGENTS} == EXPERTS | READERS


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_a_subagent_says_when_it_is_used_and_what_it_answers(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    _, head, body = text.split("---\n", 2)
    (description,) = re.findall(r"^description: (.+)$", head, flags=re.MULTILINE)
    assert len(description) <= MAX_DESCRIPTION
    assert ". Use when " in description
    assert len(text.splitlines()) <= MAX_AGENT_LINES
    assert "\n## How you work\n" in body or "\n## How you plan\n" in body
    assert "\n## Your answer\n" in body
    assert re.search(r"`(scaffold|make|pytest|areal|git|torchrun) ?[^`]*`", body), "no command"


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_who_only_reads_is_given_no_tool_that_writes(path: Path) -> None:
    (tools,) = re.findall(
        r"^  claude-tools: (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    writes = {"Edit", "Write"} & set(tools.split(", "))
    assert writes == (set() if path.stem in READERS else {"Edit", "Write"})
