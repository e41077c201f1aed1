"""The files that a plan looks at, read once: what is where, and what a link really leads to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class FileState:
    """One path as it was found.

    Args:
        data: The file's bytes, or None where there is no file.
        problem: Why the path cannot be written, empty where it can.
        is_outside: Whether the path leads out of the root.
    """

    data: bytes | None = None
    problem: str = ""
    is_outside: bool = False


@dataclass(frozen=True)
class Snapshot:
    """What was found at the asked paths, relative to one root.

    Args:
        files: Path to what is there.
        siblings: Names of the units of the same kind that were made before.
        neighbours: Path to the names of all that is in its folder.
        owners: Path to the id of the unit that made the file.
    """

    files: Mapping[str, FileState]
    siblings: tuple[str, ...] = ()
    neighbours: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    owners: Mapping[str, str] = field(default_factory=dict[str, str])

    def data(self, path: str) -> bytes | None:
        """Return the bytes of a file, or None where there is none."""
        return self.files[path].data


def take_snapshot(
    root: Path, paths: Iterable[str], siblings: Iterable[str] = (), listed: Iterable[str] = ()
) -> Snapshot:
    """Read the given paths under a root, without writing or following links out of it.

    Args:
        root: The target's folder.
        paths: What is read.
        siblings: See `Snapshot`.
        listed: The paths whose folders are listed.
    """
    real_root = root.resolve()
    files = {path: _state(real_root, path) for path in paths}
    return Snapshot(files, tuple(siblings), {path: _names_beside(root / path) for path in listed})


def _state(root: Path, path: str) -> FileState:
    place = root / path
    try:
        real = place.resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        return FileState(problem=f"cannot be resolved: {error}")
    if not real.is_relative_to(root):
        return FileState(problem=f"leads out of {root}, to {real}", is_outside=True)
    if real.is_dir():
        return FileState(problem="is a folder")
    if real.is_file():
        return _read(real)
    if place.is_symlink():
        return FileState(problem="is a broken link")
    if real.exists():
        return FileState(problem="is not a regular file")
    # The nearest folder that exists: missing ones in between are made, unless a file is in their
    # way.
    parent = next(each for each in real.parents if each.exists())
    return FileState(problem="" if parent.is_dir() else f"is below {parent}, which is a file")


def _read(path: Path) -> FileState:
    try:
        return FileState(path.read_bytes())
    except OSError as error:
        return FileState(problem=f"cannot be read: {error.strerror}")


def _names_beside(path: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(each.name for each in path.parent.iterdir()))
    except OSError:
        return ()
