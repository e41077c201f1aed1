"""Subagents of a source: found, and rendered in each client's own form.

A subagent is one Markdown file, ``.agents/agents/NAME.md``. It is called ``agents/NAME``, as a
skill may have the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from scaffold.analysis.files.front_matter import read_front_matter
from scaffold.skills.install.front_matter import check_name, is_grant, read_head
from scaffold.skills.install.permissions import Permission
from scaffold.skills.install.places import AGENT_ROOTS
from scaffold.skills.install.source_tree import SkillFile
from scaffold.skills.pack.clients import agent_for_claude, agent_for_codex, agent_for_opencode
from scaffold.skills.pack.sources import Document

if TYPE_CHECKING:
    from scaffold.skills.install.source import Skill

PREFIX = "agents/"
FOLDERS = (".agents/agents", "agents")
"""Where a source keeps its subagents; the second one in the pack of the tool alone."""

_ORIGIN = "Installed by `scaffold skills install`; `--update` replaces it."
_RENDER = {".md": agent_for_claude, ".toml": agent_for_codex}


def is_subagent(name: str) -> bool:
    return name.startswith(PREFIX)


def prefixed(prefix: str, name: str, where: str) -> str:
    """Return the name that a skill or subagent is installed under.

    Raises:
        ScaffoldError: It is not a valid name.
    """
    kind = PREFIX if is_subagent(name) else ""
    return kind + check_name(prefix + name.removeprefix(kind), where)


def unprefixed(prefix: str, name: str) -> str:
    """Return the name that a skill or subagent has in its source."""
    kind = PREFIX if is_subagent(name) else ""
    return kind + name.removeprefix(kind).removeprefix(prefix)


def subagent_path(root: str, name: str) -> str:
    return f"{root}/{name.removeprefix(PREFIX)}{AGENT_ROOTS[root]}"


def find_subagents(paths: Iterable[str], folders: Iterable[str]) -> dict[str, str]:
    """Return the folder of each subagent of a source by its name, sorted."""
    found: dict[str, str] = {}
    for path in sorted(paths):
        folder, _, file = path.rpartition("/")
        if folder in folders and file.endswith(".md"):
            found[PREFIX + file.removesuffix(".md")] = folder
    return found


def render_subagent(
    skill: Skill, data: bytes, name: str, roots: Iterable[str], *, grant_tools: bool
) -> dict[str, SkillFile]:
    """Return the files of a subagent by their paths in the target.

    Args:
        data: Its text, without what stays in the source.
        grant_tools: Whether hooks, permissions and the like are kept.

    Raises:
        ScaffoldError: Its front matter is invalid.
    """
    (file,) = skill.files
    where = f"{skill.path}/{file}"
    front = read_head(data, where)
    if not grant_tools:
        front = front._replace(fields=_without_grants(front.fields))
    document = Document(name.removeprefix(PREFIX), where, data, front)
    found: dict[str, SkillFile] = {}
    for root in roots:
        render = agent_for_opencode if "opencode" in root else _RENDER[AGENT_ROOTS[root]]
        found[subagent_path(root, name)] = SkillFile(render(document, _ORIGIN), False)
    return found


def subagent_permissions(path: str, data: bytes, *, grant_tools: bool) -> list[Permission]:
    """Return the tools, hooks and permissions that a subagent asks for."""
    rows = data.decode().split("\n")
    found: list[Permission] = []
    for key, value in _metadata(read_front_matter(data.decode()).fields).items():
        # `tools` restricts a subagent, which without it has every tool; so it is always kept.
        if not is_grant(key) and not re.fullmatch(r"[a-z]+-tools", key):
            continue
        state = "dropped" if is_grant(key) and not grant_tools else ""
        lines = [number for number, row in enumerate(rows, 1) if row.strip().startswith(key)]
        found.append(Permission("tools", path, lines[0] if lines else 2, f"{key}: {value}", state))
    return found


def _without_grants(fields: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in _metadata(fields).items() if not is_grant(key)}
    return {**fields, "metadata": kept}


def _metadata(fields: Mapping[str, Any]) -> dict[str, Any]:
    found = fields.get("metadata")
    entries = cast("dict[Any, Any]", found) if isinstance(found, dict) else {}
    return {str(key): value for key, value in entries.items()}
