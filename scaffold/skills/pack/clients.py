"""What each client reads, rendered from the pack: pure, bytes in and bytes out.

Claude Code reads no ``.agents``: it gets the skills, with the same body and what it alone
understands. Codex and OpenCode read the skills where they are, and each client takes a skill's name
for a command. Each has its own form of subagents.

Manifests of plugins make the pack installable. The plugin is ``.claude``, for Codex too: a client
copies the folder of a plugin, so that nobody gets the rest of the repository. A manifest of Codex
in ``.agents`` or at the repository's root would make Codex rename the repository's own skills to
``<plugin>:<skill>`` in every session there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from scaffold.analysis.files.front_matter import read_front_matter
from scaffold.analysis.lazy_re import lazy_re
from scaffold.errors import ScaffoldError
from scaffold.skills.pack.sources import Document, Pack, Skill

if TYPE_CHECKING:
    from scaffold.skills.blocks.settings import Plugin, Settings

COMMAND = """\
Load the skill `{name}` with the skill tool and follow it.

What was asked for: $ARGUMENTS
"""

# In bytes, as all but the added keys has to stay; a mark of UTF-8 may be in front.
_FRONT_MATTER = lazy_re(
    rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?P<head>.*?)^---[ \t]*(?:\r?\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
# The key `metadata:` with its indented rows.
_METADATA = lazy_re(rb"^metadata:[ \t]*\r?\n(?P<rows>(?:[ \t]+.*(?:\r?\n|\Z))*)", re.MULTILINE)
_PLAIN = lazy_re(r"true|false|\d+")
"""Text that a client wants as a value: the specification allows strings alone in metadata."""

CLAUDE_PLUGIN = ".claude/.claude-plugin/plugin.json"
CLAUDE_MARKETPLACE = ".claude-plugin/marketplace.json"
CODEX_PLUGIN = ".claude/.codex-plugin/plugin.json"
CODEX_MARKETPLACE = ".agents/plugins/marketplace.json"
OPENCODE = "opencode.json"

OPENCODE_SCHEMA = "https://opencode.ai/config.json"


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


def for_claude(data: bytes, where: str) -> bytes:
    """Return a SKILL.md as Claude Code reads it: the same, with Claude's own keys added.

    Raises:
        ScaffoldError: It does not begin with front matter between two lines ``---``.
    """
    found = _FRONT_MATTER.match(data)
    if found is None:
        raise ScaffoldError(
            f"{where} has no front matter",
            code="skill_invalid",
            hint="begin it with a line ---, the keys name and description, and a line ---",
        )
    # Most skills have no such key, and stay byte for byte as they are.
    if b"claude-" not in found["head"]:
        return data
    keys = client_keys(read_front_matter(found[0].decode("utf-8-sig", "replace")).fields, "claude")
    ending = b"\r\n" if found[0].endswith(b"\r\n") else b"\n"
    rows = [_row(found["head"], name, value) for name, value in keys.items()]
    end = found.end("head")
    # Appended to the head: every other byte, comments included, stays in its place.
    return data[:end] + b"".join(row + ending for row in rows) + data[end:]


def client_keys(fields: Mapping[str, Any], client: str) -> dict[str, object]:
    """Return what ``metadata.CLIENT-*`` has for one client, without the prefix."""
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict):
        return {}
    rows = cast("dict[object, object]", metadata).items()
    start = f"{client}-"
    return {str(key)[len(start) :]: each for key, each in rows if str(key).startswith(start)}


def as_value(value: object) -> object:
    """Return a value of metadata as a client wants it: "true" and "3" are no text there."""
    if not isinstance(value, str) or not _PLAIN.fullmatch(value):
        return value
    return int(value) if value.isdigit() else value == "true"


def yaml_rows(head: Mapping[str, object]) -> str:
    """Return keys and values as the rows of a front matter."""
    import yaml  # costs 25 ms: a skill without such keys does without

    library: Any = yaml
    return library.safe_dump(dict(head), sort_keys=False, allow_unicode=True, width=10**6)


def _row(head: bytes, name: str, value: object) -> bytes:
    """Return one row of front matter: as its author wrote it, where that is one plain row."""
    metadata = _METADATA.search(head)
    row = rb"^[ \t]+claude-(?P<row>%b:[ \t]+(?P<value>\S.*?))[ \t]*\r?$" % re.escape(name.encode())
    written = re.search(row, metadata["rows"], re.MULTILINE) if metadata else None
    is_plain = isinstance(value, str) and not _PLAIN.fullmatch(value) and "\n" not in value
    # Block scalars, anchors and aliases mean nothing outside of their own document.
    if written and is_plain and not written["value"].startswith((b"|", b">", b"&", b"*")):
        return written["row"]
    return yaml_rows({name: as_value(value)}).rstrip("\n").encode()


def render_manifests(settings: Settings, clients: tuple[str, ...]) -> dict[str, bytes]:
    """Return the manifests that a repository asks for, by path; none that it does not."""
    found: dict[str, Mapping[str, Any]] = {}
    plugin = settings.plugin
    if plugin is not None and "claude" in clients:
        found[CLAUDE_PLUGIN] = _head(plugin)
        found[CLAUDE_MARKETPLACE] = _claude_marketplace(plugin)
    if plugin is not None and {"claude", "codex"} <= set(clients):  # the first renders its skills
        found[CODEX_PLUGIN] = _codex_plugin(plugin)
        found[CODEX_MARKETPLACE] = _codex_marketplace(plugin)
    if settings.opencode is not None and "opencode" in clients:
        found[OPENCODE] = {"$schema": OPENCODE_SCHEMA, **settings.opencode}
    return {path: _json(table) for path, table in found.items()}


def _claude_marketplace(plugin: Plugin) -> dict[str, Any]:
    offer = {"name": plugin.name, "source": "./.claude", "description": plugin.description}
    return {
        "name": plugin.marketplace,
        "owner": {"name": plugin.author},
        "metadata": {"description": plugin.description, "version": plugin.version},
        "plugins": [offer],
    }


def _codex_plugin(plugin: Plugin) -> dict[str, Any]:
    interface = {
        "displayName": plugin.name,
        "shortDescription": plugin.description,
        "developerName": plugin.author,
        "category": "Productivity",
    }
    return {**_head(plugin), "skills": "./skills/", "interface": interface}


def _codex_marketplace(plugin: Plugin) -> dict[str, Any]:
    offer = {
        "name": plugin.name,
        "source": {"source": "local", "path": "./.claude"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Productivity",
    }
    return {
        "name": plugin.marketplace,
        "interface": {"displayName": plugin.marketplace},
        "plugins": [offer],
    }


def _head(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "version": plugin.version,
        "description": plugin.description,
        "author": {"name": plugin.author},
        **plugin.extra,
    }


def _json(table: Mapping[str, Any]) -> bytes:
    return (json.dumps(table, indent=2, ensure_ascii=False, default=str) + "\n").encode()
