"""The files of a repository that an example is looked for in: bounded, and text only."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

from scaffold.analysis.files.files import list_files

# Bounds for the memory that one look takes: the texts are all held at once.
MAX_FILES = 20_000
MAX_SIZE_BYTES = 256 * 1024
MAX_TOTAL_BYTES = 64 * 1024 * 1024

_PYTHON = (".py", ".pyi")
_BUILT = frozenset(["build", "dist", "htmlcov", "site-packages"])
"""Folders without sources, where no git ignores them."""


def source_files(root: Path) -> tuple[list[str], bool]:
    """Return the files below a folder, sorted, and whether these are all.

    They are bounded: Python comes before the rest.
    """
    files = list_files(root)
    paths = [path for path in files.paths if files.has_git or not _is_built(path)]
    paths.sort(key=lambda path: (not path.endswith(_PYTHON), path))
    return sorted(paths[:MAX_FILES]), len(paths) <= MAX_FILES


def _is_built(path: str) -> bool:
    folders = path.split("/")[:-1]
    return any(each in _BUILT or each.endswith(".egg-info") for each in folders)


def read_texts(root: Path, paths: Iterable[str]) -> tuple[dict[str, bytes], bool]:
    """Return the bytes of the files that hold text, and whether there was room for all.

    Large files, binary ones and links are passed over. Where there is no room for all, Python and
    small files come before data.
    """
    sizes: dict[str, int] = {}
    for path in paths:
        place = root / path
        with suppress(OSError):
            if not place.is_symlink() and place.is_file():  # a pipe would never end
                sizes[path] = place.stat().st_size
    sizes = {path: size for path, size in sizes.items() if size <= MAX_SIZE_BYTES}
    ranked = sorted(sizes, key=lambda path: (not path.endswith(_PYTHON), sizes[path]))
    totals = list(accumulate(sizes[path] for path in ranked))
    room = set(ranked[: bisect_right(totals, MAX_TOTAL_BYTES)])
    found: dict[str, bytes] = {}
    for path in (each for each in sizes if each in room):
        with suppress(OSError):
            data = (root / path).read_bytes()
            if _is_text(data):
                found[path] = data
    return found, len(room) == len(sizes)


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
