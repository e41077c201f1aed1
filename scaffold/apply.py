"""Changes to disk, all or nothing: the only module that writes to a target.

A run holds the target's lock, writes a journal, puts every new file beside its place, and then
renames one after the other. `scaffold.journal` says what its phases mean. Between the last look at
a file and its renaming lie microseconds; what a person saves before is found and never overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from scaffold import disk
from scaffold.journal import (
    Journal,
    JournalStep,
    read_journal,
    write_journal,
)
from scaffold.ledger import digest
from scaffold.spec import ApplyError, ConflictError
from scaffold.state import (
    Phase,
    find_journal,
    journal_path,
    locked,
    locked_folder,
    state_folders,
)

if TYPE_CHECKING:
    from scaffold.changes import Change

_UNREADABLE = "unreadable"
"""Stands for the hash of what cannot be read; no file has it."""


class Session:
    """Is a target while its lock is held: nobody else writes between planning and applying.

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
        """Writes the changes of a plan; after a failure everything is as it was.

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
            journal = _new_journal(self.root, changes, self.command, prune)
            _check_unchanged(self.root, changes)
            run = _Run(self.root, self.state, journal, "staging")
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
        """Removes the target's state, its lock last: nothing of the tool is to stay."""
        for state in state_folders(self.root):
            for path in (state / ".gitignore", state / "journal.new", state / "lock"):
                with suppress(OSError):
                    disk.DISK.unlink(path)
            with suppress(OSError):  # not empty: other targets have their state there
                disk.DISK.rmdir(state)
                disk.DISK.rmdir(state.parent)


@contextmanager
def session(root: Path, command: str) -> Generator[Session]:
    """Holds the lock of a target, after settling what an earlier run left over.

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
    """Writes the changes of a plan in a session of their own; see `Session.apply`."""
    with session(root, command) as opened:
        opened.apply(changes, prune=prune)


def settle(root: Path, command: str, *, keep_edited: bool = False) -> str:
    """Finishes or undoes a run that was cut short.

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
    if find_journal(root) is None:
        return ""
    with _entered(root, command):
        return _settle(root, keep_edited=keep_edited)


def create_folder(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Makes a new folder with files in one step: it appears whole, or not at all.

    Args:
        folder: The folder; nothing stands there, or an empty folder.
        files: Relative paths with their bytes.

    Raises:
        ApplyError: Writing failed.
    """
    stage = folder.parent / f".{folder.name}.scaffold-new"
    with _as_apply_errors():
        disk.DISK.mkdir(stage)
        with locked_folder(stage):
            try:
                _empty(stage)  # of what a run that was cut short has left
                _fill(stage, files)
                if os.name == "nt" and folder.is_dir():
                    disk.DISK.rmdir(folder)  # Windows renames over no folder, be it empty
                disk.DISK.replace(stage, folder)
            except BaseException:
                _drop(stage)
                raise
    with suppress(OSError):  # it stands, and whole; without this its name is on disk a bit later
        disk.DISK.sync(folder.parent)


def _fill(stage: Path, files: Iterable[tuple[str, bytes]]) -> None:
    made = [stage]
    for path, data in files:
        place = stage / path
        for folder in reversed(place.parents):
            if folder.is_relative_to(stage) and folder not in made:
                disk.DISK.mkdir(folder)
                made.append(folder)
        disk.DISK.create(place, data)
        made.append(place)
    for path in reversed(made):
        disk.DISK.sync(path)


def _empty(folder: Path) -> None:
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            _empty(entry)
            disk.DISK.rmdir(entry)
        else:
            disk.DISK.unlink(entry)


def _drop(folder: Path) -> None:
    with suppress(OSError):
        _empty(folder)
        disk.DISK.rmdir(folder)


@contextmanager
def _entered(root: Path, command: str) -> Generator[Path]:
    """Holds the lock; what goes wrong in taking it is reported as what happens inside is not."""
    with ExitStack() as stack:
        with _as_apply_errors():
            state = stack.enter_context(locked(root, command))
        yield state


def _settle(root: Path, *, keep_edited: bool = False) -> str:
    done = ""
    while (found := find_journal(root)) is not None:
        state, phase = found
        run = _Run(root, state, read_journal(state, phase), phase)
        try:
            done = run.settle(keep_edited=keep_edited)
        except OSError as error:
            raise ApplyError(
                f"an earlier run was interrupted and cannot be settled: {_told(error)}",
                code="journal_unfinished",
                hint="check free space and permissions, then run the command again",
            ) from error
    return done


class _Run:
    """Is one run over a journal; every method may be called again after it was cut short."""

    def __init__(self, root: Path, state: Path, journal: Journal, phase: Phase) -> None:
        self.root = root
        self.state = state
        self.journal = journal
        self.phase: Phase = phase
        indices = range(len(journal.steps))
        self.places = [root / step.path for step in journal.steps]
        self.stages = [root / journal.stage(index) for index in indices]
        self.backups = [root / journal.backup(index) for index in indices]

    def stage(self, changes: Sequence[Change]) -> None:
        """Writes every new file, and keeps every old one, beside its place."""
        write_journal(self.state, self.journal)
        for folder in self.journal.folders:
            disk.DISK.mkdir(self.root / folder)
        written: list[Path] = []
        for index, change in enumerate(changes):
            if change.after is not None:
                place = self.places[index]
                like = None if change.before is None else place.stat()
                disk.DISK.create(self.stages[index], change.after, like)
                written.append(self.stages[index])
                if like is not None and not _second_name(place, self.backups[index]):
                    disk.DISK.create(self.backups[index], change.before or b"", like)
                    written.append(self.backups[index])
        for path in written:  # all at once, which most disks do in one go
            disk.DISK.sync(path)
        # A stage whose name a power cut takes away is no harm: the run is undone then. A backup is
        # what undoing needs.
        self._sync(path.parent for path in self.backups if path.exists())
        self._enter("ready")
        disk.DISK.sync(self.state)

    def put_in_place(self, kept: Iterable[int] = ()) -> None:
        """Renames every stage to its place, and what is to be deleted to its backup.

        Args:
            kept: Steps whose files were changed by a person and stay as they are.
        """
        for index, step in enumerate(self.journal.steps):
            now = self._now(index)
            if index in kept or now == step.after:
                continue
            if now != step.before:
                raise _changed(step.path)
            if step.after is None:
                disk.DISK.replace(self.places[index], self.backups[index])
            else:
                disk.DISK.replace(self.stages[index], self.places[index])
        made = [self.root / folder for folder in self.journal.folders]
        self._sync(path.parent for path in (*self.places, *made))
        self._enter("done")

    def undo(self) -> None:
        """Puts every file back as it was, as far as this run changed it, and drops the rest."""
        if self.phase != "staging":
            self._enter("undoing")
            for index, step in enumerate(self.journal.steps):
                if self._now(index) == step.after:
                    self._put_back(index, step)
            self._sync(path.parent for path in self.places)
        self.clean_up()

    def clean_up(self) -> None:
        """Drops stages and backups, folders that are not wanted and, last, the journal."""
        for path in (*self.stages, *self.backups):
            disk.DISK.unlink(path)
        is_done = self.phase == "done"
        for folder in self.journal.pruned if is_done else reversed(self.journal.folders):
            with suppress(OSError):  # not empty: somebody else has something there
                disk.DISK.rmdir(self.root / folder)
        disk.DISK.unlink(journal_path(self.state, self.phase))

    def settle(self, *, keep_edited: bool) -> str:
        """Ends a run that was cut short, in whatever phase; returns "finished" or "undone"."""
        self._check_places()
        edited = self._edited() if self.phase in ("ready", "undoing") else []
        if edited and not keep_edited:
            raise self._refusal(edited)
        if self.phase == "ready" and self._can_finish(edited):
            self.put_in_place(edited)
        if self.phase == "done":
            self.clean_up()
            return "finished"
        if self.phase != "staging" and not self._can_undo(edited):
            raise self._refusal([i for i in range(len(self.places)) if not self._is_back(i)])
        self.undo()
        return "undone"

    def _enter(self, phase: Phase) -> None:
        if phase != self.phase:
            disk.DISK.replace(journal_path(self.state, self.phase), journal_path(self.state, phase))
            self.phase = phase

    def _put_back(self, index: int, step: JournalStep) -> None:
        if step.before is None:
            disk.DISK.unlink(self.places[index])
        elif _hash(self.backups[index]) == step.before:
            disk.DISK.replace(self.backups[index], self.places[index])

    def _now(self, index: int) -> str | None:
        return _hash(self.places[index])

    def _edited(self) -> list[int]:
        """Returns the steps whose files are neither as before nor as they were to be."""
        steps = enumerate(self.journal.steps)
        return [i for i, step in steps if self._now(i) not in (step.before, step.after)]

    def _can_finish(self, kept: Iterable[int]) -> bool:
        return all(
            index in kept
            or self._now(index) == step.after
            or step.after is None
            or _hash(self.stages[index]) == step.after
            for index, step in enumerate(self.journal.steps)
        )

    def _can_undo(self, kept: Iterable[int]) -> bool:
        return all(index in kept or self._is_back(index) for index in range(len(self.places)))

    def _is_back(self, index: int) -> bool:
        """Tells whether a file is as before, or can be put back."""
        before = self.journal.steps[index].before
        return before is None or before in (self._now(index), _hash(self.backups[index]))

    def _check_places(self) -> None:
        """Raises ApplyError if a folder has become a link since: it may lead anywhere."""
        for place in self.places:
            if place.parent.resolve() != place.parent:
                raise ApplyError(
                    f"an earlier run was interrupted, and {place.parent} leads elsewhere since",
                    code="journal_unfinished",
                    hint="put the folder back, then run the command again",
                )

    def _refusal(self, indices: Iterable[int]) -> ApplyError:
        files = ", ".join(self.journal.steps[index].path for index in indices)
        return ApplyError(
            f"an earlier run (scaffold {self.journal.command}) was interrupted, and changed since: "
            f"{files}; nothing was touched",
            code="journal_unfinished",
            hint="put these files back as they were, or keep them as they are and settle the rest "
            "with: scaffold recover --keep-edited",
        )

    def _sync(self, folders: Iterable[Path]) -> None:
        for folder in dict.fromkeys(folders):
            if folder.is_dir():  # one that a person has removed needs no care
                disk.DISK.sync(folder)


def _new_journal(root: Path, changes: Sequence[Change], command: str, prune: bool) -> Journal:
    folders: dict[str, None] = {}
    pruned: dict[str, None] = {}
    steps: dict[str, JournalStep] = {}
    for change in changes:
        place = _real_place(root, change.path)
        path = place.relative_to(root).as_posix()
        if path in steps:
            raise ConflictError(
                f"{change.path} is the same file as {path}, which is changed too",
                code="file_exists",
            )
        inner = [str(each) for each in PurePosixPath(path).parents[:-1]]
        if change.after is not None:
            missing = [each for each in inner if not (root / each).exists()]
            folders.update(dict.fromkeys(reversed(missing)))
        elif prune:
            pruned.update(dict.fromkeys(inner))
        steps[path] = JournalStep(path, _hash_of(change.before), _hash_of(change.after))
    innermost_first = sorted(pruned, key=lambda folder: -folder.count("/"))
    token = os.urandom(4).hex()
    return Journal(command, token, tuple(folders), tuple(innermost_first), tuple(steps.values()))


def _real_place(root: Path, path: str) -> Path:
    """Returns what a path leads to, so that a link inside the target stays a link."""
    place = (root / path).resolve()
    if not place.is_relative_to(root):
        raise ConflictError(f"{path} leads out of {root}, to {place}", code="outside_target")
    return place


def _check_unchanged(root: Path, changes: Iterable[Change]) -> None:
    """Checks that every file is as the plan saw it, and that its owner lets it be written."""
    for change in changes:
        place = _real_place(root, change.path)
        if _hash(place) != _hash_of(change.before):
            raise _changed(change.path)
        if change.before is not None and not os.access(place, os.W_OK):
            raise ApplyError(
                f"{change.path} is read-only; nothing was changed",
                code="write_failed",
                hint="give write permission, then run the command again",
            )


def _second_name(place: Path, backup: Path) -> bool:
    """Keeps an old file by a second name, which costs no space; some file systems have none."""
    try:
        disk.DISK.link(place, backup)
    except (PermissionError, NotImplementedError):
        return False
    except OSError as error:
        import errno

        if error.errno in (errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            return False
        raise
    return True


def _undo_after(run: _Run, error: BaseException) -> None:
    """Undoes a run that failed; if that fails as well the journal stays, and is reported."""
    try:
        run.undo()
    except OSError as second:
        raise ApplyError(
            f"writing failed ({error}), and so did putting everything back ({second})",
            code="journal_unfinished",
            hint="check free space and permissions; then `scaffold recover`, or the next command "
            "that writes, finishes the run or puts everything back",
        ) from error


def _clean_up_after(run: _Run, error: BaseException) -> None:
    """Tries once more to drop what a run that is done needs no longer."""
    try:
        run.clean_up()
    except OSError as second:
        raise ApplyError(
            f"everything was written, but what was needed for it cannot be removed: {second}",
            code="journal_unfinished",
            hint="check permissions; then `scaffold recover`, or the next command that writes, "
            "removes it",
        ) from error
    if not isinstance(error, OSError):
        raise error


def _hash(path: Path) -> str | None:
    try:
        return digest(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return _UNREADABLE


def _hash_of(data: bytes | None) -> str | None:
    return None if data is None else digest(data)


def _changed(path: str) -> ConflictError:
    return ConflictError(
        f"{path} changed while the command ran; nothing was written",
        code="changed_meanwhile",
        hint="run the command again",
    )


@contextmanager
def _as_apply_errors() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise ApplyError(
            f"writing failed, nothing was changed: {_told(error)}",
            code="write_failed",
            hint="check free space and permissions, then run the command again",
        ) from error


def _told(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"
