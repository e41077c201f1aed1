"""The names by which a repository's skills, subagents and commands are called."""

from __future__ import annotations

import re

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re

# `.claude/agents/data/loader.md`, `.github/agents/review.agent.md`, `.codex/prompts/fix.toml`.
_AGENT = lazy_re(r"(?:^|/)agents?/(?:[^/]+/)*([^/]+)\.(?:md|toml)$")
_COMMAND = lazy_re(r"(?:^|/)(?:commands?|prompts)/(?:[^/]+/)*([^/]+)\.(?:md|toml)$")
_CALLED = lazy_re(r"^name:\s*[\"']?([\w:-]+)[\"']?\s*$", re.MULTILINE)


def skill_names(files: Files) -> frozenset[str]:
    """Return the names of all skills: of their folders, and in their front matter."""
    found: set[str] = set()
    for path in files.by_name.get("SKILL.md", ()):
        found.add(path.rpartition("/")[0].rpartition("/")[2])
        found |= _called(files, path)
    return frozenset(found - {""})


def agent_names(files: Files) -> frozenset[str]:
    """Return the names of all subagents."""
    return _named_files(files, _AGENT)


def command_names(files: Files) -> frozenset[str]:
    """Return the names of all slash commands."""
    return _named_files(files, _COMMAND)


def _named_files(files: Files, pattern: re.Pattern[str]) -> frozenset[str]:
    found: set[str] = set()
    for path in files.paths:
        if place := pattern.search(path):
            found.add(place[1].removesuffix(".agent"))
            if path.endswith(".md"):
                found |= _called(files, path)
    return frozenset(found)


def _called(files: Files, path: str) -> set[str]:
    # The front matter alone: a `name:` further down is text.
    head = (files.text(path) or "")[:2000]
    called = _CALLED.search(head) if head.startswith("---") else None
    return {called[1]} if called else set()
