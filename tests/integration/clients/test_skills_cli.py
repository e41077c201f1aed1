"""Does `npx skills` find every skill of the repository, and install it byte for byte?"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.integration.clients.kit import ROOT, Machine, source_skills

pytestmark = pytest.mark.clients

SKILLS = set(source_skills(ROOT))


def found_in(machine: Machine, folder: Path) -> set[str]:
    """Returns the names that `skills add FOLDER --list` prints."""
    text = machine.ask(folder, "skills", "add", ".", "--list")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    names = re.findall(r"^│ {4}(\S+)$", plain.partition("Available Skills")[2], re.MULTILINE)
    count = re.search(r"Found (\d+) skills?\b", plain)
    assert count is not None
    assert len(names) == int(count[1]), plain
    return set(names)


def test_it_finds_the_source_set(machine: Machine, pack: Path) -> None:
    assert found_in(machine, pack) == SKILLS


def test_it_names_a_skill_that_it_cannot_take(machine: Machine, own_pack: Path) -> None:
    nameless = own_pack / ".agents" / "skills" / "nameless"
    shutil.copytree(nameless.with_name(min(SKILLS)), nameless)
    text = (nameless / "SKILL.md").read_text(encoding="utf-8")
    text = text.replace(f"name: {min(SKILLS)}\n", "", 1)
    (nameless / "SKILL.md").write_text(text, encoding="utf-8")
    done = machine.run(own_pack, "skills", "add", ".", "--list")
    assert str(nameless / "SKILL.md") in done.stdout + done.stderr
    assert found_in(machine, own_pack) == SKILLS


def test_it_installs_what_the_source_says(machine: Machine, pack: Path, bare: Path) -> None:
    argv = ["skills", "add", str(pack), "--skill", "*", "--agent", "codex", "--copy", "--yes"]
    machine.ask(bare, *argv)
    for name in SKILLS:
        installed = bytes_below(bare / ".agents" / "skills" / name)
        assert installed == bytes_below(pack / ".agents" / "skills" / name)


def bytes_below(folder: Path) -> dict[Path, bytes]:
    """Returns what the files of a folder hold."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}
