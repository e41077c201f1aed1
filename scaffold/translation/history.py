"""The sections of a page as they were when they were translated, from git's history."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.git import git_output
from scaffold.translation.page import Page, Section, is_beyond_latin
from scaffold.translation.pairing import Origin
from scaffold.translation.reading import read_page

# `<commit> <line then> <line now> [<lines>]`, above what git knows of the commit.
_BLAMED = re.compile(r"(?P<commit>[0-9a-f]{40,64}) \d+ (?P<line>\d+)(?: \d+)?\Z")

# Fences with all that is in them, code among words, addresses, numbers.
_NO_WORDS = re.compile(
    r"(?ms:^[ >]*(?:```|~~~).*?^[ >]*(?:```|~~~))|`[^`\n]+`|\w+://[^\s)\"'>]+|\d+(?:\.\d+)*"
)

MOSTLY_SAME = 0.95
"""The share of words from which on a change of a section is one of its wording."""

MAX_REVISIONS = 300
"""So many states of a page are looked at; a translation older than that is restarted."""


def old_sections(files: Files, path: str, hashes: frozenset[str]) -> dict[str, str]:
    """Return the text of the sections that had these hashes, as far as git has them."""
    found: dict[str, str] = {}
    if not (hashes and files.has_git):
        return found
    for text in _states(files, path):
        page = read_page(path, text)
        for section in page.sections:
            if section.hash in hashes:
                found.setdefault(section.hash, page.text(section))
        # Each state costs a process and a parse.
        if len(found) == len(hashes):
            break
    return found


def _states(files: Files, path: str) -> Iterator[str]:
    """Yield the states of a file, the newest first; renames are followed."""
    for commit, name in _revisions(files, path, f"--max-count={MAX_REVISIONS}"):
        text = _text_at(files, commit, name)
        if text is not None:
            yield text


def _revisions(files: Files, path: str, *options: str) -> Iterator[tuple[str, str]]:
    """Yield each commit that changed a file, the newest first, with the file's name in it."""
    # %x01 separates the entries: git quotes control characters in the names of files.
    argv = ("log", "--follow", "--topo-order", "--format=%x01%H", "--name-only", *options)
    listed = git_output(files.root, *argv, "--", path) or b""
    for entry in listed.decode("utf-8", "surrogateescape").split("\x01")[1:]:
        commit, *names = [row for row in entry.split("\n") if row]
        if names:
            yield commit, names[0]


def _text_at(files: Files, commit: str, path: str) -> str | None:
    data = git_output(files.root, "cat-file", "blob", f"{commit}:{path}")
    return None if data is None else data.decode("utf-8-sig", "replace")


def find_origins(
    files: Files, page: str, translation: str, sections: Iterable[tuple[Section, Section]]
) -> dict[int, Origin]:
    """Return which states of a page the sections of its translation were made of, by history.

    A section and its translation were last in step when the later of the two was written: at the
    commit that last changed a line of the translation, or, where the page had no such section
    then, at the first one in which it has, in its own language. A commit that changes spelling
    alone counts too, so this is a presumption and no proof.

    Args:
        files: The repository's files.
        page: The page.
        translation: Its translation.
        sections: Sections of the page with those that translate them.

    Returns:
        The state for the line of the translated section; none for what is not committed.
    """
    wanted = list(sections)
    if not (wanted and files.has_git):
        return {}
    commits = _commits_of_lines(files, translation)
    listed = git_output(files.root, "rev-list", "--topo-order", "HEAD") or b""
    # Seconds are too coarse for an order: commits of one rebase have the same.
    ages = {name: at for at, name in enumerate(listed.decode().split())}
    states = _PageStates(files, page, ages)
    found: dict[int, Origin] = {}
    written: dict[int, int] = {}
    for source, other in wanted:
        lines = {commits[at] for at in range(other.line, other.end) if at in commits}
        if lines and lines <= ages.keys():
            age = min(ages[each] for each in lines)
            origin = states.first_with(source.key, age)
            if origin is not None:
                found[other.line], written[other.line] = origin, age
    behind = [pair for pair in wanted if pair[1].line in found]
    behind = [pair for pair in behind if found[pair[1].line].hash != pair[0].hash]
    if behind:
        visits = [ages[each] for each, _ in _revisions(files, translation) if each in ages]
        keys = {other.line: source.key for source, other in wanted}
        passes = list(_passes(states, keys, written, sorted(visits)))
        for source, other in behind:
            seen = states.seen_in(source, found[other.line], passes, written[other.line])
            found[other.line] = seen or found[other.line]
    return found


def _passes(
    states: _PageStates, keys: Mapping[int, str], written: Mapping[int, int], visits: Sequence[int]
) -> Iterator[int]:
    """Yield the ages of the commits that brought a translation in step with its page.

    Who follows one change of a page has seen the page: where it was in need of words only, its
    other sections needed none in the other language. A commit that changes a section whose source
    had not changed is about the translation alone, and no such pass.
    """
    for age, before in pairwise([*visits, 2**31]):
        for line, when in written.items():
            now, then = (states.first_with(keys[line], each) for each in (age, before))
            if when == age and now and then and now.hash != then.hash:
                yield age
                break


class _PageStates:
    """The states of a page, each read when it is asked for."""

    def __init__(self, files: Files, page: str, ages: Mapping[str, int]) -> None:
        self._files = files
        self._ages = ages
        self._revisions = [each for each in _revisions(files, page) if each[0] in ages]
        self._pages: dict[str, Page] = {}

    def seen_in(
        self, source: Section, origin: Origin, passes: Sequence[int], written: int
    ) -> Origin | None:
        """Return the state that a later pass over the translation saw, and left as it was."""
        for age in passes:
            seen = self.first_with(source.key, age) if age < written else None
            if (
                seen is not None
                and seen.hash == source.hash
                and self._differ_in_words(origin, seen)
            ):
                return seen
        return None

    def _differ_in_words(self, one: Origin, two: Origin) -> bool:
        """Return whether two states of a section share code, links and most of their words."""
        texts: list[str] = []
        for each in (one, two):
            page = self._pages[each.commit]
            section = next(row for row in page.sections if row.hash == each.hash)
            texts.append(page.text(section))
        kept = [_NO_WORDS.findall(text) for text in texts]
        words = [text.split() for text in texts]
        ratio = SequenceMatcher(None, *words, autojunk=False).ratio()
        return kept[0] == kept[1] and ratio >= MOSTLY_SAME

    def first_with(self, key: str, age: int) -> Origin | None:
        """Return the state of a section at an age, or else the first one after it."""
        newer = [each for each in self._revisions if self._ages[each[0]] < age]
        at_it = [each for each in self._revisions if self._ages[each[0]] >= age]
        for commit, name in (*at_it[:1], *reversed(newer)):
            if commit not in self._pages:
                text = _text_at(self._files, commit, name) or ""
                self._pages[commit] = read_page(name, text)
            section = self._pages[commit].find(key)
            # A page that was translated from its translation began as a copy of it.
            if section is not None and not is_beyond_latin(section):
                return Origin(commit, section.hash)
        return None


def _commits_of_lines(files: Files, path: str) -> dict[int, str]:
    """Return the commit of each line of a file."""
    blamed = git_output(files.root, "blame", "--porcelain", "--no-textconv", "--", path) or b""
    rows = blamed.decode("utf-8", "replace").split("\n")
    heads = [found for row in rows if (found := _BLAMED.match(row))]
    # A line that is not committed has a name of zeros, which no list of commits has.
    return {int(each["line"]): each["commit"] for each in heads}
