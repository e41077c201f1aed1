"""The files of a source of skills, and a skill read out of them with every path proven harmless."""

from __future__ import annotations

import os
import posixpath
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from scaffold.errors import ScaffoldError, is_private
from scaffold.skills.install.hidden_text import hidden_text
from scaffold.templating.names import DEVICES

MAX_SKILL_BYTES = 8 * 1024 * 1024
MAX_SKILL_FILES = 1000
MAX_SOURCE_FILES = 200_000
MAX_PATH = 180
"""Characters of a path inside a skill, so that with its folder it fits on every file system."""

SKILL_FILE = "SKILL.md"

# Folders of tools, and below, files that desktops leave: no part of a skill.
_PASSED_OVER = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache"}
    | {".ruff_cache", ".pytest_cache"}
)
_LITTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
_MAX_LINKS = 8
_LFS = b"version https://git-lfs.github.com/spec/"

What = Literal["file", "link", "submodule", "special", "unreadable"]


class Entry(NamedTuple):
    """One thing in a source, not yet read.

    Args:
        key: By what it is read: an id of git, or its path.
    """

    what: What
    executable: bool
    size_bytes: int
    key: str


class SkillFile(NamedTuple):
    """A file of a skill: its bytes, and whether it may be run."""

    data: bytes
    executable: bool


@dataclass(frozen=True)
class Tree:
    """A source as a list of files."""

    entries: Mapping[str, Entry]
    read: Callable[[Iterable[str]], Mapping[str, bytes]]


def tree_of_folder(root: Path) -> Tree:
    """Return the tree of a folder on this disk; no link is followed.

    Raises:
        ScaffoldError: It cannot be read, or holds too many files.
    """
    try:
        # os.walk() yields nothing for a folder that it may not read, without an error.
        os.listdir(root)
    except OSError as error:
        raise ScaffoldError(
            f"{root} cannot be read: {error.strerror}",
            code="source_unreadable",
            hint="give read permission, or name another folder",
        ) from error
    entries: dict[str, Entry] = {}
    for path in _walk(root):
        key = path.relative_to(root).as_posix()
        entries[key] = _entry(path, key)
        if len(entries) > MAX_SOURCE_FILES:
            raise ScaffoldError(
                f"{root} has more than {MAX_SOURCE_FILES} files",
                code="source_invalid",
                hint="name the folder with the skills",
            )

    def read(keys: Iterable[str]) -> dict[str, bytes]:
        return {key: _bytes_of(root, key) for key in keys}

    return Tree(entries, read)


def mounted(tree: Tree, folder: str, other: Tree) -> Tree:
    """Return a tree with another one in a folder of it."""
    start = f"{folder}/"
    more = {
        start + path: each._replace(key=start + each.key) for path, each in other.entries.items()
    }

    def read(keys: Iterable[str]) -> dict[str, bytes]:
        named = list(keys)
        inner = other.read(key.removeprefix(start) for key in named if key in more)
        outer = tree.read(key for key in named if key not in more)
        return {**outer, **{start + key: data for key, data in inner.items()}}

    return Tree({**tree.entries, **more}, read)


def read_single(tree: Tree, folder: str, file: str) -> SkillFile:
    """Return one file of a folder; a link is resolved inside the folder.

    Raises:
        ScaffoldError: The file is too large, or its path could do harm.
    """
    path = f"{folder}/{file}"
    start = f"{folder}/"
    inside = {
        each.removeprefix(start): e for each, e in tree.entries.items() if each.startswith(start)
    }
    _check_paths(folder, {file: tree.entries[path]})
    entry = _resolved(tree, folder, file, inside)
    _check_size(path, {file: entry})
    return SkillFile(tree.read([entry.key])[entry.key], False)


def read_skill(tree: Tree, folder: str) -> dict[str, SkillFile]:
    """Return the files of one skill by their paths in its folder; links to files are resolved.

    Args:
        folder: The skill's folder in it; "" for the source itself.

    Raises:
        ScaffoldError: The skill is too large, or one of its paths could do harm.
    """
    start = f"{folder}/" if folder else ""
    entries = {
        path[len(start) :]: entry for path, entry in tree.entries.items() if path.startswith(start)
    }
    _check_paths(folder, entries)
    resolved = {path: _resolved(tree, folder, path, entries) for path in sorted(entries)}
    _check_size(folder, resolved)
    data = tree.read(entry.key for entry in resolved.values())
    for path, entry in resolved.items():
        # The pointer has the name of the file, and would be installed as if it were it.
        if data[entry.key].startswith(_LFS):
            raise _unsafe(folder, path, "is a pointer of Git LFS and not the file itself")
    return {path: SkillFile(data[e.key], e.executable) for path, e in resolved.items()}


def _walk(root: Path) -> Iterator[Path]:
    """Yield files, links and folders that cannot be listed; links are not followed."""
    refused: list[str] = []
    for folder, folders, names in os.walk(root, onerror=lambda e: refused.append(e.filename)):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        # In place, as os.walk descends into what is left in this list.
        folders[:] = sorted(set(folders) - set(links) - _PASSED_OVER)
        names = [name for name in names if name not in _LITTER and not name.endswith(".pyc")]
        yield from (here / name for name in sorted([*names, *links]))
    yield from (Path(each) for each in refused)


def _entry(path: Path, key: str) -> Entry:
    try:
        found = path.lstat()
    except OSError:
        return Entry("unreadable", False, 0, key)
    if stat.S_ISREG(found.st_mode):
        return Entry("file", bool(found.st_mode & 0o111), found.st_size, key)
    if stat.S_ISLNK(found.st_mode):
        return Entry("link", False, 0, key)
    # The walk yields a folder only where it cannot be listed.
    return Entry("unreadable" if path.is_dir() else "special", False, 0, key)


def _bytes_of(root: Path, key: str) -> bytes:
    place = root / key
    try:
        return os.fsencode(os.readlink(place)) if place.is_symlink() else place.read_bytes()
    except OSError as error:
        raise ScaffoldError(
            f"{place} cannot be read: {error.strerror}",
            code="source_unreadable",
            hint="give read permission, or delete it from the skill",
        ) from error


def _check_paths(folder: str, entries: Mapping[str, Entry]) -> None:
    """Refuse paths that lead elsewhere, or are others on another system."""
    spelled: dict[str, str] = {}
    for path, entry in entries.items():
        reason = _harm(path) or _WRONG.get(entry.what, "")
        if reason:
            code = "source_unreadable" if entry.what == "unreadable" else "skill_unsafe"
            raise _unsafe(folder, path, reason, code)
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            # Folders count as well: `Docs/a.md` and `docs/b.md` are in one folder there.
            part = "/".join(parts[:end])
            # macOS and Windows fold case, and macOS normalises names as well.
            twin = spelled.setdefault(unicodedata.normalize("NFC", part).casefold(), part)
            if twin != part:
                raise _unsafe(folder, path, f"is {twin} where upper and lower case are one")


_WRONG: dict[str, str] = {
    "special": "is not a file: a device, a pipe or a socket",
    "submodule": "is a submodule, which is not fetched",
    "unreadable": "cannot be read",
}


def _harm(path: str) -> str:
    """Return why a path is refused, or ""."""
    parts = path.split("/")
    try:
        path.encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    if len(path) > MAX_PATH:
        return f"has more than {MAX_PATH} characters"
    if path.startswith("/") or ".." in parts or "." in parts or "" in parts:
        return "leads out of the skill"
    if is_private(path):
        return "belongs to git or to the tool"
    if any(char in '\\:*?"<>|' or ord(char) < 32 for char in path) or hidden_text(path):
        return "has hidden or reserved characters in its name"
    if any(part.endswith((".", " ")) for part in parts):
        return "has a name that ends in a dot or a space, which some systems drop"
    if any(part.split(".")[0].strip().lower() in DEVICES for part in parts):
        return "has the name of a device"
    return ""


def _resolved(tree: Tree, folder: str, path: str, entries: Mapping[str, Entry]) -> Entry:
    """Return the file that a path leads to, following links inside the skill by their text."""
    at = path
    # A link may lead to a link; the bound ends circles.
    for _ in range(_MAX_LINKS):
        entry = entries.get(at)
        if entry is None:
            is_folder = at == "." or any(each.startswith(f"{at}/") for each in entries)
            to = "to a folder" if is_folder else "that leads to nothing in the skill"
            raise _unsafe(folder, path, f"is a link {to}")
        if entry.what == "file":
            return entry
        text = tree.read([entry.key])[entry.key].decode("utf-8", "surrogateescape")
        text = text.replace(os.sep, "/")
        # Resolved as text: a tree of git has no file system to ask.
        at = posixpath.normpath(posixpath.join(posixpath.dirname(at), text))
        if at.startswith(("/", "../")) or at == "..":
            raise _unsafe(folder, path, "is a link that leads out of the skill")
    raise _unsafe(folder, path, "is a link in a circle")


def _check_size(folder: str, entries: Mapping[str, Entry]) -> None:
    total_bytes = sum(entry.size_bytes for entry in entries.values())
    if total_bytes > MAX_SKILL_BYTES:
        largest = max(entries, key=lambda path: entries[path].size_bytes)
        raise _too_large(
            f"the skill {folder or '.'} has {total_bytes / 1e6:.1f} MB, "
            f"most of it in {largest}; {MAX_SKILL_BYTES / 1e6:.1f} MB is the limit"
        )
    if len(entries) > MAX_SKILL_FILES:
        raise _too_large(
            f"the skill {folder or '.'} has {len(entries)} files; {MAX_SKILL_FILES} is the limit"
        )


def _too_large(message: str) -> ScaffoldError:
    hint = "a skill is text for an agent; let it fetch or build what is large"
    return ScaffoldError(message, code="skill_too_large", hint=hint)


def _unsafe(folder: str, path: str, reason: str, code: str = "skill_unsafe") -> ScaffoldError:
    where = posixpath.join(folder, path)
    hint = "nothing was written; ask the skill's author to remove it"
    return ScaffoldError(f"{where} {reason}", code=code, hint=hint)
