"""The journal of a run that writes: enough to finish it, or to undo it, if it is cut short.

Version 1: one JSON object ``{"schema", "command", "phase", "folders", "steps"}``, paths relative to
the target. Phase "staging" means that nothing but stages and backups was written, and all of it is
to be dropped; phase "ready" means that every stage is whole on disk. A step names a file, the hash
before (null where nothing stood) and after, and the stage and backup beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, BinaryIO, Literal

from scaffold.ledger import FOLDER
from scaffold.spec import ApplyError

JOURNAL_SCHEMA = 1
LOCK_WAIT_S = 5.0
"""How long a second command waits for the first before it gives up."""


@dataclass(frozen=True)
class JournalStep:
    """Is one file to be put in place; paths are relative to the root."""

    path: str
    before: str | None
    after: str
    stage: str
    backup: str


@dataclass(frozen=True)
class Journal:
    """Is one run: the folders that it makes and the files that it puts in place."""

    command: str
    phase: Literal["staging", "ready"]
    folders: tuple[str, ...]
    steps: tuple[JournalStep, ...]


def state_folder(root: Path) -> Path:
    """Returns where journal and lock of a target live: in git's own folder, else by the ledger.

    It is what ``git rev-parse --git-path`` says, read from the files: a linked worktree and a
    submodule have a file ``.git`` that names their folder.
    """
    for folder in (root, *root.parents):
        git = folder / ".git"
        if git.is_file():
            text = git.read_text(encoding="utf-8", errors="replace")
            git = folder / text.removeprefix("gitdir:").strip()
        if (git / "HEAD").is_file():
            return git / "areal-scaffold" / ("-".join(root.relative_to(folder).parts) or "root")
    return root / FOLDER / "state"


def has_journal(root: Path) -> bool:
    """Tells whether a run on a target was cut short, or is going on."""
    return (state_folder(root.resolve()) / "journal.json").exists()


def write_journal(path: Path, journal: Journal) -> None:
    """Puts the journal on disk in one step, whole or not at all."""
    import json

    fresh = path.with_suffix(".new")
    write_durably(
        fresh, json.dumps({"schema": JOURNAL_SCHEMA, **asdict(journal)}, indent=1).encode()
    )
    os.replace(fresh, path)
    sync_folder(path.parent)


def read_journal(path: Path) -> Journal | None:
    """Returns the journal of an unfinished run, or None.

    Raises:
        ApplyError: It cannot be read, or a newer version wrote it.
    """
    import json

    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
        schema = data.pop("schema")
        if schema > JOURNAL_SCHEMA:
            raise ApplyError(
                f"{path} has journal schema {schema}; this version reads up to {JOURNAL_SCHEMA}",
                code="target_newer",
                hint="pip install --upgrade areal-scaffold",
            )
        steps = tuple(JournalStep(**step) for step in data.pop("steps"))
        folders = tuple(data.pop("folders"))
        return Journal(**data, folders=folders, steps=steps)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ApplyError(
            f"the journal {path} cannot be read: {error}",
            code="journal_unfinished",
            hint="look at the working tree, then delete the journal",
        ) from error


def write_durably(path: Path, data: bytes, mode: int | None = None) -> None:
    """Writes a file and waits until it is on disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if mode is not None:
        path.chmod(mode)


def sync_folder(path: Path) -> None:
    """Waits until the names in a folder are on disk; a no-op where folders cannot be opened."""
    if sys.platform != "win32":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def locked(state: Path, command: str) -> Generator[None]:
    """Holds the lock of a target while its files are written.

    Raises:
        ApplyError: Another command holds it for longer than LOCK_WAIT_S; the message says which.
    """
    state.mkdir(parents=True, exist_ok=True)
    if FOLDER in state.parts:
        (state / ".gitignore").write_text("*\n")  # git, if it comes later, is not to see the lock
    with (state / "lock").open("a+b") as file:
        deadline = monotonic() + LOCK_WAIT_S
        while not _try_lock(file):
            if monotonic() > deadline:
                file.seek(0)
                holder = file.read(200).decode("utf-8", "replace").strip() or "another command"
                raise ApplyError(
                    f"{holder} is writing to the same target",
                    code="locked",
                    hint="run the command again when it is done",
                )
            sleep(0.02)
        file.seek(0)
        file.truncate()
        file.write(f"scaffold {command} (process {os.getpid()})".encode())
        file.flush()
        try:
            yield
        finally:
            file.seek(0)
            file.truncate()


def _try_lock(file: BinaryIO) -> bool:
    """Takes the lock if it is free; the system gives it back however the process ends."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(1 << 30)  # far behind the text, which others may then read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
