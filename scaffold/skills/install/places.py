"""Where skills are installed: a repository or a home, and the folders of the clients in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from scaffold.errors import ConflictError, ScaffoldError, TargetError

AGENTS = ".agents/skills"
CLAUDE = ".claude/skills"

CLIENTS: dict[str, str] = {"claude": CLAUDE, "codex": AGENTS, "opencode": AGENTS}
"""Where each client looks for skills, in a repository and in a home alike."""

ROOTS = (AGENTS, CLAUDE)
"""Every folder that skills are installed to."""

AGENT_CLIENTS: dict[str, str] = {
    "claude": ".claude/agents",
    "codex": ".codex/agents",
    "opencode": ".opencode/agents",
}
"""Where each client looks for subagents in a repository."""

AGENT_ROOTS: dict[str, str] = {
    ".claude/agents": ".md",
    ".codex/agents": ".toml",
    ".opencode/agents": ".md",
    ".config/opencode/agents": ".md",
}
"""Every folder that subagents are installed to, with the ending of their files."""

# OpenCode looks in another folder of a home than of a repository.
_AT_HOME = {"opencode": ".config/opencode/agents"}

# Where another skill or command of the same name may be, of which a client would take one.
_NAMED_FOLDERS = (*ROOTS, ".codex/skills", ".opencode/skills", ".opencode/skill")
_NAMED_FILES = (".claude/commands", ".opencode/commands", ".opencode/command")


def find_target(here: Path, target: str | None, *, user: bool) -> Path:
    """Return the folder that skills are installed to, resolved.

    Args:
        target: A folder that was named, or None for the nearest repository upwards.

    Raises:
        TargetError: There is no such folder.
    """
    if user:
        return _home()
    if target is not None:
        folder = (here / target).resolve()
        if not folder.is_dir():
            raise TargetError(
                f"there is no folder {folder}", code="target_missing", hint="make it first"
            )
        return folder
    for folder in (here, *here.parents):
        # exists() and not is_dir(): in worktrees and submodules .git is a file.
        if (folder / ".git").exists() or any((folder / root).is_dir() for root in ROOTS):
            return folder.resolve()
    raise TargetError(
        f"{here} is not in a repository",
        code="target_missing",
        hint="name a folder with --target DIR, or install for yourself with --user",
    )


def roots_for(clients: Iterable[str]) -> tuple[str, ...]:
    """Return the folders that clients read; for no client those that serve all of them."""
    wanted = {CLIENTS[client] for client in clients} or set(ROOTS)
    return tuple(root for root in ROOTS if root in wanted)


def agent_roots_for(clients: Iterable[str], *, user: bool) -> tuple[str, ...]:
    """Return the folders that clients read subagents from; for no client those of all."""
    folders = AGENT_CLIENTS | (_AT_HOME if user else {})
    return tuple(folders[client] for client in folders if client in (tuple(clients) or folders))


def distinct(target: Path, roots: Iterable[str]) -> tuple[str, ...]:
    """Return folders without those that are another one under a second name, by a link."""
    found: dict[str, str] = {}
    for root in roots:
        # Two roots that are one folder would have every file written, and removed, twice.
        found.setdefault(os.path.realpath(target / root), root)
    return tuple(found.values())


def check_free(target: Path, name: str, own: Iterable[str], source: str) -> None:
    """Refuse a name that a skill or command has already.

    Args:
        own: The folders in which the skill is installed by this tool already.

    Raises:
        ConflictError: Something has the name, perhaps in another spelling.
    """
    folders = {**dict.fromkeys(_NAMED_FOLDERS, name), **dict.fromkeys(_NAMED_FILES, f"{name}.md")}
    paths = [f"{root}/{each}" for root, each in folders.items() if root not in own]
    _refuse(target, paths, source, name)


def check_free_files(target: Path, paths: Iterable[str], source: str) -> None:
    """Refuse the name of a subagent whose files exist.

    Raises:
        ConflictError: One of the files exists, perhaps in another spelling.
    """
    _refuse(target, paths, source)


def _refuse(target: Path, paths: Iterable[str], source: str, skill: str = "") -> None:
    # Some file systems fold case, so names that differ by case alone collide.
    for folder, _, name in (path.rpartition("/") for path in paths):
        for each in _listed(target / folder):
            if each.lower() == name:
                what = f"a skill {skill!r}" if skill else "a subagent of that name"
                raise ConflictError(
                    f"{folder}/{each} exists already, and {source} has {what}",
                    code="skill_exists",
                    hint="install it under another name with --prefix WORD, or move that one away",
                )


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ScaffoldError(
            f"{folder} cannot be listed: {error.strerror}",
            code="source_unreadable",
            hint="give read permission",
        ) from error


def _home() -> Path:
    try:
        home = Path.home().resolve()
        if home.is_dir():
            return home
        reason = f"the home folder {home} does not exist"
    except (OSError, RuntimeError) as error:
        reason = f"no home folder is known: {error}"
    raise TargetError(reason, code="target_missing", hint="set HOME")
