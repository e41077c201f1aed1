"""Does Claude Code list the pack, accept its manifests and install it as a plugin?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.kit import PLUGIN, ROOT, Machine, source_agents, source_skills

pytestmark = pytest.mark.clients

SKILLS = set(source_skills(ROOT))
AGENTS = set(source_agents(ROOT))
PLACES = {"skills": SKILLS, "slash_commands": SKILLS, "agents": AGENTS}
"""What the client lists, and where it has to come from: a skill is a command by itself."""


def first_line(machine: Machine, folder: Path) -> dict[str, Any]:
    """Returns what the client tells of itself before it notices that nobody is logged in."""
    done = machine.run(folder, "claude", "-p", "hi", "--output-format", "stream-json", "--verbose")
    line = json.loads(done.stdout.splitlines()[0])
    assert line["subtype"] == "init", done.stdout + done.stderr
    return line


def beyond(own: dict[str, Any], listed: dict[str, Any], place: str) -> set[str]:
    """Returns what the client lists here and not everywhere."""
    return set(listed[place]) - set(own[place])


@pytest.mark.parametrize("place", PLACES)
def test_it_lists_the_source_set(place: str, machine: Machine, pack: Path, bare: Path) -> None:
    own, listed = first_line(machine, bare), first_line(machine, pack)
    assert beyond(own, listed, place) == PLACES[place]


def test_a_skill_that_is_not_rendered_is_missed(
    machine: Machine, own_pack: Path, bare: Path
) -> None:
    name = min(SKILLS)
    shutil.rmtree(own_pack / ".claude" / "skills" / name)
    listed = first_line(machine, own_pack)
    assert beyond(first_line(machine, bare), listed, "skills") == SKILLS - {name}


@pytest.mark.parametrize("folder", [".", ".claude"], ids=["marketplace", "plugin"])
def test_its_validator_finds_nothing_to_say(folder: str, machine: Machine, pack: Path) -> None:
    argv = ["claude", "plugin", "validate", "--strict", "--json", folder]
    verdict = machine.ask_json(pack, *argv)
    assert verdict["success"]
    assert verdict["manifest"] is not None, "it looked at files and found no manifest"
    assert verdict["manifest"]["errors"] + verdict["manifest"]["warnings"] == []
    assert verdict["contents"] == []


def test_its_validator_sees_a_subagent_without_description(
    machine: Machine, own_pack: Path
) -> None:
    agent = own_pack / ".claude" / "agents" / "mute.md"
    agent.parent.mkdir(exist_ok=True)
    agent.write_text("---\nname: mute\n---\n\nText.\n", encoding="utf-8")
    done = machine.run(own_pack, "claude", "plugin", "validate", "--strict", "--json", ".claude")
    assert done.returncode == 1
    assert [Path(row["file"]).name for row in json.loads(done.stdout)["contents"]] == ["mute.md"]


def test_it_installs_the_pack_as_a_plugin(machine: Machine, pack: Path, bare: Path) -> None:
    own = first_line(machine, bare)
    machine.ask(bare, "claude", "plugin", "marketplace", "add", str(pack))
    machine.ask(bare, "claude", "plugin", "install", f"{PLUGIN}@{PLUGIN}")
    listed = first_line(machine, bare)
    for place, names in PLACES.items():
        assert beyond(own, listed, place) == {f"{PLUGIN}:{name}" for name in names}
