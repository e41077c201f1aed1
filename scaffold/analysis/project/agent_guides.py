"""The names by which a repository's skills, subagents and commands are called."""

from __future__ import annotations

import re

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re

# `.claude/agents/data/loader.md`, `.github/agents/review.agent.md`, `.codex/prompts/fix.toml`.
_CALLED_BY = lazy_re(r"(?:^|/)(?:agents?|commands?|prompts)/(?:[^/]+/)*([^/]+)\.(?:md|toml)$")
_CALLED = lazy_re(r"^name:\s*[\"']?([\w:-]+)[\"']?\s*$", re.MULTILINE)


def guide_names(files: Files) -> frozenset[str]:
    """Return the names of all skills, subagents and slash commands.

    They are called by their folder or file, and by the name in their front matter.
    """
    skills = {
        path: path.split("/")[-2] for path in files.by_name.get("SKILL.md", ()) if "/" in path
    }
    found = {path: place[1] for path in files.paths if (place := _CALLED_BY.search(path))} | skills
    names = {each.removesuffix(".agent") for each in found.values()}
    for path in found:
        # The front matter alone: a `name:` further down is text.
        head = (files.text(path) or "")[:2000] if path.endswith(".md") else ""
        called = _CALLED.search(head) if head.startswith("---") else None
        names |= {called[1]} if called else set()
    return frozenset(names)
