"""The pack that people edit: ``.agents/skills`` and ``.agents/agents``, as bytes."""

from __future__ import annotations

import os
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scaffold.analysis.files.front_matter import FrontMatter, read_front_matter
from scaffold.errors import ScaffoldError, TargetError

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files

SKILLS = ".agents/skills"
AGENTS = ".agents/agents"


@dataclass(frozen=True)
class Document:
    """A Markdown file with front matter: a SKILL.md or a subagent.

    Args:
        name: The skill's folder, or the subagent's file without its ending.
        front: What is at its top.
    """

    name: str
    path: str
    data: bytes
    front: FrontMatter

    @property
    def description(self) -> str:
        """What it is for, on one line."""
        found = self.front.fields.get("description")
        if isinstance(found, list | dict | set):
            return ""  # no text, and by aliases perhaps longer than any memory
        return "" if found is None else " ".join(str(found).split())

    @property
    def body(self) -> str:
        text = self.data.decode("utf-8-sig").replace("\r\n", "\n")
        return "\n".join(text.split("\n")[self.front.body_line - 1 :])


@dataclass(frozen=True)
class Skill(Document):
    """One skill: its SKILL.md and every other file of its folder.

    Args:
        others: The other files: path below the skill's folder to its place.
    """

    others: dict[str, Path]


@dataclass(frozen=True)
class Pack:
    """All that people edit.

    Args:
        skills: By name, sorted.
        agents: By name, sorted.
        warnings: What is there and is no part of the pack.
    """

    skills: tuple[Skill, ...]
    agents: tuple[Document, ...]
    warnings: tuple[str, ...]


def find_pack(start: Path) -> Path:
    """Return the nearest folder, not beyond the git root, that holds ``.agents/skills``.

    Raises:
        TargetError: There is none.
    """
    for folder in (start, *start.parents):
        if holds_pack(folder):
            return folder
        if (folder / ".git").exists():
            break
    raise TargetError(
        f"no {SKILLS} in {start} or above it",
        code="target_missing",
        hint="change to the repository with the skills, or name it with --target DIR; "
        "`scaffold skills new NAME` starts one",
    )


def holds_pack(folder: Path) -> bool:
    """Return whether a folder holds skills or subagents, if only ones that cannot be read."""
    try:
        return (folder / SKILLS).is_dir() or (folder / AGENTS).is_dir()
    # A closed folder is reported by whoever reads it, and not taken for a missing one.
    except PermissionError:
        return True


def read_pack(files: Files, updated: dict[str, bytes] | None = None) -> Pack:
    """Read every skill and subagent of a repository.

    Args:
        updated: The bytes of files that are about to be written, by path.

    Raises:
        ScaffoldError: One of them cannot be read, or has no front matter; all reasons are given.
    """
    pack, problems = read_what_can_be(files, updated)
    _raise_all(problems)
    return pack


def read_what_can_be(
    files: Files, updated: dict[str, bytes] | None = None
) -> tuple[Pack, list[ScaffoldError]]:
    """Read the skills and subagents of a repository, and what keeps the others from being read.

    Args:
        updated: The bytes of files that are about to be written, by path.
    """
    problems: list[ScaffoldError] = []
    folders = _by_folder(files, problems)
    skills: list[Skill] = []
    agents: list[Document] = []
    for name, inside in folders.items():
        if "SKILL.md" in inside:
            try:
                skills.append(_skill(files.root, name, inside, updated or {}))
            except ScaffoldError as error:
                problems.append(error)
    subagents = _below(files, AGENTS, problems)
    for name, place in subagents.items():
        # Clients read the files of this folder, and none in folders below.
        if name.endswith(".md") and "/" not in name:
            path = f"{AGENTS}/{name}"
            try:
                inner = inner_place(files.root, place.relative_to(files.root).as_posix())
                agents.append(_document(name[:-3], path, inner, updated or {}))
            except ScaffoldError as error:
                problems.append(error)
    return Pack(tuple(skills), tuple(agents), _strangers(folders, subagents)), problems


def documents_of(files: Files) -> list[str]:
    """Return every Markdown file of the pack: skills, what is beside them, subagents.

    Raises:
        ScaffoldError: A link leads out of the repository.
    """
    problems: list[ScaffoldError] = []
    folders = _by_folder(files, problems)
    subagents = _below(files, AGENTS, problems)
    _raise_all(problems)
    found = [f"{SKILLS}/{name}/{below}" for name, inside in folders.items() for below in inside]
    found += [f"{AGENTS}/{name}" for name in subagents]
    return sorted(path for path in found if path.endswith(".md"))


def inner_place(root: Path, path: str) -> Path:
    """Return where a file really is.

    Raises:
        ScaffoldError: A link leads out of the repository, or to itself.
    """
    place = Path(os.path.realpath(root / path))
    if not place.is_relative_to(os.path.realpath(root)):
        raise ScaffoldError(f"{path} leads out of the repository", code="outside_target")
    return place


def read_bytes(place: Path, path: str) -> bytes:
    """Return the bytes of a file of the pack.

    Raises:
        ScaffoldError: It cannot be read.
    """
    try:
        if place.exists() and not place.is_file():
            raise OSError(0, "it is a device, a pipe or a socket")  # reading might never end
        return place.read_bytes()
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}"
        raise _unsound(said, "fix the file or its permissions, or delete it") from error


def _by_folder(files: Files, problems: list[ScaffoldError]) -> dict[str, dict[str, Path]]:
    """Return the files of each folder of skills, by their path in it; adds what links do wrong."""
    found: dict[str, dict[str, Path]] = {}
    for path, place in _below(files, SKILLS, problems).items():
        name, slash, inside = path.partition("/")
        if slash:
            found.setdefault(name, {})[inside] = place
    links: list[Path] = []
    with suppress(OSError):  # not there, or closed to git as well
        links = sorted(each for each in (files.root / SKILLS).iterdir() if each.is_symlink())
    # A skill may be a link to a folder elsewhere in the repository.
    for link in links:
        if link.is_dir() and not link.name.startswith("."):
            found[link.name] = _below(files, f"{SKILLS}/{link.name}", problems)
    return {name: found[name] for name in sorted(found) if found[name]}


def _below(files: Files, folder: str, problems: list[ScaffoldError]) -> dict[str, Path]:
    """Return the files below a folder by their path in it; adds what is wrong with them.

    Git and a walk list a linked folder as one entry, or not at all: where it leads is looked up.
    """
    try:
        inner = inner_place(files.root, folder).relative_to(os.path.realpath(files.root)).as_posix()
    except ScaffoldError as error:
        problems.append(error)
        return {}
    for closed in _closed(files.root / folder):  # to git too, which lists nothing there
        path = closed.relative_to(files.root).as_posix()
        hint = "give read permission for the folder, or delete it"
        problems.append(_unsound(f"{path} cannot be read: Permission denied", hint))
    found: dict[str, Path] = {}
    for path in files.below(inner):
        name = path[len(inner) + 1 :]
        if any(unicodedata.category(char) in _NO_NAME for char in path):
            said = f"{f'{folder}/{name}'!r} has characters in its name that are not supported"
            hint = "rename it: UTF-8, without control characters and line ends"
            problems.append(_unsound(said, hint))
        else:
            found[name] = files.root / path
    return found


def _closed(folder: Path) -> list[Path]:
    """Return the folders, from one downwards, that nobody may look into."""
    found: list[Path] = []

    def note(error: OSError) -> None:
        if isinstance(error, PermissionError):
            found.append(Path(error.filename))

    for _ in os.walk(folder, onerror=note):
        pass
    return found


# Control characters, bytes that are no UTF-8, and separators of lines and paragraphs.
_NO_NAME = ("Cc", "Cs", "Zl", "Zp")


def _skill(root: Path, name: str, inside: dict[str, Path], updated: dict[str, bytes]) -> Skill:
    path = f"{SKILLS}/{name}/SKILL.md"
    place = inner_place(root, inside["SKILL.md"].relative_to(root).as_posix())
    document = _document(name, path, place, updated)
    others = {below: place for below, place in inside.items() if below != "SKILL.md"}
    for below, place in others.items():
        if inner_place(root, place.relative_to(root).as_posix()).is_dir():
            raise _unsound(
                f"{SKILLS}/{name}/{below} is a link to a folder",
                "a client may copy the skill without what the link leads to: put the files in its "
                "place",
            )
    return Skill(name, path, document.data, document.front, others)


def _document(name: str, path: str, place: Path, updated: dict[str, bytes]) -> Document:
    # Blocks are updated before rendering, so both are written in one step.
    data = updated.get(path) or read_bytes(place, path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid(path, f"is not UTF-8: {error.reason} at byte {error.start}") from error
    if "\0" in text:
        raise _invalid(path, "is not text: it has null bytes")
    front = read_front_matter(text)
    if not front.is_there:
        raise _invalid(path, "has no front matter")
    if front.problem is not None:
        raise _invalid(f"{path}:{front.problem_line}", front.problem)
    return Document(name, path, data, front)


def _invalid(path: str, reason: str) -> ScaffoldError:
    # A place with a line, such as "a/SKILL.md:3", is followed by a colon.
    said = f"{path} {reason}" if ":" not in path else f"{path}: {reason}"
    return _unsound(said, "begin it with a line ---, the keys name and description, and a line ---")


def _unsound(message: str, hint: str) -> ScaffoldError:
    return ScaffoldError(message, code="skill_invalid", hint=hint)


def _strangers(folders: dict[str, dict[str, Path]], subagents: dict[str, Path]) -> tuple[str, ...]:
    """Report what lies among skills and subagents without being one."""
    found: list[str] = []
    for name, inside in folders.items():
        deeper = [below for below in sorted(inside) if below.endswith("/SKILL.md")]
        if "SKILL.md" in inside or name.startswith(("_", ".")):
            continue
        found += [
            f"{SKILLS}/{name}/{below} is not found as a skill: clients look one folder deep"
            for below in deeper
        ]
        if not deeper:
            found.append(f"{SKILLS}/{name} has no SKILL.md and is ignored")
    found += [
        f"{AGENTS}/{path} is ignored: subagents must be directly in {AGENTS}"
        for path in subagents
        if path.endswith(".md") and "/" in path
    ]
    return tuple(found)


def _raise_all(problems: list[ScaffoldError]) -> None:
    if problems:
        hints = dict.fromkeys(each.hint for each in problems if each.hint)
        raise ScaffoldError(
            "; ".join(each.message for each in problems),
            code=problems[0].code,
            hint="\n".join(hints),
        )
