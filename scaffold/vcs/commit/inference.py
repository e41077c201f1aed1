"""Type and scope of a change: from the path table, else from habits, else from the folders."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from scaffold.analysis.files.globs import matches
from scaffold.vcs.changes import FileChange
from scaffold.vcs.commit.habits import Choice, Habits
from scaffold.vcs.commit.history import Past
from scaffold.vcs.commit.key_changes import KeyChanges
from scaffold.vcs.commit.settings import CommitSettings
from scaffold.vcs.commit.traits import describe, place_traits, shape_traits
from scaffold.vcs.roles import role_of

Source = Literal["table", "history", "structure", "layout", "none"]

ENOUGH = 20
"""Conventional commits from which habits are worth more than general rules."""

# What habits count for a subject without a scope; no scope is spelled so.
NO_SCOPE = "-"
MAX_SCOPE = 40
"""A longer name of a folder leaves a subject no room."""
# Signs that a scope does not have; a run of them becomes one dash.
_NO_SCOPE_SIGNS = re.compile(r"[^\w.+-]+")
_CAUTION_TYPE, _CAUTION_SCOPE = 3.0, 1.0

# Folders whose names do not describe what is in them; `en` is that of pages in English.
_CONTAINERS = frozenset(
    {"src", "lib", "libs", "packages", "package", "crates", "apps", "modules", "internal", "cmd"}
    | {"pkg", "plugins", "services", "components", "python", "java", "main", "source", "sources"}
    | {"test", "tests", "unit", "integration", "docs", "doc", "en"}
)


class Guess(NamedTuple):
    """A word that was inferred."""

    word: str | None
    """None means no scope."""
    source: Source
    share: float
    """How sure it is, between 0 and 1; of a table or rule, the part of the files it is true of."""
    evidence: tuple[str, ...]


@dataclass
class SubjectHabits:
    """The habits of a repository's earlier subjects, of types and of scopes.

    Args:
        types: Which changes went with which type.
        scopes: Which changes went with which scope.
        recent: What each of the newest commits changed, to recognise a change that is reverted.
    """

    types: Habits = field(default_factory=lambda: Habits(_CAUTION_TYPE))
    scopes: Habits = field(default_factory=lambda: Habits(_CAUTION_SCOPE))
    recent: dict[frozenset[tuple[str, str, str]], str] = field(
        default_factory=dict[frozenset[tuple[str, str, str]], str]
    )

    def learn(self, past: Past, times: int = 1) -> None:
        """Count a commit; with -1 times forget it again."""
        if times > 0:
            self.recent[_blobs(past.changes)] = f"{past.name[:9]} {past.subject}"
        header = past.header
        if header is not None:
            self.types.learn(header.type, shape_traits(past.changes), times)
            self.scopes.learn(header.scope or NO_SCOPE, place_traits(past.changes), times)


def learn_habits(past: Iterable[Past]) -> SubjectHabits:
    """Return what commits teach."""
    habits = SubjectHabits()
    for each in past:
        habits.learn(each)
    return habits


def infer_type(
    changes: Sequence[FileChange], key: KeyChanges, habits: SubjectHabits, settings: CommitSettings
) -> Guess:
    """Return the type that a change most likely has."""
    table = _from_table(changes, settings, "type")
    if table is not None:
        return table
    taken_back = habits.recent.get(_blobs(changes, is_reverse=True))
    if taken_back is not None:
        return Guess("revert", "structure", 1.0, (f"it takes back {taken_back}",))
    word, reason, is_certain = _by_structure(changes, key)
    allowed = settings.rules.types
    is_known = habits.types.count >= ENOUGH
    # A repository that never wrote the type has another custom for such changes.
    if word not in allowed or (is_known and word not in habits.types.words):
        is_certain = False
    if is_certain or not is_known:
        word = word if word in allowed else allowed[0]
        return Guess(word, "structure", 0.9 if is_certain else 0.4, (reason,))
    choice = habits.types.choose(shape_traits(changes))
    # A word that the settings have taken out since.
    if choice.word not in allowed:
        return Guess(word if word in allowed else allowed[0], "structure", 0.4, (reason,))
    lines = _told(choice)
    return Guess(
        choice.word, "history", choice.share, (reason, *lines) if choice.word == word else lines
    )


def infer_scope(
    changes: Sequence[FileChange], habits: SubjectHabits, settings: CommitSettings
) -> Guess:
    """Return the scope that a change most likely has; its word is None for no scope."""
    table = _from_table(changes, settings, "scope")
    if table is not None:
        return table
    allowed = settings.rules.scopes
    is_known = habits.scopes.count >= ENOUGH
    uses_scopes = not is_known or habits.scopes.words != (NO_SCOPE,)
    layout = _from_layout(changes, allowed)
    if not uses_scopes:
        return Guess(None, "history", 1.0, ("no earlier subject has a scope",))
    if not is_known:
        return layout
    # From here on the history decides, as far as it has seen the place.
    traits = place_traits(changes)
    # For a place without history the folder's name is a better guess than its neighbours' scopes.
    if layout.word is not None and not any(map(habits.scopes.knows, _own_places(changes))):
        return layout
    choice = habits.scopes.choose(traits)
    word = None if choice.word == NO_SCOPE else choice.word
    if word is not None and allowed and word not in allowed:
        return layout
    return Guess(word, "history", choice.share, _told(choice))


def _from_table(
    changes: Sequence[FileChange], settings: CommitSettings, which: Literal["type", "scope"]
) -> Guess | None:
    """Return the word that the path table gives most of the files, if it is more than half."""
    found: Counter[tuple[str, str]] = Counter()
    for change in changes:
        rows = [row for row in settings.paths if matches(change.path, [row.pattern])]
        words = [(row, word) for row in rows if (word := getattr(row, which)) is not None]
        if words:
            # The last row that matches counts, as in a .gitignore.
            row, word = words[-1]
            found[word, row.pattern] += 1
    totals: Counter[str] = Counter()
    for (word, _), count in found.items():
        totals[word] += count
    # Files that no row matches count against the word.
    if not totals or totals.most_common(1)[0][1] * 2 <= len(changes):
        return None
    word, count = totals.most_common(1)[0]
    patterns = sorted({pattern for each, pattern in found if each == word})
    line = (
        f"{count} of {len(changes)} files: {', '.join(patterns)} in [tool.scaffold.commits.paths]"
    )
    return Guess(word, "table", count / len(changes), (line,))


def _by_structure(changes: Sequence[FileChange], key: KeyChanges) -> tuple[str, str, bool]:
    """Return a type by general rules, the reason, and whether there is hardly a doubt."""
    roles = {role_of(change.path) for change in changes}
    for role, word in (("docs", "docs"), ("test", "test"), ("ci", "ci"), ("bench", "test")):
        if roles == {role}:
            return word, f"only files of one role: {role}", False
    if all(change.status == "R" and change.similarity == 100 for change in changes):
        return "refactor", "files only move", True
    # A pure change of mode has no hunks.
    if not any(c.hunks or c.is_binary or c.is_submodule or c.status != "M" for c in changes):
        return "chore", "no content differs: only what may run does", True
    if key.depth == "layout":
        return "style", "only layout and comments differ", True
    if key.depth == "docstrings":
        return "docs", "only docstrings and comments differ", False
    if roles <= {"build", "ci", "tooling", "docs"} and "build" in roles:
        word = "chore" if roles & {"tooling"} else "build"
        return word, "only manifests, builds and tooling", False
    actions = Counter(each.action for each in key.symbols)
    if actions["added"]:
        names = ", ".join(e.name for e in key.symbols if e.action == "added")
        return "feat", f"public definitions are new: {_cut(names)}", False
    if actions["moved"] and not actions["removed"]:
        return "refactor", "public definitions only move", False
    if all(change.is_submodule or change.path == ".gitmodules" for change in changes):
        return "build", "only submodules come, go or are at another commit", False
    if any(change.status == "A" and role_of(change.path) == "source" for change in changes):
        return "feat", "a source is new", False
    return "fix", "sources change, and no public definition is new", False


def _from_layout(changes: Sequence[FileChange], allowed: tuple[str, ...]) -> Guess:
    """Return the folder below which all files of the leading role lie, as a scope."""
    # Tests and pages go along with a change of sources, whose folder names it.
    sources = [c for c in changes if role_of(c.path) == "source"] or list(changes)
    words = [_place(change.path) for change in sources]
    counts = Counter(word for word in words if word)
    if not counts:
        return Guess(None, "none", 0.0, ("the files lie in no folder of their own",))
    word, count = counts.most_common(1)[0]
    if count * 2 <= len(sources) or (allowed and word not in allowed):
        return Guess(None, "none", 0.0, ("the files lie in several folders",))
    line = f"{count} of {len(sources)} files lie in a folder {word!r}"
    return Guess(word, "layout", count / len(sources), (line,))


def _place(path: str) -> str | None:
    """Return the first folder of a path that is more than a container of others."""
    folders = [each for each in path.lower().split("/")[:-1] if each not in _CONTAINERS]
    return _as_scope(folders[0]) if folders else None


def _as_scope(folder: str) -> str | None:
    """Return a folder's name as a scope, in the signs that one may have; None for one too long."""
    word = _NO_SCOPE_SIGNS.sub("-", folder.lstrip("._-@")).strip("-")
    return word if word and len(word) <= MAX_SCOPE else None


def _own_places(changes: Sequence[FileChange]) -> set[str]:
    """Return the traits of the files and their own folders, which make a place known."""
    found: set[str] = set()
    for change in changes:
        folder = change.path.rpartition("/")[0]
        found |= {f"file {change.path}", f"in {folder}/"}
    return found


def _told(choice: Choice) -> tuple[str, ...]:
    return tuple(
        f"{vote.agreeing} of {vote.seen} earlier commits with: {describe(vote.trait)}"
        for vote in choice.votes[:4]
    )


def _blobs(
    changes: Sequence[FileChange], *, is_reverse: bool = False
) -> frozenset[tuple[str, str, str]]:
    """Return what changed into what; reversed, what would take that back."""
    rows: set[tuple[str, str, str]] = set()
    for change in changes:
        old, new = (change.old_path or "", change.old_id), (change.new_path or "", change.new_id)
        first, last = (new, old) if is_reverse else (old, new)
        # Paths and contents on both sides, as ids of git; equal rows are the same change.
        rows.add((f"{first[0]}\0{last[0]}", first[1], last[1]))
    return frozenset(rows)


def _cut(text: str, width: int = 80) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
