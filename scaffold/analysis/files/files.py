"""The files of a repository: as git lists them, or by walking where there is no git."""

from __future__ import annotations

import hashlib
import os
import stat
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from scaffold.analysis.files.git import git_output, run_git
from scaffold.analysis.lazy_re import lazy_re

MAX_BYTES = 4_000_000
"""Larger files are listed and never read: no source that people write is as long."""

MAX_DEPTH = 100
"""No folder of a repository lies deeper; what a text names may."""

_SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache"}
    | {".ruff_cache", ".pytest_cache", ".tox", ".nox", ".eggs", ".idea", ".cache"}
)


_SIGN = lazy_re(r"[-_.]")
# What a path has to hold for its normal form to be another one.
_UNCLEAN = lazy_re(r"(?:^|/)\.{0,2}(?:/|$)" + (r"|\\" if os.sep == "\\" else ""))


class Files:
    """The files of a repository, each read once.

    Args:
        root: The top folder, absolute.
        paths: The files, relative to the root, with forward slashes.
        has_git: Whether git listed them, so that ignored files are known not to count.
    """

    def __init__(self, root: Path, paths: Iterator[str] | list[str], *, has_git: bool) -> None:
        self.root = root
        self.paths = frozenset(paths)
        self.has_git = has_git
        self.read: set[str] = {path for path in self.paths if path.endswith(".gitignore")}
        """What anything kept was drawn from, so far; the files that say what is ignored count."""
        # Apart from `read`: what only answers one question has no part in what others are drawn
        # from.
        self._looked_into: set[str] = set()
        self._texts: dict[str, str | None] = {}
        self._real: dict[str, str] = {}

    @cached_property
    def listing(self) -> bytes:
        """A digest of the list of files."""
        # NUL is the one character that no path holds.
        names = "\0".join(self.sorted_paths).encode("utf-8", "surrogateescape")
        return hashlib.sha256(names).digest()

    @cached_property
    def _real_root(self) -> str:
        return os.path.realpath(self.root)

    @cached_property
    def folders(self) -> frozenset[str]:
        """Every folder that holds a file, without the root."""
        return folders_of(self.paths)

    @cached_property
    def sorted_paths(self) -> tuple[str, ...]:
        """The files, sorted: those of one folder are neighbours."""
        return tuple(sorted(self.paths))

    @cached_property
    def by_name(self) -> dict[str, list[str]]:
        """The paths by their last part, sorted."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.sorted_paths:
            found[path.rpartition("/")[2]].append(path)
        return dict(found)

    @cached_property
    def folders_by_name(self) -> dict[str, list[str]]:
        """The folders by their last part, sorted."""
        found: dict[str, list[str]] = defaultdict(list)
        for folder in sorted(self.folders):
            found[folder.rpartition("/")[2]].append(folder)
        return dict(found)

    @cached_property
    def sorted_places(self) -> tuple[str, ...]:
        """Files and folders, sorted: what begins with the same words is adjacent."""
        return tuple(sorted(self.paths | self.folders))

    @cached_property
    def _by_letters(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.sorted_places:
            found[_letters(path.rpartition("/")[2])].append(path)
        return dict(found)

    def spelled_like(self, path: str, *, anywhere: bool = False) -> str:
        """Return the one file or folder that differs by case, signs or a plural alone, or nothing.

        Args:
            path: Relative to the root, or a name.
            anywhere: Whether it is a name, which is compared with those of all folders; then a
                plural may be another one's.
        """
        key, size = _letters(path), len(_SIGN.sub("", path))
        alike = self._by_letters.get(key.rpartition("/")[2], ())
        found = [
            each
            for each in alike
            if _letters(each) == key
            or (anywhere and len(_SIGN.sub("", each.rpartition("/")[2])) == size)
        ]
        return found[0] if len(found) == 1 else ""

    @cached_property
    def python(self) -> tuple[str, ...]:
        """The Python sources, sorted."""
        return tuple(path for path in self.sorted_paths if path.endswith((".py", ".pyi")))

    def has(self, path: str) -> bool:
        """Return whether a file or folder of this relative path exists."""
        if path in self.paths or path in self.folders:
            return True
        if not _UNCLEAN.search(path):
            return False
        clean = os.path.normpath(path).replace(os.sep, "/")
        return clean in self.paths or clean in self.folders or clean == "."

    def is_unlisted(self, path: str) -> bool:
        """Return whether something is at a path that is not listed, as a build makes it."""
        return (self.root / path).exists()

    def below(self, folder: str) -> list[str]:
        """Return the files below a folder, sorted."""
        if folder not in self.folders:
            return []
        # "0" is the character behind "/".
        first = bisect_left(self.sorted_paths, f"{folder}/")
        return list(self.sorted_paths[first : bisect_left(self.sorted_paths, f"{folder}0", first)])

    def ignored(self, paths: Iterable[str]) -> set[str]:
        """Return those of some paths, which need not exist, that git would ignore; in one call."""
        wanted = [
            each for each in paths if each and "\0" not in each and not self._is_below_link(each)
        ]
        if not self.has_git or not wanted:
            return set()
        # --no-index: patterns count for files that are tracked as well. A pattern of folders,
        # `build/`, does not fit what is not there, but fits what would be in it.
        feed = "\0".join(each for path in wanted for each in (path, f"{path.rstrip('/')}/x"))
        argv = ("check-ignore", "--no-index", "-z", "--stdin")
        out = run_git(self.root, *argv, feed=os.fsencode(feed)).stdout
        found = {os.fsdecode(each) for each in out.split(b"\0")}
        return {each for each in wanted if each in found or f"{each.rstrip('/')}/x" in found}

    def _is_below_link(self, path: str) -> bool:
        """Return whether a listed path, a link or a module of its own, is above: git ends there."""
        return any(each in self.paths for each in parents(path))

    def text(self, path: str) -> str | None:
        """Return a file's text; None where it is missing, binary, too long or unreadable.

        What is drawn from it may be kept, in an index for example, and tell in whatever is asked
        later. `look_into` is for what is not.
        """
        self.read.add(path)
        return self._text(path)

    def look_into(self, path: str) -> str | None:
        """Return a file's text as `text` does, for the question at hand alone."""
        self._looked_into.add(path)
        return self._text(path)

    def take_looked_into(self) -> set[str]:
        """Return what was looked into since this was asked before."""
        found, self._looked_into = self._looked_into, set()
        return found

    def data(self, path: str) -> bytes | None:
        """Return a file's bytes, not kept; None where they are missing, too many or unreadable."""
        self.read.add(path)
        return self._read_bytes(path)

    def why_unreadable(self, path: str) -> str:
        """Return why `text` gives none for a path, as part of a sentence."""
        place = self.root / path
        try:
            real = os.path.realpath(place, strict=True)
            if not Path(real).is_relative_to(self._real_root):
                return "is a link that leads out of the repository"
            found = place.stat()
            if not stat.S_ISREG(found.st_mode):
                return "is not a file"  # to read a pipe would wait for whoever writes into it
            if found.st_size > MAX_BYTES:
                return f"is {found.st_size / 1e6:.1f} MB long, which nobody reads"
            place.read_bytes()
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        return "is not text: it has null bytes"

    def _text(self, path: str) -> str | None:
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def _read(self, path: str) -> str | None:
        data = self._read_bytes(path)
        # git looks for NUL in the first 8000 bytes, too.
        if data is None or b"\0" in data[:8192]:
            return None
        # A byte order mark is no part of the text and would hide the first word of it.
        return data.decode("utf-8-sig", "replace")

    def _read_bytes(self, path: str) -> bytes | None:
        place = os.path.join(self.root, path)
        try:
            # The folder is resolved first: lstat() follows links in all parts but the last.
            if not self._is_below_root(self.real(path.rpartition("/")[0])):
                return None
            found = os.lstat(place)
            if stat.S_ISLNK(found.st_mode):
                if not self._is_below_root(os.path.realpath(place)):
                    return None
                found = os.stat(place)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
                return None
            with open(place, "rb", buffering=0) as file:  # half the cost of a path's own reading
                return file.read()
        except OSError:
            return None

    def outer(self, path: str) -> str:
        """Return the submodule, or the link to a folder, that a path is inside of, or nothing.

        Git lists it as one file, and nothing below it.
        """
        return next((each for each in parents(path)[::-1] if each in self.paths), "")

    @cached_property
    def folder_links(self) -> dict[str, str]:
        """The listed links that lead to a folder of the repository, each with that folder."""
        found: dict[str, str] = {}
        for path in self.paths:
            # A link to a folder is called as a folder is; few files have no dot in their name.
            if "." not in path.rpartition("/")[2] and self.is_link(path):
                real = os.path.relpath(os.path.realpath(self.root / path), self._real_root)
                place = real.replace(os.sep, "/")
                if place in self.folders:
                    found[path] = place
        return found

    def followed(self, path: str) -> str:
        """Return a path with the link that it begins with, if it does, replaced by its folder."""
        outer = self.outer(f"{path}/") if self.folder_links else ""
        target = self.folder_links.get(outer)
        return f"{target}{path[len(outer) :]}" if target is not None else path

    def real(self, path: str) -> str:
        """Return where a path below the root leads when all links are followed.

        A link may lead out of the repository, to something that is nobody's business here. Each
        folder is looked at once, where ``realpath`` looks at all that are above it.
        """
        if path not in self._real:
            self._real[path] = self._find_real(path)
        return self._real[path]

    def is_link(self, path: str) -> bool:
        """Return whether a path is a symbolic link itself."""
        return os.path.islink(os.path.join(self.root, path))

    def _find_real(self, path: str) -> str:
        if path.count("/") > MAX_DEPTH or _UNCLEAN.search(path):
            return os.path.realpath(os.path.join(self._real_root, path))
        folder, _, name = path.rpartition("/")
        place = os.path.join(self.real(folder) if folder else self._real_root, name)
        return os.path.realpath(place) if os.path.islink(place) else place

    def _is_below_root(self, real: str) -> bool:
        # The separator at the end keeps /repo-other from counting as below /repo.
        return real == self._real_root or real.startswith(os.path.join(self._real_root, ""))


def parents(path: str) -> list[str]:
    """Return the folders above a path, the deepest first, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """Return every folder above some paths, without the root."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return frozenset(found)


def _letters(path: str) -> str:
    """Return a path as all its spellings have it; how a file ends is no part of its name."""
    parts = (each.lower().rpartition(".") for each in path.split("/"))
    split = ((stem, end) if stem else (end, "") for stem, _, end in parts)
    return "/".join(
        f"{_SIGN.sub('', stem).removesuffix('s')}.{end.replace('yaml', 'yml')}"
        for stem, end in split
    )


def list_files(root: Path) -> Files:
    """Return the files of a repository: tracked ones, and those that git does not ignore."""
    listed = _git_list(root)
    if listed is not None:
        return Files(root, listed, has_git=True)
    return Files(root, list(walk(root)), has_git=False)


def _git_list(root: Path) -> list[str] | None:
    # With -t each row begins with a letter; a file that is gone has a second row with an R.
    options = ["-z", "-t", "--cached", "--others", "--deleted", "--exclude-standard"]
    output = git_output(root, "ls-files", *options)
    if output is None:
        return None
    rows = output.split(b"\0")
    gone = {row[2:] for row in rows if row.startswith(b"R ")}
    # Paths are bytes to git; undecodable ones survive the round trip to the file system.
    return [
        row[2:].decode("utf-8", "surrogateescape") for row in rows if row and row[2:] not in gone
    ]


def walk(root: Path) -> Iterator[str]:
    """Yield the files below a folder; links to folders are not followed, so no cycle is met."""
    for folder, names, files in os.walk(root, onerror=None, followlinks=False):
        # In place, as os.walk descends into what is left in this list.
        names[:] = sorted(name for name in names if name not in _SKIPPED_FOLDERS)
        start = Path(folder).relative_to(root)
        for name in files:
            yield (start / name).as_posix()
