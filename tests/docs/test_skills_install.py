"""Is the page about installing skills true? Its tables and numbers are those of the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from scaffold.analysis.repository import Repository
from scaffold.skills.check.checking import check_repository
from scaffold.skills.install import hidden_text as hidden
from scaffold.skills.install import permissions, places
from scaffold.skills.install import source_tree as tree
from scaffold.skills.install.lock import LOCK

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "en" / "skills-install.md").read_text(encoding="utf-8")


def table(head: str) -> list[list[str]]:
    """Returns the rows of the table that begins with a word."""
    rows = re.search(rf"^\| {head} \|.*\n\|[-|]+\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1].splitlines()]


def test_everything_that_is_listed_stands_there() -> None:
    assert [row[0] for row in table("listed")] == list(get_args(permissions.Kind))


def test_where_each_client_looks() -> None:
    told = {
        client: [cell.strip("` ") for cell in cells[1:]]
        for cells in table("client")
        for client in re.findall(r"--client (\w+)", cells[0])
    }
    assert told == {
        client: [skills, places.AGENT_CLIENTS[client]] for client, skills in places.CLIENTS.items()
    }


def test_the_numbers() -> None:
    assert f"more than {hidden.MAX_LOOSE} zero-width\ncharacters" in TEXT
    size = f"{tree.MAX_SKILL_BYTES / 2**20:.0f} MiB or {tree.MAX_SKILL_FILES} files"
    assert f"more than {size}" in TEXT
    assert f"`{LOCK}`" in TEXT


def test_the_row_of_the_page_on_trust() -> None:
    text = (ROOT / "docs" / "en" / "trust.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| `scaffold skills install` .*$", text, re.MULTILINE)
    written = (*places.ROOTS, *places.AGENT_CLIENTS.values(), LOCK)
    assert all(f"`{place}`" in row for place in written)


def test_skills_that_another_installer_copied_pass_the_check(tmp_path: Path) -> None:
    """`npx skills add` copies folders as they are, and keeps `skills-lock.json`."""
    shutil.copytree(ROOT / ".agents" / "skills", tmp_path / ".claude" / "skills")
    names = sorted(path.name for path in (tmp_path / ".claude" / "skills").iterdir())
    rows = {name: {"source": "example/skills", "sourceType": "github"} for name in names}
    lock = tmp_path / "skills-lock.json"
    lock.write_text(json.dumps({"version": 1, "skills": rows}))
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    found = check_repository(Repository.at(tmp_path)).findings
    assert not found, [each.message for each in found]
    lock.unlink()
    assert check_repository(Repository.at(tmp_path)).findings, "nobody says that they are others'"


@pytest.mark.parametrize("skill", sorted(ROOT.glob(".agents/skills/add-*/SKILL.md")), ids=str)
def test_adding_ends_with_one_gate(skill: Path) -> None:
    text = " ".join(skill.read_text(encoding="utf-8").split())
    assert re.search(r"Nothing else is to be run: `verify` .*Add, edit[\w ]*, verify, done\.", text)


@pytest.mark.parametrize("skill", sorted(ROOT.glob(".agents/skills/*/SKILL.md")), ids=str)
def test_a_skill_says_how_to_get_its_command(skill: Path) -> None:
    how = "`pip install <checkout or wheel of areal-scaffold>`; it is not on PyPI."
    assert how in skill.read_text(encoding="utf-8")
