"""The files of a repository that an example is looked for in: bounded, and text only."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from scaffold.analysis.files.files import list_files

# Bounds for the memory that one look takes: the texts are all held at once.
MAX_FILES = 20_000
MAX_SIZE_BYTES = 256 * 1024
MAX_TOTAL_BYTES = 64 * 1024 * 1024


_BUILT = frozenset(["build", "dist", "htmlcov", "site-packages"])
"""Folders without sources, where no git ignores them."""


def source_files(root: Path) -> tuple[list[str], bool]:
    """Return the files below a folder, sorted and bounded, and whether these are all."""
    files = list_files(root)
    paths = sorted(path for path in files.paths if files.has_git or not _is_built(path))
    return paths[:MAX_FILES], len(paths) <= MAX_FILES


def _is_built(path: str) -> bool:
    folders = path.split("/")[:-1]
    return any(each in _BUILT or each.endswith(".egg-info") for each in folders)


def read_texts(root: Path, paths: Iterable[str]) -> tuple[dict[str, bytes], bool]:
    """Return the bytes of the files that hold text, and whether there was room for all.

    Large files, binary ones and links are passed over.
    """
    found: dict[str, bytes] = {}
    total = 0
    for path in paths:
        place = root / path
        try:
            if place.is_symlink() or not place.is_file():  # a pipe would never end
                continue
            if place.stat().st_size > MAX_SIZE_BYTES:
                continue
            data = place.read_bytes()
        except OSError:
            continue
        total += len(data)
        if total > MAX_TOTAL_BYTES:
            return found, False
        if _is_text(data):
            found[path] = data
    return found, True


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
