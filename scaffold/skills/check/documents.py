"""The texts that guide agents: skills with their references, subagents, commands, rules, guides."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.front_matter import FrontMatter, read_front_matter
from scaffold.analysis.lazy_re import lazy_re
from scaffold.config import FieldError, Fields
from scaffold.skills.check.markdown import Markdown, parse_markdown

Kind = Literal["skill", "reference", "agent", "command", "rules", "guide", "page"]

GUIDES = frozenset({"AGENTS.md", "CLAUDE.md", "GEMINI.md", "copilot-instructions.md"})
# Folders of a client at the top of a repository: what stands there is about this repository.
CLIENT_FOLDERS = (".agents/", ".claude/", ".codex/", ".opencode/", ".cursor/", ".github/")
# As `scaffold skills install` writes it; what reads all of it would cost every check its imports.
LOCK = ".scaffold/skills-lock.toml"

# What others wrote is kept there, often without the parts that nobody here needs.
_VENDORED = frozenset({"vendor", "_vendor", "vendored", "third_party", "node_modules"})

_AGENT = lazy_re(r"(?:^|/)\.(?:agents|claude|opencode)/agents?/(?:.+/)?[^/]+\.md$")
_COMMAND = lazy_re(r"(?:^|/)\.(?:claude|opencode|agents)/commands?/(?:.+/)?[^/]+\.md$")
_RULES = lazy_re(
    r"(?:^|/)(?:\.cursor/rules/.+\.mdc|\.(?:claude|agents)/rules/.+\.md"
    r"|\.github/instructions/.+\.instructions\.md)$"
)


@dataclass(frozen=True)
class Document:
    """One text.

    Args:
        path: Relative to the root, with forward slashes.
        kind: What it is to agents.
        folder: The skill's folder for a skill and its references, else the document's own.
        text: Its content; lines end in a line feed.
        is_installed: Whether its skill was installed, and so was written for another repository.
    """

    path: str
    kind: Kind
    folder: str
    text: str
    is_installed: bool = False

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends; line 1 is at index 0."""
        return self.text.split("\n")

    @cached_property
    def front_matter(self) -> FrontMatter:
        """The keys at its top."""
        return read_front_matter(self.text)

    @cached_property
    def markdown(self) -> Markdown:
        """The body's blocks, code spans and links, with the lines of the whole text."""
        return parse_markdown(self.lines, self.front_matter.body_line)

    @property
    def is_about_here(self) -> bool:
        """Whether it speaks of the repository it stands in; a pack's skills speak of any other."""
        if self.is_installed or _VENDORED.intersection(self.path.split("/")):
            return False
        return self.kind in ("guide", "page") or self.path.startswith(CLIENT_FOLDERS)


class Unreadable(NamedTuple):
    """A document that could not be read, and why."""

    path: str
    reason: str


def find_documents(
    files: Files, pages: Iterable[str] = ()
) -> tuple[list[Document], list[Unreadable]]:
    """Return all guidance of a repository, each text once though links lead to it twice.

    Args:
        files: The repository's files.
        pages: Further Markdown files that are to be checked, relative to the root.
    """
    kinds = _kinds(files)
    kinds.update({page: ("page", _parent(page)) for page in pages if page not in kinds})
    documents: list[Document] = []
    unreadable: list[Unreadable] = []
    seen: set[str] = set()
    installed = _installed(files)
    # The sources come first: a link to them, from a client's folder for example, is their copy.
    for path in sorted(kinds, key=lambda path: (not path.startswith(".agents/"), path)):
        real = files.real(path)
        if real in seen:
            continue
        seen.add(real)
        # Of a document its text is known itself, to whoever keeps what was found in it.
        text = files.look_into(path)
        if text is None:
            unreadable.append(Unreadable(path, files.why_unreadable(path)))
            continue
        kind, folder = kinds[path]
        text = text.replace("\r\n", "\n")
        documents.append(Document(path, kind, folder, text, folder in installed))
    return documents, unreadable


def _installed(files: Files) -> set[str]:
    """Return the folders of the skills that the lock file names; a broken one names none."""
    text = files.text(LOCK) if LOCK in files.paths else None
    try:
        fields = Fields(tomllib.loads(text or ""), LOCK)
        return {
            f"{root}/{each.text('name')}"
            for each in fields.tables("skills")
            for root in each.texts("roots")
        }
    except (ValueError, FieldError):
        return set()


def _kinds(files: Files) -> dict[str, tuple[Kind, str]]:
    skills = {_parent(path) for path in files.by_name.get("SKILL.md", ())}
    found: dict[str, tuple[Kind, str]] = {}
    for path in files.paths:
        if path.endswith((".md", ".mdc")):
            kind = _kind(path, skills)
            if kind is not None:
                found[path] = kind
    return found


def _kind(path: str, skills: set[str]) -> tuple[Kind, str] | None:
    folder, _, name = path.rpartition("/")
    if name == "SKILL.md":
        return "skill", folder
    if name in GUIDES:
        return "guide", folder
    for parent in _parents(folder):
        if parent in skills:
            return "reference", parent
    for kind, pattern in _PATTERNS:
        if pattern.search(path):
            return kind, folder
    return None


_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("agent", _AGENT),
    ("command", _COMMAND),
    ("rules", _RULES),
)


def _parents(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
