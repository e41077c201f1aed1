"""Are the skills true? Their form is checked, and their console blocks are run and compared."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scaffold.skills.pack.sync import sync_skills

ROOT = Path(__file__).parents[2]
SKILLS = sorted((ROOT / ".agents" / "skills").glob("*/SKILL.md"))
SPEC_FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
MAX_LINES = 200
MAX_DESCRIPTION = 200

every_skill = pytest.mark.parametrize("skill", SKILLS, ids=lambda path: path.parent.name)


def console_blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the command of each console block, and the output that it promises."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        command, *output = block.splitlines()
        assert command.startswith("$ "), f"{command!r} is no command behind a prompt"
        yield shlex.split(command[2:]), output


def test_there_are_skills() -> None:
    assert [path.parent.name for path in SKILLS] == ["add-workflow"]


@every_skill
def test_form(skill: Path) -> None:
    text = skill.read_text(encoding="utf-8")
    _, head, body = text.split("---\n", 2)
    fields = yaml.safe_load(head)
    assert set(fields) <= SPEC_FIELDS
    assert fields["name"] == skill.parent.name
    assert 0 < len(fields["description"]) <= MAX_DESCRIPTION
    assert "Use when" in fields["description"]
    assert all(isinstance(value, str) for value in fields.get("metadata", {}).values())
    assert len(text.splitlines()) <= MAX_LINES
    assert body.lstrip().startswith("# ")


def test_the_rendered_copies_are_in_step() -> None:
    report = sync_skills(ROOT, check=True)
    assert report.ok, report.to_text()


@every_skill
def test_console_blocks_print_what_they_promise(skill: Path, tmp_path: Path) -> None:
    """Runs the blocks of a skill one after the other in a project that `scaffold new` made."""
    run(["scaffold", "new", "my_rl"], tmp_path)
    blocks = list(console_blocks(skill.read_text(encoding="utf-8")))
    assert blocks
    for command, promised in blocks:
        printed = run(command, tmp_path / "my_rl")
        # The Python that verify names is that of whoever runs it, as the skill says.
        assert [row for row in printed if not row.startswith("python ")] == promised


def run(command: list[str], folder: Path) -> list[str]:
    program, *argv = command
    assert program == "scaffold"
    done = subprocess.run(
        [sys.executable, "-m", program, *argv],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def test_the_mistakes_are_those_that_verify_names() -> None:
    text = (ROOT / ".agents/skills/add-workflow/SKILL.md").read_text(encoding="utf-8")
    table = text.partition("## Common mistakes\n")[2].partition("\n## ")[0]
    phrases = [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")][1:]
    assert len(phrases) > 5
    folders = [ROOT / "scaffold" / "runners", ROOT / "scaffold" / "verify"]
    sources = "".join(p.read_text(encoding="utf-8") for f in folders for p in f.glob("*.py"))
    for phrase in phrases:
        for part in phrase.split("..."):
            assert part.strip() in sources, f"verify never says {phrase!r}"
