"""How often `scaffold commit-msg` gives a type, and how often it is the one that the author chose.

Each commit of a history is drafted from those before it alone, as the command would have done on
that day. A type is given only where something proves it, so the share that is right matters more
than the share that is given.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.results import Result
from benchmarks.settings import Settings
from scaffold.vcs.changes import FileChange
from scaffold.vcs.commit.command import Past, find_type, past_commits
from scaffold.vcs.commit.conventional import DEFAULT_RULES

ROOT = Path(__file__).parents[1]
ENOUGH = 20


def run(settings: Settings) -> list[Result]:
    """Draft each commit of a repository; without --repo, of this one."""
    commits = list(past_commits(settings.repo or ROOT, limit=settings.commits))
    typed = [(n, each, each.header.type) for n, each in enumerate(commits) if each.header]
    if len(typed) <= ENOUGH:
        what = "share of the given types that are the author's"
        return [Result("commits.type", what, None, "", note="too few Conventional Commits")]
    given = right = 0
    for number, each, chosen in typed:
        # The newest comes first, so what follows is what was there on that day.
        word = find_type(_changes(each), commits[number + 1 :], (), DEFAULT_RULES).word
        given += word is not None
        right += word == chosen
    return [
        Result(
            "commits.type",
            f"share of the {given} given types that are the author's",
            right / given if given else None,
            "",
            note=f"given for {given} of {len(typed)} commits",
        )
    ]


def _changes(past: Past) -> list[FileChange]:
    zeros = "0" * 40
    return [FileChange("M", path, path, "100644", "100644", zeros, zeros) for path in past.paths]
