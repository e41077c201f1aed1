"""The sections of a page as they were when they were translated, from git's history."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.git import git_output
from scaffold.translation.page import Page, Section, is_beyond_latin
from scaffold.translation.pairing import Origin
from scaffold.translation.reading import read_page

# Fences with all that is in them, code among words, addresses, numbers.
_NO_WORDS = re.compile(
    r"(?ms:^[ >]*(?:```|~~~).*?^[ >]*(?:```|~~~))|`[^`\n]+`|\w+://[^\s)\"'>]+|\d+(?:\.\d+)*"
)
_WORD = re.compile(r"[^\W_]+")

MOSTLY_SAME = 0.95
"""The share of words from which on a change of a section is one of its wording."""

MAX_REVISIONS = 300
"""So many states of a page are looked at; a translation older than that is restarted."""


def differ_in_words(one: str, two: str) -> bool:
    """Return whether two states of a section share code, links and most of their words."""
    kept = [_NO_WORDS.findall(text) for text in (one, two)]
    words = [_WORD.findall(text) for text in (one, two)]
    ratio = SequenceMatcher(None, *words, autojunk=False).ratio()
    return kept[0] == kept[1] and ratio >= MOSTLY_SAME


class _Revision(NamedTuple):
    """A commit that changed a file.

    Args:
        age: How many commits are newer, in topological order.
        renamed_from: Its path before, where the commit renamed it; or "".
    """

    age: int
    commit: str
    path: str
    renamed_from: str


class History:
    """The committed states of pages, each read when it is asked for."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._pages: dict[tuple[str, str], Page] = {}

    def knows(self, path: str) -> bool:
        """Return whether a commit has a file of this name."""
        return path in self._log

    def old_sections(self, path: str, hashes: frozenset[str]) -> dict[str, str]:
        """Return the text of the sections that had these hashes, as far as git has them."""
        found: dict[str, str] = {}
        for revision in islice(self._revisions(path) if hashes else (), MAX_REVISIONS):
            page = self._at(revision)
            for section in page.sections:
                if section.hash in hashes:
                    found.setdefault(section.hash, page.text(section))
            # Each state costs a process and a parse.
            if len(found) == len(hashes):
                break
        return found

    def find_origin(
        self, page: str, translation: str, source: Section, other: Section
    ) -> Origin | None:
        """Return which state of a page a section of its translation was made of.

        A section and its translation were last in step when the later of the two was written: at
        the commit that last changed the translation, or, where the page had no such section then,
        at the first one in which it has, in its own language. A commit that changes spelling alone
        counts too, so this is a presumption and no proof.

        Args:
            source: The section of the page.
            other: The one that translates it; of what is not committed the state is None.
        """
        age = self._written(translation, other)
        return None if age is None else self._first_with(page, source.key, age)

    def _written(self, path: str, section: Section) -> int | None:
        """Return the age of the commit that last changed a section, deletions in it included."""
        found: int | None = None
        for revision in self._revisions(path):
            if all(each.hash != section.hash for each in self._at(revision).sections):
                break
            found = revision.age
        return found

    def _first_with(self, path: str, key: str, age: int) -> Origin | None:
        """Return the state of a section at an age, or else the first one after it."""
        revisions = list(self._revisions(path))
        newer = [each for each in revisions if each.age < age]
        for revision in (*revisions[len(newer) :][:1], *reversed(newer)):
            page = self._at(revision)
            section = page.find(key)
            # A page that was translated from its translation began as a copy of it.
            if section is not None and not is_beyond_latin(section):
                return Origin(revision.commit, section.hash, page.text(section))
        return None

    def _at(self, revision: _Revision) -> Page:
        key = revision.commit, revision.path
        if key not in self._pages:
            # Names of git's log are from this folder, as `./` makes those of objects.
            name = f"{revision.commit}:./{revision.path}"
            data = git_output(self._files.root, "cat-file", "blob", name) or b""
            self._pages[key] = read_page(revision.path, data.decode("utf-8-sig", "replace"))
        return self._pages[key]

    def _revisions(self, path: str) -> Iterator[_Revision]:
        """Yield each commit that changed a file, the newest first; renames are followed."""
        age = -1
        while path:
            name, path = path, ""
            for each in self._log.get(name, ()):
                if each.age > age:
                    yield each
                    age, path = each.age, each.renamed_from
                if path:
                    break

    @cached_property
    def _log(self) -> dict[str, list[_Revision]]:
        """The commits that changed each file, the newest first: one run of git for all files."""
        found: dict[str, list[_Revision]] = {}
        # Seconds are too coarse for an order: commits of one rebase have the same.
        argv = ("log", "--topo-order", "--relative", "-M", "--name-status", "--format=%x01%H")
        listed = git_output(self._files.root, *argv) if self._files.has_git else None
        entries = (listed or b"").decode("utf-8", "surrogateescape").split("\x01")[1:]
        for age, entry in enumerate(entries):
            commit, *rows = entry.split("\n")
            for row in rows:
                # `M<tab>path`, `R097<tab>before<tab>after`; git quotes control characters.
                status, *names = row.split("\t")
                if names and not status.startswith("D"):
                    before = names[0] if status.startswith("R") else ""
                    found.setdefault(names[-1], []).append(
                        _Revision(age, commit, names[-1], before)
                    )
        return found
