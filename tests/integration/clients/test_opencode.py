"""Does OpenCode list the pack: skills, subagents, commands, configuration?"""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.kit import ROOT, Machine, source_agents, source_skills

pytestmark = pytest.mark.clients

SKILLS = source_skills(ROOT)
AGENTS = source_agents(ROOT)


def skills_in(machine: Machine, folder: Path) -> dict[str, dict[str, str]]:
    """Returns the skills that the client lists and that are not its own."""
    listed = machine.ask_json(folder, "opencode", "debug", "skill")
    ours = [skill for skill in listed if skill["location"] != "<built-in>"]
    assert len(ours) < len(listed), "the client's own skills are told by something else by now"
    assert len({skill["name"] for skill in ours}) == len(ours)
    return {skill["name"]: skill for skill in ours}


def agents_in(machine: Machine, folder: Path) -> set[tuple[str, str]]:
    """Returns the agents that the client lists, each with its mode."""
    rows = machine.ask(folder, "opencode", "agent", "list")
    return set(re.findall(r"^([\w-]+) \((\w+)\)$", rows, re.MULTILINE))


def test_it_lists_the_source_set(machine: Machine, pack: Path) -> None:
    """Whichever of the two roots a skill is taken from, it says what the source says."""
    listed = skills_in(machine, pack)
    assert {name: skill["description"] for name, skill in listed.items()} == {
        name: skill.description for name, skill in SKILLS.items()
    }
    for name, skill in listed.items():
        assert skill["content"].strip() == SKILLS[name].body.strip()


def test_a_skill_that_the_source_lacks_is_seen(machine: Machine, own_pack: Path) -> None:
    for root in (".agents", ".claude"):
        shutil.copytree(own_pack / root / "skills" / min(SKILLS), own_pack / root / "skills" / "x")
        path = own_pack / root / "skills" / "x" / "SKILL.md"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(f"name: {min(SKILLS)}\n", "name: x\n"), encoding="utf-8")
    assert set(skills_in(machine, own_pack)) == {*SKILLS, "x"}


def test_it_lists_the_subagents_of_the_source(machine: Machine, pack: Path, bare: Path) -> None:
    own = agents_in(machine, bare)
    assert ("build", "primary") in own, "the list of agents has another form by now"
    assert agents_in(machine, pack) - own == {(name, "subagent") for name in AGENTS}


def test_its_configuration_is_what_the_files_say(machine: Machine, pack: Path) -> None:
    config = machine.ask_json(pack, "opencode", "debug", "config")
    agents = {name: agent["description"] for name, agent in config.get("agent", {}).items()}
    assert agents == {name: agent.description for name, agent in AGENTS.items()}
    ours = json.loads((pack / "opencode.json").read_text(encoding="utf-8"))
    assert {key: config[key] for key in ours} == ours


def test_a_skill_is_a_command_by_itself(machine: Machine, pack: Path) -> None:
    listed = {command["name"]: command.get("source") for command in _commands(machine, pack)}
    assert "init" in listed, "the client's own commands are missing"
    assert {name for name in SKILLS if listed.get(name) == "skill"} == set(SKILLS)


def _commands(machine: Machine, folder: Path) -> list[dict[str, Any]]:
    argv = ["opencode", "serve", "--hostname", "127.0.0.1", "--port", "0"]
    with machine.start(folder, *argv, loopback=True) as server:
        assert server.stdout is not None
        said = (re.search(r"listening on (http://[\d.]+:\d+)", line) for line in server.stdout)
        address = next(match[1] for match in said if match)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"{address}/command", timeout=60) as answer:
            commands = json.load(answer)
        server.kill()
    return commands
