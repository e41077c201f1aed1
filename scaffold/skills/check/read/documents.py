"""The texts that guide agents: skills with their references, subagents, commands, rules, guides."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from scaffold.analysis.files.files import Files, parents
from scaffold.analysis.files.front_matter import FrontMatter, read_front_matter
from scaffold.analysis.files.globs import matches
from scaffold.analysis.files.words import DOCS
from scaffold.analysis.lazy_re import lazy_re
from scaffold.config import FieldError, Fields
from scaffold.skills.check.read.markdown import Markdown, parse_markdown

Kind = Literal["skill", "reference", "agent", "command", "rules", "guide", "page"]

GUIDES = frozenset({"AGENTS.md", "CLAUDE.md", "GEMINI.md", "copilot-instructions.md"})
CLIENT_FOLDERS = (".agents/", ".claude/", ".codex/", ".opencode/", ".cursor/", ".github/")
"""Folders of a client at the top of a repository."""
# As `scaffold skills install` writes it; what reads all of it would cost every check its imports.
LOCK = ".scaffold/skills-lock.toml"
# As `npx skills add` writes it.
OTHER_LOCK = "skills-lock.json"

# What others wrote is kept there, often without the parts that nobody here needs.
_VENDORED = frozenset({"vendor", "_vendor", "vendored", "third_party", "node_modules"})

_MARKS = frozenset(
    f"linguist-{each}{value}" for each in ("vendored", "generated") for value in ("", "=true")
)
_TESTS = frozenset({"test", "tests", "testdata", "fixtures", "__tests__", "evals"})

_AGENT = lazy_re(r"(?:^|/)\.(?:agents|claude|opencode|github)/agents?/(?:.+/)?[^/]+\.md$")
_COMMAND = lazy_re(r"(?:^|/)\.(?:claude|opencode|agents)/commands?/(?:.+/)?[^/]+\.md$")
_RULES = lazy_re(
    r"(?:^|/)(?:\.(?:agents|claude|codex|cursor|gemini|opencode|windsurf)/.+\.mdc?"
    r"|\.github/(?:instructions|prompts|chatmodes)/.+\.md)$"
)
_HIDDEN = lazy_re(r"(?:^|.*?/)(?P<folder>\.(?!git(?:hub|lab)?/)\w[^/]*)/")
_IMPORT = lazy_re(r"(?:^|\s)@(?P<path>[\w./-]+\.md)\b")
_NAMED = lazy_re(r"(?<![\w@./-])(?P<path>[\w-]+(?:/[\w.-]+)*/[\w.-]+\.md)\b")


@dataclass(frozen=True)
class Document:
    """One text.

    Args:
        path: Relative to the root, with forward slashes.
        kind: What it is to agents.
        folder: The skill's folder for a skill and its references, else the document's own.
        text: Its content; lines end in a line feed.
        is_installed: Whether it was written for another repository: its skill was installed, or the
            attributes call it vendored or generated.
        clients: The client folders that it is read from, as itself or through a link.
    """

    path: str
    kind: Kind
    folder: str
    text: str
    is_installed: bool = False
    clients: frozenset[str] = frozenset()

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
    def is_fixture(self) -> bool:
        """Whether it is a skill that tests or evaluations are run on, or the form of one."""
        *folders, name = self.path.split("/")
        is_made = not _TESTS.isdisjoint(folders) or "template" in name.lower()
        return self.kind in ("skill", "reference") and is_made

    @property
    def is_foreign(self) -> bool:
        """Whether it is of another place: installed, vendored, or what tests are run on."""
        is_vendored = not _VENDORED.isdisjoint(self.path.split("/"))
        return self.is_installed or self.is_fixture or is_vendored


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
    installed, vendored = installed_folders(files), _vendored(files)
    clients = _clients(kinds, files)
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
        is_installed = not installed.isdisjoint({folder, path}) or matches(path, vendored)
        documents.append(Document(path, kind, folder, text, is_installed, clients[real]))
    return documents, unreadable


def _clients(paths: Iterable[str], files: Files) -> dict[str, frozenset[str]]:
    """Return the client folders that each document is read from, by where it really is."""
    links = {
        files.real(path): path.partition("/")[0]
        for path in files.paths
        if path.startswith(CLIENT_FOLDERS) and path.count("/") < 4 and files.is_link(path)
    }
    found: dict[str, set[str]] = {}
    for path in paths:
        real = files.real(path)
        own = found.setdefault(real, set())
        if path.startswith(CLIENT_FOLDERS):
            own.add(path.partition("/")[0])
        own.update(name for place, name in links.items() if real.startswith(f"{place}/"))
    return {real: frozenset(own) for real, own in found.items()}


def installed_folders(files: Files) -> set[str]:
    """Return the skills' folders and subagents' files in a lock file; a broken one names none."""
    found: set[str] = set()
    text = files.text(LOCK) if LOCK in files.paths else None
    with suppress(ValueError, FieldError):
        fields = Fields(tomllib.loads(text or ""), LOCK)
        found |= {
            # A subagent is one file of its root, and its name begins with "agents/".
            f"{root}/{name.removeprefix('agents/')}" + ".md" * name.startswith("agents/")
            for each in fields.tables("skills")
            for name in [each.text("name")]
            for root in each.texts("roots")
        }
    text = files.text(OTHER_LOCK) if OTHER_LOCK in files.paths else None
    with suppress(ValueError, FieldError):
        # It names no folders: each client has one of its own.
        names = set(Fields(json.loads(text or "{}"), OTHER_LOCK).table("skills"))
        skills = (_parent(path) for path in files.by_name.get("SKILL.md", ()))
        found |= {
            each
            for each in skills
            if each.rpartition("/")[2] in names and _HIDDEN.match(f"{each}/")
        }
    return found


def _vendored(files: Files) -> tuple[str, ...]:
    """Return the patterns of paths that .gitattributes marks as written by others, or by tools."""
    text = files.text(".gitattributes") if ".gitattributes" in files.paths else None
    rows = (row.split() for row in (text or "").splitlines())
    return tuple(row[0] for row in rows if len(row) > 1 and not _MARKS.isdisjoint(row[1:]))


def _kinds(files: Files) -> dict[str, tuple[Kind, str]]:
    skills = {_parent(path) for path in files.by_name.get("SKILL.md", ())}
    # A hidden folder with a skill in it is a client's, whatever its name.
    hidden = {inside.group() for each in skills if (inside := _HIDDEN.match(f"{each}/"))}
    found: dict[str, tuple[Kind, str]] = {}
    for path in files.paths:
        if path.endswith((".md", ".mdc")):
            kind = _kind(path, skills)
            if kind is None and hidden and (inside := _HIDDEN.match(path)):
                kind = ("rules", _parent(path)) if inside.group() in hidden else None
            if kind is not None:
                found[path] = kind
    for path in [each for each, (kind, _) in found.items() if kind == "guide"]:
        for each in _taken_in(path, files):
            found.setdefault(each, ("rules", _parent(each)))
    return found


def _taken_in(path: str, files: Files) -> Iterator[str]:
    """Yield the Markdown that a guide takes in with ``@path``.

    A guide of one folder sends its reader to what it names below that folder, too; what the one of
    the root names is documentation for people.
    """
    text = files.look_into(path) or ""
    folder = _parent(path)
    for each in _NAMED.finditer(text) if folder and ".md" in text else ():
        for place in (f"{folder}/{each['path']}", each["path"]):
            if place in files.paths and place.startswith(f"{folder}/") and not DOCS.search(place):
                yield place
    for each in _IMPORT.finditer(text) if "@" in text else ():
        for base in (_parent(path), ""):
            place = f"{base}/{each['path']}".removeprefix("/").replace("/./", "/")
            if place in files.paths:
                yield place
                break


def _kind(path: str, skills: set[str]) -> tuple[Kind, str] | None:
    folder, _, name = path.rpartition("/")
    if name == "SKILL.md":
        return "skill", folder
    if name in GUIDES:
        return "guide", folder
    for parent in parents(path):
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


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
