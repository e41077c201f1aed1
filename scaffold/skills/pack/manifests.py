"""What makes the pack installable: manifests of plugins, and OpenCode's configuration.

The plugin is ``.claude``, for Codex too: a client copies the folder of a plugin, so that nobody
gets the rest of the repository. A manifest of Codex in ``.agents`` or at the repository's root
would make Codex rename the repository's own skills to ``<plugin>:<skill>`` in every session there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaffold.skills.blocks.settings import Plugin, Settings

CLAUDE_PLUGIN = ".claude/.claude-plugin/plugin.json"
CLAUDE_MARKETPLACE = ".claude-plugin/marketplace.json"
CODEX_PLUGIN = ".claude/.codex-plugin/plugin.json"
CODEX_MARKETPLACE = ".agents/plugins/marketplace.json"
OPENCODE = "opencode.json"

OPENCODE_SCHEMA = "https://opencode.ai/config.json"


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
