"""The journal of a run that writes: enough to finish it, or to undo it, if it is cut short.

A journal is one file ``journal-<phase>.json`` in the target's state folder, so that a run goes from
phase to phase by renaming it, which needs no space on a full disk:

- staging: nothing but folders, stages and backups was made, and all of it is to be dropped;
- ready: every stage is whole on disk, and files are being put in place;
- undoing: files are being put back;
- done: every file is in place, and stages and backups are to be dropped.

Version 1 of the format is one object ``{"schema", "command", "token", "folders", "pruned",
"steps"}`` with paths relative to the target. A step names a file and its hash before and after,
null where there is no file. Its stage and backup lie beside it, under names made from the token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from scaffold.errors import ApplyError
from scaffold.transaction import disk
from scaffold.transaction.state import Phase, find_journal, is_locked, journal_path

JOURNAL_SCHEMA = 1
"""The newest journal format that this version reads."""


@dataclass(frozen=True)
class JournalStep:
    """One file to be put in place, or to be deleted (``after`` None)."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Journal:
    """One run.

    Args:
        command: What the run was called.
        token: What distinguishes its stages and backups from all other files.
        folders: The folders that it makes, outermost first.
        pruned: The folders that it removes at the end if they are empty, innermost first.
        steps: The files that it changes.
    """

    command: str
    token: str
    folders: tuple[str, ...]
    pruned: tuple[str, ...]
    steps: tuple[JournalStep, ...]

    def stage(self, index: int) -> str:
        """Return where the new bytes of a step wait, relative to the root."""
        return self._beside(index, "new")

    def backup(self, index: int) -> str:
        """Return where the old bytes of a step are kept, relative to the root."""
        return self._beside(index, "old")

    def _beside(self, index: int, suffix: str) -> str:
        name = f".scaffold-{self.token}-{index}.{suffix}"
        return str(PurePosixPath(self.steps[index].path).with_name(name))


@dataclass(frozen=True)
class Leftover:
    """What a run that was interrupted has left, or what one that is going on is at.

    Args:
        command: What the run was called.
        phase: How far it came; see the head of this module.
        files: The files that it changes, relative to the root.
        is_running: Whether it still goes on.
        journal: The journal's file.
    """

    command: str
    phase: Phase
    files: tuple[str, ...]
    is_running: bool
    journal: Path


def describe_leftover(root: Path) -> Leftover | None:
    """Return what a run that was interrupted has left, changing nothing; None where all is well.

    Raises:
        ApplyError: The journal cannot be read.
    """
    root = root.resolve()
    found = find_journal(root)
    if found is None:
        return None
    # Before the journal is read: a run that ends in between would look like one cut short.
    is_running = is_locked(root)
    state, phase = found
    try:
        journal = read_journal(state, phase)
    except FileNotFoundError:  # the run went on
        return describe_leftover(root)
    files = tuple(step.path for step in journal.steps)
    return Leftover(journal.command, phase, files, is_running, journal_path(state, phase))


def write_journal(state: Path, journal: Journal) -> None:
    """Put the journal of a run that begins on disk in one step, whole or not at all."""
    import json

    fresh = state / "journal.new"
    disk.DISK.unlink(fresh)
    text = json.dumps({"schema": JOURNAL_SCHEMA, **asdict(journal)}, indent=1)
    disk.DISK.create(fresh, text.encode())
    # The bytes before the name: a power cut leaves no journal, or a whole one.
    disk.DISK.sync(fresh)
    disk.DISK.replace(fresh, journal_path(state, "staging"))
    disk.DISK.sync(state)


def read_journal(state: Path, phase: Phase) -> Journal:
    """Read the journal of an unfinished run.

    Raises:
        FileNotFoundError: There is none in this phase.
        ApplyError: It cannot be read, or a newer version wrote it.
    """
    import json

    path = journal_path(state, phase)
    try:
        data: Any = json.loads(path.read_bytes())
        return _parse(data, path)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ApplyError(
            f"the journal {path} cannot be read: {error!r}",
            code="journal_unfinished",
            hint="look at the working tree, then delete the journal",
        ) from error


def _parse(data: Mapping[str, Any], path: Path) -> Journal:
    if data["schema"] > JOURNAL_SCHEMA:
        raise ApplyError(
            f"{path} has journal schema {data['schema']}; this version reads up to "
            f"{JOURNAL_SCHEMA}",
            code="target_newer",
        )
    steps = tuple(
        JournalStep(_inside(step["path"]), _hash(step["before"]), _hash(step["after"]))
        for step in data["steps"]
    )
    folders, pruned = (
        tuple(_inside(folder) for folder in data[name]) for name in ("folders", "pruned")
    )
    token = str(data["token"])
    # It becomes part of the names of files that are deleted.
    if not re.fullmatch("[0-9a-f]{8}", token):
        raise ValueError(f"{token!r} is not a token")
    return Journal(str(data["command"]), token, folders, pruned, steps)


def _inside(path: object) -> str:
    """Check a path that is to lie below the root: whoever wrote the journal may mean harm."""
    inside = Path(cast(str, path))
    if inside.anchor or not inside.parts or ".." in inside.parts:
        raise ValueError(f"{path!r} leads out of the target")
    return inside.as_posix()


def _hash(value: object) -> str | None:
    if value is not None and not (isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value)):
        raise ValueError(f"{value!r} is not a hash")
    return value
