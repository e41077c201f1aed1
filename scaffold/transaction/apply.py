"""Changes to disk, all or nothing: the only module that writes to a target.

A run holds the target's lock, writes a journal, puts every new file beside its place, and then
renames one after the other. `scaffold.transaction.journal` explains its phases. Between the last
look at a file and its renaming lie microseconds; what a person saves before is found and never
overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scaffold.errors import ApplyError
from scaffold.transaction import disk
from scaffold.transaction.journal import read_journal
from scaffold.transaction.state import COVERAGE, find_journal, locked, locked_folder, state_folders
from scaffold.transaction.transaction import Transaction, check_unchanged, new_journal, reason_of

if TYPE_CHECKING:
    from scaffold.transaction.change import Change


class Session:
    """A target while its lock is held: nobody else writes between planning and applying.

    Args:
        root: The target's folder, resolved.
        state: Where the journal goes.
        command: What the run is called.
        settled: What was done about an earlier run: "" (nothing was left over), "finished" or
            "undone".
    """

    def __init__(self, root: Path, state: Path, command: str, settled: str) -> None:
        self.root = root
        self.state = state
        self.command = command
        self.settled = settled

    def apply(self, changes: Sequence[Change], *, prune: bool = False) -> None:
        """Write the changes of a plan; after a failure everything is as it was.

        Args:
            changes: What to write; a file that is not as planned any more stops the run.
            prune: Whether folders that the deletions leave empty are removed as well, up to the
                root.

        Raises:
            ConflictError: A file changed since the plan was made, or leads out of the target.
            ApplyError: Writing failed.
        """
        if not changes:
            return
        with _as_apply_errors():
            # Both checks come before the first byte is written: a refusal leaves nothing to undo.
            journal = new_journal(self.root, changes, self.command, prune)
            check_unchanged(self.root, changes)
            run = Transaction(self.root, self.state, journal, "staging")
            try:
                run.stage(changes)
                run.put_in_place()
            except BaseException as error:
                _undo_after(run, error)
                raise
        try:
            run.clean_up()
        except BaseException as error:
            _clean_up_after(run, error)

    def forget(self) -> None:
        """Remove the target's state, its lock last: nothing of the tool is to stay."""
        # A run may have written to either folder, depending on whether git's own was writable then.
        for state in state_folders(self.root):
            for path in (state / COVERAGE).glob("*"):
                with suppress(OSError):
                    disk.DISK.unlink(path)
            with suppress(OSError):
                disk.DISK.rmdir(state / COVERAGE)
            # The lock goes last: until then nobody else can begin here.
            for path in (state / ".gitignore", state / "journal.new", state / "lock"):
                with suppress(OSError):
                    disk.DISK.unlink(path)
            with suppress(OSError):  # not empty: other targets have their state there
                disk.DISK.rmdir(state)
                disk.DISK.rmdir(state.parent)


@contextmanager
def session(root: Path, command: str) -> Generator[Session]:
    """Hold the lock of a target, after settling what an earlier run left over.

    What is planned inside is planned on what will be there: two commands at once both come to
    pass. Import what planning needs before, so that others wait for the planning alone.

    Args:
        root: The target's folder.
        command: What to call the run in the journal and to others that wait for the lock.

    Raises:
        ApplyError: Another command holds the lock, or what is left over cannot be settled.
    """
    root = root.resolve()
    with _entered(root, command) as state:
        yield Session(root, state, command, _settle(root))


def apply_changes(
    root: Path, changes: Sequence[Change], command: str, *, prune: bool = False
) -> None:
    """Write the changes of a plan in a session of their own; see `Session.apply`."""
    with session(root, command) as opened:
        opened.apply(changes, prune=prune)


def settle(root: Path, command: str, *, keep_edited: bool = False) -> str:
    """Finish or undo a run that was interrupted.

    Args:
        root: The target's folder.
        command: What to call this run to others that wait for the lock.
        keep_edited: Whether files that were changed since stay as they are while the rest is
            settled; without it they stop the run before anything is touched.

    Returns:
        What was done: "" (nothing was left over), "finished" or "undone".

    Raises:
        ApplyError: A file is neither as it was before nor as it was to be; nothing was touched.
    """
    root = root.resolve()
    # Without a journal there is nothing to settle, and no lock to create in a target that may be
    # read-only.
    if find_journal(root) is None:
        return ""
    with _entered(root, command):
        return _settle(root, keep_edited=keep_edited)


def create_folder(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Make a new folder with files in one step: it appears whole, or not at all.

    Args:
        folder: The folder; nothing is there, or an empty folder.
        files: Relative paths with their bytes.

    Raises:
        ApplyError: Writing failed.
    """
    # The name is fixed: what a run that was killed has left is found and emptied by the next one.
    stage = folder.parent / f".{folder.name}.scaffold-new"
    with _as_apply_errors():
        disk.DISK.mkdir(stage)
        with locked_folder(stage):
            try:
                _empty(stage)  # of what a run that was interrupted has left
                _fill(stage, files)
                if os.name == "nt" and folder.is_dir():
                    disk.DISK.rmdir(folder)  # Windows renames over no folder, be it empty
                disk.DISK.replace(stage, folder)
            except BaseException:
                with suppress(OSError):
                    _empty(stage)
                    disk.DISK.rmdir(stage)
                raise
    with suppress(OSError):  # it is there, and whole; without this its name is on disk a bit later
        disk.DISK.sync(folder.parent)


def _fill(stage: Path, files: Iterable[tuple[str, bytes]]) -> None:
    made = [stage]
    for path, data in files:
        place = stage / path
        # Outermost first.
        for folder in reversed(place.parents):
            if folder.is_relative_to(stage) and folder not in made:
                disk.DISK.mkdir(folder)
                made.append(folder)
        disk.DISK.create(place, data)
        made.append(place)
    # Files before their folders: a folder on disk names nothing that is not.
    for path in reversed(made):
        disk.DISK.sync(path)


def _empty(folder: Path) -> None:
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            _empty(entry)
            disk.DISK.rmdir(entry)
        else:
            disk.DISK.unlink(entry)


@contextmanager
def _entered(root: Path, command: str) -> Generator[Path]:
    """Hold the lock; what goes wrong in taking it is reported as what happens inside is not."""
    with ExitStack() as stack:
        with _as_apply_errors():
            state = stack.enter_context(locked(root, command))
        yield state


def _settle(root: Path, *, keep_edited: bool = False) -> str:
    done = ""
    # Two state folders may hold a journal each: a run that could not write to git's used the other.
    while (found := find_journal(root)) is not None:
        state, phase = found
        run = Transaction(root, state, read_journal(state, phase), phase)
        try:
            done = run.settle(keep_edited=keep_edited)
        except OSError as error:
            raise ApplyError(
                f"an earlier run was interrupted and cannot be settled: {reason_of(error)}",
                code="journal_unfinished",
                hint="check free space and permissions, then run the command again",
            ) from error
    return done


def _undo_after(run: Transaction, error: BaseException) -> None:
    """Undo a run that failed; if that fails as well the journal stays, and is reported."""
    try:
        run.undo()
    except OSError as second:
        raise ApplyError(
            f"writing failed ({error}), and so did putting everything back ({second})",
            code="journal_unfinished",
            hint="check free space and permissions; then `scaffold recover`, or the next command "
            "that writes, finishes the run or puts everything back",
        ) from error


def _clean_up_after(run: Transaction, error: BaseException) -> None:
    """Try once more to drop what a run that is done needs no longer."""
    try:
        run.clean_up()
    except OSError as second:
        raise ApplyError(
            f"everything was written, but what was needed for it cannot be removed: {second}",
            code="journal_unfinished",
            hint="check permissions; then `scaffold recover`, or the next command that writes, "
            "removes it",
        ) from error
    # Ctrl-C in the cleaning: everything is written, but the person wanted to stop.
    if not isinstance(error, OSError):
        raise error


@contextmanager
def _as_apply_errors() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise ApplyError(
            f"writing failed, nothing was changed: {reason_of(error)}",
            code="write_failed",
            hint="check free space and permissions, then run the command again",
        ) from error
