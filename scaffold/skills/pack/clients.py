"""What each client reads, rendered from the pack: pure, bytes in and bytes out.

Claude Code reads no ``.agents``: it gets the skills, with the same body and what it alone
understands. Codex and OpenCode read the skills where they are, and each client takes a skill's name
for a command. Each has its own form of subagents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaffold.skills.pack.claude_format import as_value, client_keys, for_claude, yaml_rows
from scaffold.skills.pack.sources import Document, Pack, Skill

COMMAND = """\
Load the skill `{name}` with the skill tool and do what it says.

What was asked for: $ARGUMENTS
"""


def agent_for_claude(agent: Document, origin: str = "") -> bytes:
    """Return a subagent as Claude Code reads it, with a comment on where it comes from."""
    head = {"name": agent.name, "description": agent.description, **_values(agent, "claude")}
    return _markdown(agent, head, origin)


def agent_for_opencode(agent: Document, origin: str = "") -> bytes:
    """Return a subagent as OpenCode reads it; its name is that of the file."""
    # The default comes first, so that the author's own key overrides it.
    keys = {"mode": "subagent", **_values(agent, "opencode")}
    return _markdown(agent, {"description": agent.description, **keys}, origin)


def agent_for_codex(agent: Document, origin: str = "") -> bytes:
    """Return a subagent as Codex reads it."""
    import tomli_w  # packs without subagents do without

    table = {
        "name": agent.name,
        "description": agent.description,
        **_values(agent, "codex"),
        # A TOML file has no text behind its keys, so the body is one of them.
        "developer_instructions": agent.body.strip() + "\n",
    }
    text = tomli_w.dumps(table, multiline_strings=True)
    return f"# {origin or _origin(agent)}\n{text}".encode()


def command_for_opencode(skill: Skill) -> bytes:
    """Return the slash command of a skill; OpenCode's list of commands leaves skills out."""
    head = {"description": skill.description, **_values(skill, "opencode")}
    text = COMMAND.format(name=skill.name)
    return f"---\n# {_origin(skill)}\n{yaml_rows(head)}---\n\n{text}".encode()


def render_clients(pack: Pack, clients: tuple[str, ...], *, commands: bool) -> dict[str, bytes]:
    """Return every rendered file but the copies of a skill's other files, by path.

    Args:
        commands: Whether OpenCode gets a slash command for each skill.
    """
    found: dict[str, bytes] = {}
    if "claude" in clients:
        found |= {
            claude_folder(each) + "SKILL.md": for_claude(each.data, each.path)
            for each in pack.skills
        }
        found |= {f".claude/agents/{each.name}.md": agent_for_claude(each) for each in pack.agents}
    if "codex" in clients:
        found |= {f".codex/agents/{each.name}.toml": agent_for_codex(each) for each in pack.agents}
    if "opencode" in clients:
        folder = ".opencode/agents"
        found |= {f"{folder}/{each.name}.md": agent_for_opencode(each) for each in pack.agents}
        if commands:
            folder = ".opencode/commands"
            found |= {f"{folder}/{s.name}.md": command_for_opencode(s) for s in pack.skills}
    return found


def claude_folder(skill: Skill) -> str:
    """Return the folder of a skill that Claude Code reads, with a slash at its end."""
    return f".claude/skills/{skill.name}/"


def _values(document: Document, client: str) -> dict[str, Any]:
    return {
        name: as_value(each) for name, each in client_keys(document.front.fields, client).items()
    }


def _markdown(agent: Document, head: Mapping[str, Any], origin: str) -> bytes:
    body = agent.body.lstrip("\n")
    return f"---\n# {origin or _origin(agent)}\n{yaml_rows(head)}---\n\n{body}".encode()


def _origin(document: Document) -> str:
    return f"Rendered from {document.path} by `scaffold skills sync`; edit that file."
