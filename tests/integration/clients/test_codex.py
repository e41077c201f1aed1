"""Does Codex list the pack, show the model all of it, and install it as a plugin?"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.kit import PLUGIN, ROOT, Machine, source_agents, source_skills

pytestmark = pytest.mark.clients

SKILLS = source_skills(ROOT)
AGENTS = source_agents(ROOT)


def list_skills(machine: Machine, folder: Path) -> dict[str, Any]:
    """Returns the answer of the app server to `skills/list` for a folder."""
    about = {"clientInfo": {"name": "tests", "title": "tests", "version": "0"}}
    messages = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "initialized"},
        {"id": 2, "method": "skills/list", "params": {"cwds": [str(folder)]}},
    ]
    with machine.start(folder, "codex", "app-server") as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
        server.stdin.flush()
        answers = (json.loads(line) for line in server.stdout)
        answer = next(message for message in answers if message.get("id") == 2)
        server.kill()
    (entry,) = answer["result"]["data"]
    return entry


def model_input(machine: Machine, folder: Path) -> str:
    """Returns all text that the model is shown at the start, in a project that is trusted."""
    settings = machine.home / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text(f'[projects."{folder}"]\ntrust_level = "trusted"\n', encoding="utf-8")
    return "\n".join(_texts(machine.ask_json(folder, "codex", "debug", "prompt-input")))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in _texts(part)]


def test_its_server_lists_the_source_set(machine: Machine, pack: Path) -> None:
    entry = list_skills(machine, pack)
    ours = {skill["name"]: skill for skill in entry["skills"] if skill["scope"] == "repo"}
    assert {name: skill["description"] for name, skill in ours.items()} == {
        name: skill.description for name, skill in SKILLS.items()
    }
    assert all(skill["enabled"] for skill in ours.values())
    assert entry["errors"] == []


def test_its_server_reports_a_skill_that_it_cannot_read(machine: Machine, own_pack: Path) -> None:
    broken = own_pack / ".agents" / "skills" / min(SKILLS) / "SKILL.md"
    broken.write_text("no front matter\n", encoding="utf-8")
    entry = list_skills(machine, own_pack)
    listed = {skill["name"] for skill in entry["skills"] if skill["scope"] == "repo"}
    assert listed == set(SKILLS) - {min(SKILLS)}
    assert [error["path"] for error in entry["errors"]] == [str(broken)]


def test_it_shows_the_model_every_description_uncut(machine: Machine, pack: Path) -> None:
    text = model_input(machine, pack)
    (root,) = re.findall(rf"- `(r\d+)` = `{re.escape(str(pack))}/\.agents/skills`", text)
    rows = re.findall(rf"^- ([\w-]+): (.*) \(file: {root}/[\w-]+/SKILL\.md\)$", text, re.MULTILINE)
    assert dict(rows) == {name: skill.description for name, skill in SKILLS.items()}


def test_it_offers_the_model_the_subagents_of_the_source(
    machine: Machine, pack: Path, bare: Path, tmp_path: Path
) -> None:
    """The client lists its own roles only beside a project's, so the bare one gets a role too."""
    agent = bare / ".codex" / "agents" / "probe.toml"
    agent.parent.mkdir(parents=True)
    rows = (f'{key} = "text"\n' for key in ("description", "developer_instructions"))
    agent.write_text('name = "probe"\n' + "".join(rows), encoding="utf-8")
    (tmp_path / "second").mkdir()
    own = set(_roles(model_input(Machine(tmp_path / "second", machine.clients), bare)))
    assert own >= {"probe", "default"}, "the list of roles has another form by now"
    assert set(_roles(model_input(machine, pack))) - own == set(AGENTS)


def _roles(text: str) -> list[str]:
    listing = text.partition("Available roles:\n")[2]
    return re.findall(r"^([\w-]+): \{$", listing, re.MULTILINE)


def test_it_installs_the_pack_as_a_plugin(machine: Machine, pack: Path, bare: Path) -> None:
    machine.ask(bare, "codex", "plugin", "marketplace", "add", str(pack), "--json")
    added = machine.ask_json(bare, "codex", "plugin", "add", f"{PLUGIN}@{PLUGIN}", "--json")
    listed = list_skills(machine, bare)
    ours = {skill["name"] for skill in listed["skills"] if skill["scope"] != "system"}
    assert ours == {f"{PLUGIN}:{name}" for name in SKILLS}
    shutil.rmtree(added["installedPath"])
    assert {skill["scope"] for skill in list_skills(machine, bare)["skills"]} == {"system"}
