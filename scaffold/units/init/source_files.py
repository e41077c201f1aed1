"""What files a repository has: as git lists them, else by looking; bounded, and text only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

MAX_FILES = 20_000
MAX_SIZE_BYTES = 256 * 1024
MAX_TOTAL_BYTES = 64 * 1024 * 1024

SKIPPED = frozenset(
    ["__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "htmlcov"]
)
"""Folders without sources, where no git tells; those that begin with a dot are passed over too."""

KEPT = (".github", ".gitlab")


def list_files(root: Path) -> tuple[list[str], bool]:
    """Returns the files below a folder, sorted, and whether these are all.

    Args:
        root: The folder; with git, what it ignores is left out.
    """
    found = _git_files(root)
    if found is None:
        found = _walked(root)
    return sorted(found[:MAX_FILES]), len(found) <= MAX_FILES


def read_texts(root: Path, paths: Iterable[str]) -> tuple[dict[str, bytes], bool]:
    """Returns the bytes of the files that hold text, and whether there was room for all.

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


def _git_files(root: Path) -> list[str] | None:
    """Returns what git knows or would take up, or None where it does not answer."""
    # Empty is off for every git; otherwise a repository's configuration names a program that runs.
    argv = ["git", "-c", "core.fsmonitor=", "ls-files", "-z", "--cached", "--others"]
    argv += ["--exclude-standard", "--", "."]
    found: list[str] = []
    rest = b""
    try:
        with subprocess.Popen(
            argv, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as git:  # fmt: skip
            assert git.stdout is not None
            while len(found) <= MAX_FILES and (block := git.stdout.read(1 << 16)):
                *rows, rest = (rest + block).split(b"\0")
                found += [row.decode("utf-8", "surrogateescape") for row in rows]
            if len(found) > MAX_FILES:
                git.kill()
                return found
    except OSError:
        return None
    return found if git.returncode == 0 else None


def _walked(root: Path) -> list[str]:
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if name not in SKIPPED
            and not name.endswith(".egg-info")
            and (not name.startswith(".") or name in KEPT)
        )
        inside = Path(folder).relative_to(root)
        found += [(inside / name).as_posix() for name in sorted(names)]
        if len(found) > MAX_FILES:
            break
    return found
