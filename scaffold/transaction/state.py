"""Where the state of a target lives, its journal and its lock, and how the lock is held.

State is no part of the target: it lies in git's own folder, as ``git rev-parse --git-path`` would
say, but read from the files, and whatever GIT_DIR is, so that every process means the same lock.
Where there is no git folder, or it cannot be written, state lies beside the ledger.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Literal, get_args

from scaffold.errors import ApplyError, ConflictError
from scaffold.transaction.change import FOLDER

LOCK_WAIT_S = 5.0
"""How long a second command waits for the first before it gives up."""

Phase = Literal["staging", "ready", "undoing", "done"]
"""How far a run has come; see `scaffold.transaction.journal`."""

PHASES: tuple[Phase, ...] = get_args(Phase)

COVERAGE = "coverage"
"""The folder of state that keeps what is proven of models; see `scaffold.archon.coverage`."""

# What the system answers where a folder may not be written: EROFS on a read-only mount.
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
# What the lock calls answer where somebody else holds it: EAGAIN is flock's, the others Windows'.
_HELD = {errno.EACCES, errno.EAGAIN, errno.EDEADLK}
# Below the 255 bytes that file systems allow a name.
_LONGEST_NAME = 200


def state_folders(root: Path) -> tuple[Path, ...]:
    """Return the folders that may hold the state of a target, the preferred one first.

    Args:
        root: The target's folder, resolved: a link to it has the same state.
    """
    beside = root / FOLDER / "state"
    # The innermost repository around the target; a target need not be the root of it.
    for folder in (root, *root.parents):
        git = _git_folder(folder)
        if git is not None:
            return git / "areal-scaffold" / _state_name(root.relative_to(folder)), beside
    return (beside,)


def has_journal(root: Path) -> bool:
    """Return whether a run on a target was interrupted, or is going on."""
    return find_journal(root.resolve()) is not None


def find_journal(root: Path) -> tuple[Path, Phase] | None:
    """Return the state folder that holds a journal, and its phase, or None."""
    for state in state_folders(root):
        for phase in PHASES:
            try:
                if journal_path(state, phase).exists():
                    return state, phase
            except OSError:
                continue
    return None


def journal_path(state: Path, phase: Phase) -> Path:
    """Return the file of a journal in one of its phases."""
    return state / f"journal-{phase}.json"


def _git_folder(folder: Path) -> Path | None:
    """Return git's own folder of a working tree; a worktree or a submodule has a file there."""
    git = folder / ".git"
    try:
        if git.is_file():
            text = os.fsdecode(git.read_bytes())
            if not text.startswith("gitdir:"):
                return None
            git = folder / text.removeprefix("gitdir:").strip()
        # A folder that is only called .git is none of git's.
        return git if (git / "HEAD").is_file() else None
    except OSError:  # not ours to read: as if there were none
        return None


def _state_name(inside: Path) -> str:
    """Return one name for a target's place in its repository, different for each place."""
    # As in a URL, so that `a/b` and a folder `a%2Fb` have states of their own.
    name = "%2F".join(["root", *(part.replace("%", "%25") for part in inside.parts)])
    if len(os.fsencode(name)) <= _LONGEST_NAME:
        return name
    import hashlib

    return f"root%{hashlib.sha256(os.fsencode(name)).hexdigest()}"


@contextmanager
def locked(root: Path, command: str) -> Generator[Path]:
    """Hold the lock of a target, and yield the folder that its state may be written to.

    The system gives the lock back however the process ends.

    Args:
        root: The target's folder, resolved.
        command: What to call the run to others that wait.

    Raises:
        ApplyError: Another command holds it for longer than LOCK_WAIT_S; the message names it.
        ConflictError: The folder beside the ledger is a link out of the target.
        OSError: No folder for the state can be written.
    """
    # One deadline for all rounds: a lock file that is removed meanwhile begins no new wait.
    deadline = monotonic() + LOCK_WAIT_S
    while not (taken := _take_locks(root, deadline)):
        pass  # the command that held it has removed it
    state, handles = taken
    _write_holder(handles[-1], f"scaffold {command} (process {os.getpid()})")
    try:
        yield state
    finally:
        _write_holder(handles[-1], "")
        _close(handles)


@contextmanager
def locked_folder(folder: Path) -> Generator[None]:
    """Hold a folder that is to be filled and renamed, where the system can lock folders.

    Raises:
        ApplyError: Another command is filling it.
    """
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        # The other may have renamed the folder between its being opened and its being locked.
        if not try_lock(handle) or not _is_at(handle, folder):
            raise ApplyError(
                f"another command is filling {folder}",
                code="locked",
                hint="run the command again when it is done",
            )
        yield
    finally:
        os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def is_locked(root: Path) -> bool:
    """Return whether a command is writing to a target at this moment."""
    for state in state_folders(root):
        try:
            handle = os.open(state / "lock", os.O_RDONLY)
        except OSError:
            continue
        try:
            # Shared, so that several commands that only look do not take each other for a writer.
            if not try_lock(handle, shared=True):
                return True
        finally:
            os.close(handle)
    return False


def _take_locks(root: Path, deadline: float) -> tuple[Path, list[int]] | None:
    """Wait for the locks; None if one was removed meanwhile, and protects nothing any more."""
    handles: list[int] = []
    try:
        state = _open_locks(root, handles)
        for handle in handles:
            _wait_for(handle, deadline)
        # `forget` may have deleted the file between its opening and its locking.
        if _is_at(handles[-1], state / "lock"):
            return state, handles
    except BaseException:
        _close(handles)
        raise
    _close(handles)
    return None


def _wait_for(handle: int, deadline: float) -> None:
    while not try_lock(handle):
        if monotonic() > deadline:
            raise ApplyError(
                f"{_read_holder(handle)} is writing to the same target",
                code="locked",
                hint="run the command again when it is done",
            )
        sleep(0.02)


def _close(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)


def _open_locks(root: Path, handles: list[int]) -> Path:
    """Open the lock files, up to that in the first folder that can be written.

    One that can be read alone is locked as well: whoever may write it is kept out by it.
    """
    folders = state_folders(root)
    for state in folders:
        try:
            _make_state(state, root if state == folders[-1] else None)
            # Not truncated: the one who holds it has left its name there.
            handles.append(os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o666))
            return state
        except OSError as error:
            if error.errno not in _FORBIDDEN or state == folders[-1]:
                raise
            with suppress(OSError):
                handles.append(os.open(state / "lock", os.O_RDONLY))
    raise AssertionError("there is a folder beside the ledger always")


def _make_state(state: Path, root: Path | None) -> None:
    """Make a folder for state; one inside the target (``root``) is hidden from git."""
    if root is not None and not state.resolve().is_relative_to(root):
        raise ConflictError(
            f"{state} leads out of {root}, to {state.resolve()}", code="outside_target"
        )
    state.mkdir(parents=True, exist_ok=True)
    if not os.access(state, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(state))
    ignore = state / ".gitignore"
    if root is not None and not ignore.exists():
        ignore.write_text("*\n")  # git, if it comes later, is not to see the lock


def _read_holder(handle: int) -> str:
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, 200).decode("utf-8", "replace").strip() or "another command"


def _write_holder(handle: int, text: str) -> None:
    """Leave word for those that wait; the lock holds without it, on a full disk for one."""
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, text.encode())


def try_lock(handle: int, *, shared: bool = False) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, 1 << 30, os.SEEK_SET)  # far behind the text: others may read that
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _HELD  # a file system without locks keeps nobody out
    return True
