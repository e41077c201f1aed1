"""What a document's references are resolved against: the repository, seen from the document."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

from scaffold.analysis.files.files import parents
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.skills.check.intent import intent
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.placeholders import ELISION, is_placeholder

_ALIAS = lazy_re(r"^\s*(?:>>> )?import (?P<name>[\w.]+) as (?P<alias>\w+)\s*$", re.MULTILINE)
_MOST_PAGES = 40
_FILE = lazy_re(r"(?:[\w.@<>{}-]+/)*[\w@-]+\.\w+")
# The name of a file in the first line of what it holds: `# src/new.py`.
_SHOWN = lazy_re(r"\s*(?:#|//|<!--)\s*(?:file:\s*)?(?P<path>[\w./-]+\.\w+)\s*(?:-->)?\s*(?:\n|$)")


@lru_cache(maxsize=4)
def _aliases(repository: Repository) -> dict[str, str]:
    files = repository.files
    pages = [
        path for path in files.sorted_paths if path.lower().endswith(("readme.md", "readme.rst"))
    ]
    examples = [path for path in files.python if path.startswith(("examples/", "docs/"))]
    found: dict[str, set[str]] = {}
    for path in [*sorted(pages, key=len)[:_MOST_PAGES], *examples[:_MOST_PAGES]]:
        for each in _ALIAS.finditer(files.text(path) or ""):
            found.setdefault(each["alias"], set()).add(each["name"])
    return {
        alias: min(names)
        for alias, names in found.items()
        if len(names) == 1 and repository.python.find(min(names)).exists
    }


class Scope:
    """A document in its repository.

    Args:
        document: The document.
        repository: The repository.
    """

    def __init__(self, document: Document, repository: Repository) -> None:
        self.document = document
        self.repository = repository
        self.files = repository.files

    @cached_property
    def bases(self) -> tuple[str, ...]:
        """The folders that its paths may start from: its own, the packages around it, the root."""
        own = self.document.path.rpartition("/")[0]
        return tuple(dict.fromkeys([self.document.folder, *self.repository.bases(own)]))

    @cached_property
    def wider_bases(self) -> tuple[str, ...]:
        """The bases, with every folder above the document and the folders that imports start at."""
        above = parents(self.document.path)
        roots = [each for each in self.repository.python.roots if each and each.count("/") < 3]
        return tuple(dict.fromkeys([*self.bases, *above, *roots]))

    @cached_property
    def aliases(self) -> dict[str, str]:
        """The short names that the repository's own pages and examples import its packages by."""
        return _aliases(self.repository)

    def makes(self, path: str) -> bool:
        """Return whether the text has its reader make a file, which it names freely then."""
        return path.rpartition("/")[2].partition(".")[0] in self._made

    @cached_property
    def _made(self) -> frozenset[str]:
        """The stems of the files that the text makes and that are not there."""
        names: set[str] = set()
        for span in self.document.markdown.codes:
            is_there = span.text.rpartition("/")[2] in self.files.by_name
            if not is_there and _FILE.fullmatch(span.text):
                reference = Reference("path", span.text, span.line, span=span)
                if intent(reference).wide in ("makes", "template"):
                    names.add(span.text)
        for fence in self.document.markdown.fences:
            if shown := _SHOWN.match(fence.text):
                names.add(shown["path"])
        return frozenset(each.rpartition("/")[2].partition(".")[0] for each in names)

    @cached_property
    def listed_beside(self) -> dict[tuple[tuple[str, ...], ...], set[str]]:
        """The files beside the document that each of its lists and paragraphs names."""
        own = self.document.path.rpartition("/")[0]
        found: dict[tuple[tuple[str, ...], ...], set[str]] = {}
        for span in self.document.markdown.codes:
            is_plain = "/" not in span.text and span.text != "SKILL.md"
            if is_plain and f"{own}/{span.text}" in self.files.paths:
                found.setdefault((span.block.headings, span.block.intros), set()).add(span.text)
        return found

    def from_bases(self, path: str, bases: tuple[str, ...]) -> Iterator[str]:
        """Yield what a path means from each base, inside of the repository."""
        for base in bases:
            whole = os.path.normpath(f"{base}/{path}" if base else path).replace(os.sep, "/")
            if not whole.startswith("..") and whole != ".":
                yield self.files.followed(whole)

    def locate(self, path: str) -> str | None:
        """Return the file or folder that a path means, or None.

        Texts leave out folders that are plain from where they are, and ``.py`` of a module.
        """
        clean = path.removeprefix("./").strip("/")
        if not clean or clean == ".":
            return ""
        if ELISION.search(clean):
            return self._elided(clean)
        for bases in (self.bases, self.wider_bases[len(self.bases) :]):
            for whole in self.from_bases(clean, bases):
                if self.files.has(whole):
                    return whole
                if self.files.has(f"{whole}.py"):
                    return f"{whole}.py"
        return next(iter(self.ending_in(clean)), None)

    def _elided(self, path: str) -> str | None:
        """Return the one file that a path fits which leaves folders out: `pkg/.../a.py`."""
        head, tail = ELISION.split(path, maxsplit=1)
        found = [each for each in self.ending_in(tail) if f"/{head}/" in f"/{each}"]
        return found[0] if len(found) == 1 and not is_placeholder(tail) else None

    def only(self, path: str) -> str:
        """Return the file that a path means, or nothing where it may be one of several."""
        clean, place = path.removeprefix("./"), self.locate(path)
        sure = {clean, f"{self.document.path.rpartition('/')[0]}/{clean}"}
        is_one = place in sure or len(self.ending_in(clean)) < 2
        return place if place is not None and place in self.files.paths and is_one else ""

    def ending_in(self, path: str) -> list[str]:
        """Return the files and folders whose path ends in these parts."""
        name = path.rpartition("/")[2]
        files, folders = self.files.by_name.get(name, ()), self.files.folders_by_name.get(name, ())
        return [each for each in (*files, *folders) if each == path or each.endswith(f"/{path}")]

    def text(self, path: str) -> str | None:
        """Return the text of a file for the question at hand."""
        return self.files.look_into(path) if path in self.files.paths else None
