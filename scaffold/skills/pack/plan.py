"""What sync is to write: what is rendered against what is there, and against what it wrote last.

Its record has one row per rendered file, in the form that ``sha256sum --check`` reads. A rendered
file is a person's once it differs from its row. Two branches may both have rendered: every row of a
path counts, and the marks of a merge conflict are passed over, so that the next sync settles the
conflict by itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.errors import ConflictError
from scaffold.skills.pack.sources import AGENTS, SKILLS
from scaffold.transaction.change import Change

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files

RECORD = ".scaffold/skills.sums"

ROOTS = (".claude/", ".claude-plugin/", ".codex/", ".opencode/")
FILES = (".agents/plugins/marketplace.json", "opencode.json")
"""Where rendered files are; a row that names another place is passed over."""

_ROW = lazy_re(r"(?P<digest>[0-9a-f]{64})  (?P<path>\S.*)")

# Folders that repositories link to their sources in whole or skill by skill.
_SOURCES = {".claude/skills": SKILLS, ".claude/agents": AGENTS, ".opencode/agents": AGENTS}


def digest(data: bytes) -> str:
    """Return the hash of a file's bytes; git may have changed the ends of its lines."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def is_same_text(one: bytes | None, other: bytes | None) -> bool:
    """Return whether two files are the same but for the ends of their lines, as git checks out."""
    if one is None or other is None or one == other:
        return one == other
    # In a binary file CR and LF are bytes like any other.
    return b"\0" not in one and one.replace(b"\r\n", b"\n") == other.replace(b"\r\n", b"\n")


def read_record(text: str) -> dict[str, frozenset[str]]:
    """Return the digests of each path that sync has written."""
    found: dict[str, set[str]] = {}
    for row in text.splitlines():
        match = _ROW.fullmatch(row)
        path = match["path"] if match is not None else ""
        # Where sync may have written: the record is a file that anybody can write.
        is_ours = path in FILES or (path.startswith(ROOTS) and ".." not in path.split("/"))
        if match is not None and is_ours:
            # Both sides of an unresolved merge count as written by sync.
            found.setdefault(path, set()).add(match["digest"])
    return {path: frozenset(digests) for path, digests in found.items()}


def record_text(rendered: Mapping[str, bytes]) -> bytes:
    return "".join(f"{digest(rendered[path])}  {path}\n" for path in sorted(rendered)).encode()


class Rendered(NamedTuple):
    """One file as it is to be.

    Args:
        can_run: Whether it has its run bits; None where that does not matter.
    """

    path: str
    data: bytes
    can_run: bool | None


@dataclass
class SyncPlan:
    """Everything that a sync comes to.

    Args:
        changes: What to write, the record last.
        edited: Rendered files that a person changed, with what is there now.
        stray: Files beside rendered ones that have no source.
        linked: Rendered paths that a link leads back to the source.
        count: How many files are rendered.
    """

    changes: list[Change] = field(default_factory=list[Change])
    edited: list[str] = field(default_factory=list[str])
    stray: list[str] = field(default_factory=list[str])
    linked: list[str] = field(default_factory=list[str])
    count: int = 0


def plan_sync(
    files: Files,
    rendered: Mapping[str, bytes],
    modes: Mapping[str, bool],
    overwrite: frozenset[str] = frozenset(),
) -> SyncPlan:
    """Compare what is rendered with what is there.

    Args:
        rendered: Every rendered file by path.
        modes: Whether a rendered file can be run, where that is to be kept.
        overwrite: Files and folders whose edits may be lost.

    Raises:
        ConflictError: A rendered path leads out of the repository, or cannot be read.
    """
    root = files.root
    plan = SyncPlan(count=len(rendered))
    before = _read(root, RECORD)
    recorded = read_record((before or b"").decode("utf-8", "replace"))
    for path, data in sorted(rendered.items()):
        wanted = Rendered(path, data, modes.get(path))
        _plan_file(plan, root, wanted, recorded.get(path, frozenset()), overwrite)
    # Only recorded paths: a file that sync never wrote is not its to delete.
    for path in sorted(set(recorded) - set(rendered)):
        _plan_leftover(plan, root, path, recorded[path], overwrite)
    plan.stray = _stray(files, rendered, recorded)
    kept = {path: data for path, data in rendered.items() if path not in plan.linked}
    after = _record(plan, kept, recorded)
    if after != (before or b""):
        plan.changes.append(Change(RECORD, "record", before, after or None))
    return plan


def _plan_file(
    plan: SyncPlan,
    root: Path,
    wanted: Rendered,
    written: frozenset[str],
    overwrite: frozenset[str],
) -> None:
    path, data, can_run = wanted
    if _leads_to_source(root, path):
        plan.linked.append(path)
        return
    now = _read(root, path)
    if now is None:
        plan.changes.append(Change(path, "created", None, data, can_run or None))
    elif now == data:
        if can_run is not None and os.name != "nt" and os.access(root / path, os.X_OK) != can_run:
            plan.changes.append(Change(path, "edited", now, data, can_run))
    # A file that differs from what is wanted by its line ends alone is nobody's edit.
    elif digest(now) in written or digest(now) == digest(data) or _is_named(path, overwrite):
        plan.changes.append(Change(path, "edited", now, data, can_run))
    else:
        plan.edited.append(path)


def _plan_leftover(
    plan: SyncPlan, root: Path, path: str, written: frozenset[str], overwrite: frozenset[str]
) -> None:
    """Remove what was rendered from a source that is gone, unless a person changed it."""
    if _leads_to_source(root, path):
        return
    now = _read(root, path)
    if now is None:
        return
    if digest(now) in written or _is_named(path, overwrite):
        plan.changes.append(Change(path, "deleted", now, None))
    else:
        plan.edited.append(path)


def _record(
    plan: SyncPlan, rendered: Mapping[str, bytes], recorded: Mapping[str, frozenset[str]]
) -> bytes:
    """Return the record to be; what a person changed keeps its row, so that it stays known."""
    rows = record_text({path: each for path, each in rendered.items() if path not in plan.edited})
    kept = [f"{old}  {path}" for path in plan.edited for old in recorded.get(path, frozenset())]
    # By path, which begins behind 64 digits and two blanks: merges then touch few lines.
    lines = sorted([*rows.decode().splitlines(), *kept], key=lambda row: (row[66:], row))
    return "".join(f"{line}\n" for line in lines).encode()


def _stray(
    files: Files, rendered: Mapping[str, bytes], recorded: Mapping[str, frozenset[str]]
) -> list[str]:
    """Return files in rendered skills that have no source and sync did not write.

    What git ignores, such as what a desktop leaves in every folder, is nobody's.
    """
    folders = {
        # `.claude/skills/NAME`.
        "/".join(path.split("/")[:3])
        for path in rendered
        if path.startswith(".claude/skills/")
    }
    return [
        path
        for path in sorted(files.paths)
        if "/".join(path.split("/")[:3]) in folders
        and path not in rendered
        and path not in recorded
        and not _leads_to_source(files.root, path)
    ]


def _is_named(path: str, overwrite: frozenset[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(each) for each in overwrite)


def _leads_to_source(root: Path, path: str) -> bool:
    """Return whether a rendered path and the source that it is rendered from are one by a link.

    Raises:
        ConflictError: A link leads out of the repository.
    """
    real, top = Path(os.path.realpath(root / path)), Path(os.path.realpath(root))
    folder = "/".join(path.split("/")[:2])
    if folder in _SOURCES and real == Path(
        os.path.realpath(root / _SOURCES[folder] / path[len(folder) + 1 :])
    ):
        return True
    if real == top / path:
        return False
    if not real.is_relative_to(top):
        raise ConflictError(f"{path} leads out of the repository, to {real}", code="outside_target")
    return real.is_relative_to(top / ".agents")


def _read(root: Path, path: str) -> bytes | None:
    place = root / path
    try:
        if place.exists() and not place.is_file():
            raise ConflictError(f"{path} cannot be read: it is not a file", code="file_exists")
        return place.read_bytes()
    except (FileNotFoundError, NotADirectoryError):  # writing reports what is in the way
        return None
    except OSError as error:
        raise ConflictError(
            f"{path} cannot be read: {error.strerror}", code="file_exists"
        ) from error
