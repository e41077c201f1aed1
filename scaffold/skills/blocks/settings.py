"""What a repository's pyproject.toml sets for its skills, under ``[tool.scaffold.skills]``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from scaffold.analysis.project.tool_table import (
    PROJECT_FILE,
    inner_table,
    read_project_file,
    read_tool_table,
    settings_errors,
)
from scaffold.config import FieldError, Fields
from scaffold.errors import ScaffoldError, TargetError, nearest

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files

CLIENTS = ("claude", "codex", "opencode")
"""The clients that skills and subagents can be rendered for."""

WHERE = "pyproject.toml [tool.scaffold.skills]"
KEYS = ("cli", "clients", "commands", "opencode", "plugin", "run")
"""What is read here; `scaffold skills check` reads keys of its own in the same table."""


@dataclass(frozen=True)
class Plugin:
    """What the manifests of plugins say of the pack.

    Args:
        description: What it is good for.
        author: Whose it is.
        marketplace: What the catalogue is called that offers it.
        extra: Further keys that all clients know: homepage, repository, license, keywords.
    """

    name: str
    version: str
    description: str
    author: str
    marketplace: str
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Settings:
    """What a repository sets for its skills.

    Args:
        is_there: Whether the repository sets anything.
        commands: Whether OpenCode gets a file for the slash command of each skill. Typed in full,
            the name of a skill is one without; its list of commands leaves skills out.
        run: Command lines, each of which allows all that begin with its words.
        cli: Descriptions of command lines, relative to the root.
        plugin: What to write manifests of; None for no manifests.
        opencode: The content of opencode.json; None for no such file.
    """

    is_there: bool = False
    clients: tuple[str, ...] = CLIENTS
    commands: bool = False
    run: tuple[tuple[str, ...], ...] = ()
    cli: tuple[str, ...] = ()
    plugin: Plugin | None = None
    opencode: Mapping[str, Any] | None = None

    def allows(self, command: tuple[str, ...]) -> bool:
        """Return whether a block may have this command run."""
        return any(command[: len(words)] == words for words in self.run if words)


def read_settings(files: Files) -> Settings:
    """Read a repository's settings; without a table they are those of any repository.

    Raises:
        TargetError: The file cannot be read, or the table is wrong.
        ScaffoldError: It names an unknown client.
    """
    text = files.text(PROJECT_FILE)
    if text is None:
        if PROJECT_FILE in files.paths:
            raise TargetError(
                f"{PROJECT_FILE} {files.why_unreadable(PROJECT_FILE)}",
                code="target_invalid",
                hint="repair it first: it lists what is to be rendered",
            )
        return Settings()
    table = read_tool_table(text, "skills", TargetError)
    with settings_errors("docs/en/skills-pack.md has every key", TargetError):
        return _settings(table, text)


def _settings(table: Fields, text: str) -> Settings:
    _check_spelling(table)
    named = table.texts("clients", ())
    has = table.names()
    return Settings(
        bool(has),
        _clients(named) if "clients" in has else CLIENTS,
        table.boolean("commands", False),
        tuple(_split(table, each) for each in table.texts("run", ())),
        table.texts("cli", ()),
        _plugin(table.fields("plugin"), text) if "plugin" in has else None,
        table.table("opencode") if "opencode" in has else None,
    )


def _split(table: Fields, command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise FieldError(f"{table.where}: run {command!r}: {error}") from error


def _check_spelling(table: Fields) -> None:
    """Raise FieldError for a key that is nearly one of ours; any other is somebody else's."""
    import difflib  # costs 3 ms, and most repositories say nothing

    for key in table.names():
        near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.75)
        if near and key not in KEYS:
            raise FieldError(f"{table.where}: unknown key {key!r}; did you mean {near[0]!r}?")


def _clients(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in CLIENTS:
            raise ScaffoldError(
                f"{WHERE} names the unknown client {name!r}{nearest(name, CLIENTS)}",
                code="client_unknown",
                hint="take it out",
            )
    return tuple(sorted(set(names)))


def _plugin(table: Fields, text: str) -> Plugin:
    """Read the plugin's table; what it leaves out is taken from ``[project]``."""
    project = inner_table(read_project_file(text), "project")
    name = table.text("name", "") or _text_of(project, "name")
    description = table.text("description", "") or _text_of(project, "description")
    author = table.text("author", "") or _author(project)
    plugin = Plugin(
        name,
        table.text("version", "") or _text_of(project, "version"),
        description,
        author or name,
        table.text("marketplace", "") or name,
        {
            key: found
            for key in ("homepage", "repository", "license", "keywords")
            # [project] may have `license = { file = "LICENSE" }`, where a manifest has a text.
            if (found := table.value(key, project.get(key))) and not isinstance(found, dict)
        },
    )
    table.done()
    missing = [key for key in ("name", "version", "description") if not getattr(plugin, key)]
    if missing:
        raise FieldError(f"{table.where}: {', '.join(missing)} is neither here nor in [project]")
    return plugin


def _author(project: Mapping[str, Any]) -> str:
    authors: Any = project.get("authors")
    first: Any = cast("list[Any]", authors)[0] if isinstance(authors, list) and authors else {}
    return _text_of(cast("dict[str, Any]", first), "name") if isinstance(first, dict) else ""


def _text_of(table: Mapping[str, Any], key: str) -> str:
    found = table.get(key)
    return found if isinstance(found, str) else ""
