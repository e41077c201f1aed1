"""The documents of a repository, each page read when it is first asked for."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from scaffold.analysis.files.files import Files, list_files
from scaffold.analysis.project.tool_table import read_tool_table
from scaffold.errors import RequestError, TargetError
from scaffold.translation.glossary import Glossary, read_glossary
from scaffold.translation.history import History, differ_in_words
from scaffold.translation.layout import Layout, Settings, find_layout, read_settings
from scaffold.translation.page import Page
from scaffold.translation.pairing import Pair, pair_sections
from scaffold.translation.reading import read_page


class Documents:
    """The pages of a repository and their translations."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.settings: Settings = read_settings(files)
        self.layout: Layout = find_layout(files, self.settings)
        self.history = History(files)
        self._pages: dict[str, Page] = {}
        self._pairs: dict[str, list[Pair]] = {}

    @classmethod
    def at(cls, start: Path) -> Documents:
        """Return the documents of the repository that a folder lies in."""
        return cls(list_files(find_root(start)))

    @cached_property
    def glossary(self) -> Glossary:
        return read_glossary(self.files, self.layout.glossary)

    def has(self, path: str) -> bool:
        return path in self.files.paths

    def page(self, path: str) -> Page:
        """Return a page that exists.

        Raises:
            RequestError: It cannot be read as text.
        """
        if path not in self._pages:
            self._pages[path] = read_page(path, self._text(path))
        return self._pages[path]

    def _text(self, path: str) -> str:
        text, data = self.files.text(path), self.files.data(path)
        why = "" if text is not None else self.files.why_unreadable(path)
        try:
            # Files.text replaces bad bytes, which would hide them from the comparison.
            (data or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            why = f"is not UTF-8: line {line} holds the byte 0x{error.object[error.start]:02x}"
        if text is None or why:
            raise RequestError(
                f"{path} {why}",
                code="source_unreadable",
                hint="fix the page, or leave it out under [tool.scaffold.docs] exclude",
            )
        return text

    def why_excluded(self, path: str) -> str:
        return self.settings.why_excluded(path)

    def wanted_pages(self) -> list[str]:
        return [path for path in self.layout.pages if not self.why_excluded(path)]

    def pairs(self, path: str) -> list[Pair]:
        """Return the sections of a page with those that translate them."""
        if path not in self._pairs:
            other = self.layout.pages[path]
            translations = self.page(other).sections if self.has(other) else ()
            excluded = self.settings.excluded_sections(path)
            pairs = pair_sections(self.page(path).sections, translations, excluded)
            self._pairs[path] = [self._dated(path, each) for each in pairs]
        return self._pairs[path]

    def _dated(self, path: str, pair: Pair) -> Pair:
        """Return a pair, one without a marker with the state that history gives it."""
        if pair.state != "unmarked" or pair.source is None or pair.translation is None:
            return pair
        other = self.layout.pages[path]
        origin = self.history.find_origin(path, other, pair.source, pair.translation)
        if origin is None:
            return pair
        now = self.page(path).text(pair.source)
        state = "reworded" if differ_in_words(origin.text, now) else "stale"
        is_current = origin.hash == pair.source.hash
        return pair._replace(state="current" if is_current else state, origin=origin)

    def resolve(self, given: str, start: Path) -> str:
        """Return the page of the source that a name means: its path, or its translation's.

        Args:
            given: A path from the working folder or from the root, or the end of one.

        Raises:
            RequestError: There is no such page, or nobody translates it.
        """
        page = self._named(given, start)
        reason = self.why_excluded(page)
        if reason:
            raise RequestError(
                f"{page} stays untranslated: {reason}",
                code="page_unknown",
                hint="see [tool.scaffold.docs] in pyproject.toml, under exclude or generated",
            )
        return page

    def _named(self, given: str, start: Path) -> str:
        sources = {other: page for page, other in self.layout.pages.items()}
        # As a shell would read it first, then as a report prints it.
        for base in (start, self.files.root):
            try:
                place = (base / given).resolve().relative_to(self.files.root.resolve()).as_posix()
            except (ValueError, OSError):
                continue
            if place in self.layout.pages:
                return place
            if place in sources:
                return sources[place]
        # The end of a path is enough where only one page has it, such as `install.md`.
        ends = [page for page in self.layout.pages if f"/{page}".endswith(f"/{given}")]
        if len(ends) == 1:
            return ends[0]
        # All pages would be a long list; `status` has it.
        near = get_close_matches(given, self.layout.pages, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise RequestError(
            f"no page {given!r} is to be translated{guess}",
            code="page_unknown",
            hint="`scaffold docs status` lists the pages",
        )


def find_root(start: Path) -> Path:
    """Return the folder whose documents are meant.

    It is the nearest one upwards that has a table [tool.scaffold.docs], not beyond the repository;
    else the repository's top folder; without git the folder itself.
    """
    for folder in (start, *start.parents):
        text = ""
        with suppress(OSError):
            text = (folder / "pyproject.toml").read_text(encoding="utf-8-sig", errors="replace")
        if "tool.scaffold.docs" in text and read_tool_table(text, "docs", TargetError).names():
            return folder
        # A table above the repository belongs to another project.
        if (folder / ".git").exists():
            return folder
    return start
