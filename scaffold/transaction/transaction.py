"""One run over a journal: every step of it, and its way back, may be cut short and called again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from scaffold.errors import ApplyError, ConflictError
from scaffold.transaction import disk
from scaffold.transaction.digest import digest
from scaffold.transaction.journal import Journal, JournalStep, write_journal
from scaffold.transaction.state import Phase, journal_path

if TYPE_CHECKING:
    from scaffold.transaction.change import Change

_UNREADABLE = "unreadable"
"""Takes the place of the hash of what cannot be read; no file has it."""


class Transaction:
    """One run over a journal; every method may be called again after it was interrupted."""

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
        """Write every new file, and keep every old one, beside its place."""
        # The journal first: by its token all that is made from here on can be found.
        write_journal(self.state, self.journal)
        for folder in self.journal.folders:
            disk.DISK.mkdir(self.root / folder)
        written: list[Path] = []
        for index, change in enumerate(changes):
            if change.after is not None:
                place = self.places[index]
                # An edited file keeps its mode and owner, although it becomes another inode.
                like = None if change.before is None else place.stat()
                disk.DISK.create(self.stages[index], change.after, like)
                if change.executable is not None:
                    disk.DISK.set_run_bits(self.stages[index], change.executable)
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
        """Rename every stage to its place, and what is to be deleted to its backup.

        Args:
            kept: Steps whose files were changed by a person and stay as they are.
        """
        for index, step in enumerate(self.journal.steps):
            now = self._now(index)
            is_put = now == step.after
            if is_put and step.before == step.after:  # only its mode changes
                is_put = not self.stages[index].exists()
            if index in kept or is_put:
                continue
            # The last look at the file, just in front of its renaming.
            if now != step.before:
                raise _changed(step.path)
            if step.after is None:
                disk.DISK.replace(self.places[index], self.backups[index])
            else:
                disk.DISK.replace(self.stages[index], self.places[index])
        made = [self.root / folder for folder in self.journal.folders]
        # The names have to be on disk before the journal calls the run done.
        self._sync(path.parent for path in (*self.places, *made))
        self._enter("done")

    def undo(self) -> None:
        """Put every file back as it was, as far as this run changed it, and drop the rest."""
        if self.phase != "staging":
            self._enter("undoing")
            for index, step in enumerate(self.journal.steps):
                # Only what this run wrote: a file that a person saved in between is theirs.
                if self._now(index) == step.after:
                    self._put_back(index, step)
            self._sync(path.parent for path in self.places)
        self.clean_up()

    def clean_up(self) -> None:
        """Drop stages and backups, folders that are not wanted and, last, the journal."""
        # The journal goes last: cut short here, the next run does the same again.
        for path in (*self.stages, *self.backups):
            disk.DISK.unlink(path)
        is_done = self.phase == "done"
        for folder in self.journal.pruned if is_done else reversed(self.journal.folders):
            with suppress(OSError):  # not empty: somebody else has something there
                disk.DISK.rmdir(self.root / folder)
        disk.DISK.unlink(journal_path(self.state, self.phase))

    def settle(self, *, keep_edited: bool) -> str:
        """End a run that was interrupted, in whatever phase; returns "finished" or "undone"."""
        self._check_places()
        # In staging no file was touched yet, and when done all of them are in place.
        edited = self._edited() if self.phase in ("ready", "undoing") else []
        if edited and not keep_edited:
            raise self._refusal(edited)
        # Forwards where every stage is still there, else back.
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
        """Return the steps whose files are neither as before nor as they were to be."""
        steps = enumerate(self.journal.steps)
        return [i for i, step in steps if self._now(i) not in (step.before, step.after)]

    def _can_finish(self, kept: Iterable[int]) -> bool:
        return all(
            index in kept
            or self._now(index) == step.after
            # A deletion needs no stage.
            or step.after is None
            or _hash(self.stages[index]) == step.after
            for index, step in enumerate(self.journal.steps)
        )

    def _can_undo(self, kept: Iterable[int]) -> bool:
        return all(index in kept or self._is_back(index) for index in range(len(self.places)))

    def _is_back(self, index: int) -> bool:
        """Return whether a file is as before, or can be put back."""
        before = self.journal.steps[index].before
        return before is None or before in (self._now(index), _hash(self.backups[index]))

    def _check_places(self) -> None:
        """Raise ApplyError if a folder has become a link since: it may lead anywhere."""
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


def new_journal(root: Path, changes: Sequence[Change], command: str, prune: bool) -> Journal:
    """Return the journal of a run: its steps, the folders to make and those to prune.

    Raises:
        ConflictError: Two changes are about one file, one leads out of the target, or a file is
            where a folder has to be.
    """
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
        # The folders above the file, innermost first; the last parent is the root itself.
        inner = [str(each) for each in PurePosixPath(path).parents[:-1]]
        if change.after is not None:
            missing = _missing(root, inner, path)
            folders.update(dict.fromkeys(reversed(missing)))
        elif prune:
            pruned.update(dict.fromkeys(inner))
        steps[path] = JournalStep(path, _hash_of(change.before), _hash_of(change.after))
    # A folder is empty only once the folders in it are gone.
    innermost_first = sorted(pruned, key=lambda folder: -folder.count("/"))
    # Eight hexadecimal digits, which `_parse` of the journal checks for.
    token = os.urandom(4).hex()
    return Journal(command, token, tuple(folders), tuple(innermost_first), tuple(steps.values()))


def _missing(root: Path, folders: Sequence[str], path: str) -> list[str]:
    """Return which of the folders above a path are to be made."""
    for folder in folders:
        if os.path.lexists(root / folder) and not (root / folder).is_dir():
            raise ConflictError(
                f"{folder} is not a folder, and {path} goes there", code="file_exists"
            )
    return [folder for folder in folders if not (root / folder).exists()]


def _real_place(root: Path, path: str) -> Path:
    """Return what a path leads to, so that a link inside the target stays a link."""
    try:
        place = (root / path).resolve()
    except (OSError, RuntimeError) as error:  # the latter up to Python 3.12
        raise ConflictError(
            f"{path}: a link there leads in a circle", code="file_exists"
        ) from error
    if not place.is_relative_to(root):
        raise ConflictError(f"{path} leads out of {root}, to {place}", code="outside_target")
    return place


def check_unchanged(root: Path, changes: Iterable[Change]) -> None:
    """Check that every file is as the plan saw it, and that its owner lets it be written."""
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
    """Keep an old file by a second name, which costs no space; some file systems have none."""
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


def reason_of(error: OSError) -> str:
    """Return the system's error, and the file that it is about."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"
