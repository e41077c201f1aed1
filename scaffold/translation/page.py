"""What a page of documentation consists of: sections, with their blocks, passages and markers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scaffold.analysis.files.front_matter import FrontMatter

PREAMBLE = "preamble"
"""The key of what is above a page's first heading, its front matter included."""

MARKER_FORM = "<!-- scaffold: source {key} {hash} -->"
# MARKER_FORM, read back; how many blanks there are does not matter.
_MARKER = re.compile(r"\A<!--\s*scaffold:\s*source\s+(?P<key>\S+)\s+(?P<hash>[0-9a-f]+)\s*-->\Z")

Slot = tuple[str | int, ...]
"""The place of a passage among the blocks of its section: ("item", 1, 2) is the second item of the
section's first list."""


class Piece(NamedTuple):
    """A short text, with its line in the page."""

    text: str
    line: int


class Marker(NamedTuple):
    """The section, and the state of it, that a section translates."""

    key: str
    hash: str
    line: int

    def __str__(self) -> str:
        return MARKER_FORM.format(key=self.key, hash=self.hash)


class Block(NamedTuple):
    """A list, table, block of code or the like, nested ones too.

    Args:
        kind: What it is, in words.
        line: Its first line.
        size: The items of a list; the rows and columns of a table.
        info: The language of code, or the sort of an admonition.
    """

    kind: str
    line: int
    size: tuple[int, ...] = ()
    info: str = ""
    text: str = ""


@dataclass
class Passage:
    """Running text: a heading, paragraphs, an item, a cell.

    Args:
        line: Its first line.
        prose: The words, without code.
        plain: The words and the code, as a reader sees them.
        links: Where its links lead.
        images: Where its images are.
        tags: Its HTML tags, by name and attributes.
        paragraphs: How many paragraphs with words it has.
        parts: What it was joined from; empty where it is of one piece.
    """

    slot: Slot
    line: int
    prose: str = ""
    plain: str = ""
    codes: list[Piece] = field(default_factory=list[Piece])
    links: list[Piece] = field(default_factory=list[Piece])
    images: list[Piece] = field(default_factory=list[Piece])
    tags: list[Piece] = field(default_factory=list[Piece])
    paragraphs: int = 0
    parts: list[Passage] = field(default_factory=list["Passage"])

    def join(self, other: Passage) -> None:
        """Take in what follows in the same place."""
        self.parts = [*(self.parts or [replace(self)]), *(other.parts or [other])]
        self.prose += f"\n{other.prose}"
        self.plain += f"\n{other.plain}"
        self.paragraphs += other.paragraphs
        for name in ("codes", "links", "images", "tags"):
            getattr(self, name).extend(getattr(other, name))


@dataclass
class Section:
    """A heading with its text up to the next heading of any level.

    Args:
        line: The line of its heading, from 1.
        title: The heading as a reader sees it.
        key: What it is known by in its page.
        hash: The digest of its content.
        slug: The anchor that GitHub gives the heading.
        mkdocs_slug: The anchor that Python-Markdown gives it, and so MkDocs.
        end: The line of the next section.
        comments: Its HTML comments, markers left out.
        anchors: The anchors that it sets itself.
    """

    line: int
    level: int
    title: str = ""
    key: str = PREAMBLE
    hash: str = ""
    slug: str = ""
    mkdocs_slug: str = ""
    end: int = 0
    passages: list[Passage] = field(default_factory=list[Passage])
    blocks: list[Block] = field(default_factory=list[Block])
    comments: list[Piece] = field(default_factory=list[Piece])
    markers: list[Marker] = field(default_factory=list[Marker])
    anchors: list[Piece] = field(default_factory=list[Piece])

    @property
    def prose(self) -> str:
        """The words of all its text."""
        return "\n".join(passage.prose for passage in self.passages)

    @property
    def has_content(self) -> bool:
        """Whether it has more than front matter and comments."""
        return bool(self.level or self.passages or self.blocks or self.markers)

    @property
    def wanted(self) -> Marker:
        """The marker that a translation of this state carries; its line means nothing."""
        return Marker(self.key, self.hash, self.line)


@dataclass(frozen=True)
class Page:
    """A parsed page.

    Args:
        path: Relative to the repository's root.
    """

    path: str
    lines: tuple[str, ...]
    front: FrontMatter
    sections: tuple[Section, ...]

    def text(self, section: Section) -> str:
        """Return the source text of a section, without its markers and the blank lines around."""
        # Markers are notes of the tool and no part of the text.
        taken = {marker.line for marker in section.markers}
        rows = enumerate(self.lines[section.line - 1 : section.end - 1], section.line)
        kept = [row for number, row in rows if number not in taken]
        return "\n".join(_without_doubled_gaps(kept)).strip("\n")

    def find(self, key: str) -> Section | None:
        return next((each for each in self.sections if each.key == key), None)

    def at_anchor(self, anchor: str) -> Section | None:
        """Return the section that an anchor leads to, by the heading's own or by one set in it."""
        for each in self.sections:
            # GitHub and MkDocs make different anchors of the same heading.
            if anchor in (each.slug, each.mkdocs_slug, *(own.text for own in each.anchors)):
                return each
        return None


def is_beyond_latin(section: Section) -> bool:
    """Return whether a good part of a section's words is in another script than Latin."""
    passages = [each for each in section.passages if each.slot != ("heading",)]
    letters = [each for passage in passages for each in passage.prose if each.isalpha()]
    # A name or a term in its own script makes no translation.
    return sum(each > "\u024f" for each in letters) > 0.3 * len(letters)


def read_marker(comment: str, line: int) -> Marker | None:
    """Return the marker that a comment is, or None."""
    found = _MARKER.match(comment.strip())
    return Marker(found["key"], found["hash"], line) if found else None


def _without_doubled_gaps(rows: list[str]) -> Iterator[str]:
    """Yield rows; of the two blank ones that a marker leaves behind, one."""
    before = "x"
    for row in rows:
        if row.strip() or before.strip():
            yield row
        before = row
