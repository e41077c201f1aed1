"""Do the reference reader of skills and agnix accept the pack, and do they look at all of it?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.kit import ROOT, Machine, source_skills

pytestmark = pytest.mark.clients

SKILLS = sorted(source_skills(ROOT))


@pytest.mark.parametrize("name", SKILLS)
def test_the_reference_reader_accepts_a_skill(name: str, machine: Machine, pack: Path) -> None:
    assert "Valid skill" in machine.ask(pack, "agentskills", "validate", f".agents/skills/{name}")


def test_the_reference_reader_refuses_a_field_of_claude(machine: Machine, own_pack: Path) -> None:
    """Is why the source keeps such fields under `metadata`, and only the rendering has them."""
    path = own_pack / ".agents" / "skills" / SKILLS[0] / "SKILL.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("---\n", "---\nargument-hint: X\n", 1), encoding="utf-8")
    done = machine.run(own_pack, "agentskills", "validate", str(path.parent))
    assert done.returncode == 1
    assert "argument-hint" in done.stderr


def diagnostics(machine: Machine, folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """Returns how many files agnix read, and what it has to say beyond remarks."""
    verdict = json.loads(machine.run(folder, "agnix", ".", "--format", "json").stdout)
    found = [row for row in verdict["diagnostics"] if row["level"] != "info"]
    return verdict["files_checked"], found


def test_agnix_has_no_error_and_no_warning(machine: Machine, pack: Path) -> None:
    files_checked, found = diagnostics(machine, pack)
    assert files_checked >= 2 * len(SKILLS)
    assert found == []


def test_agnix_sees_a_name_unlike_the_folder(machine: Machine, own_pack: Path) -> None:
    skills = own_pack / ".agents" / "skills"
    (skills / SKILLS[0]).rename(skills / "other")
    _, found = diagnostics(machine, own_pack)
    assert "AS-017" in {row["rule"] for row in found}
