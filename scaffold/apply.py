"""Changes to disk, all or nothing: the only module that writes to a target."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from scaffold.journal import (
    Journal,
    JournalStep,
    locked,
    read_journal,
    state_folder,
    sync_folder,
    write_durably,
    write_journal,
)
from scaffold.ledger import digest
from scaffold.spec import ApplyError, ConflictError

if TYPE_CHECKING:
    from scaffold.plan import Change  # LibCST comes with it, and settling a journal needs none


def apply_changes(root: Path, changes: Sequence[Change], command: str) -> None:
    """Writes the changes of a plan; after a failure everything is as it was.

    Args:
        root: The target's folder.
        changes: What to write; a file that is not as planned any more stops the run.
        command: What to call the run in the journal and to others that wait for the lock.

    Raises:
        ConflictError: A file changed since the plan was made, or leads out of the target.
        ApplyError: Writing failed, or another command holds the lock.
    """
    root = root.resolve()
    state = state_folder(root)
    try:
        with locked(state, command):
            _settle(root, state)
            _check_unchanged(root, changes)
            run = _Run(root, state / "journal.json", _new_journal(root, changes, command))
            try:
                run.stage(changes)
                run.put_in_place()
            except BaseException:
                run.roll_back()
                raise
            run.clean_up()
    except OSError as error:
        raise _write_failed(error) from error


def settle(root: Path, command: str) -> str:
    """Finishes or undoes a run that was cut short.

    Args:
        root: The target's folder.
        command: What to call this run to others that wait for the lock.

    Returns:
        What was done: "" (nothing was left over), "finished" or "undone".

    Raises:
        ApplyError: A file is neither as it was before nor as it was to be; nothing was touched.
    """
    root = root.resolve()
    state = state_folder(root)
    if not (state / "journal.json").exists():
        return ""
    with locked(state, command):
        return _settle(root, state)


def create_folder(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Makes a new folder with files in one step: it appears whole, or not at all.

    Args:
        folder: The folder; nothing stands there, or an empty folder.
        files: Relative paths with their bytes.

    Raises:
        ApplyError: Writing failed.
    """
    stage = folder.parent / f".{folder.name}.scaffold-{os.urandom(4).hex()}"
    try:
        stage.mkdir()
        for path, data in files:
            place = stage / path
            place.parent.mkdir(parents=True, exist_ok=True)
            write_durably(place, data)
        for inner in [*(path for path in stage.rglob("*") if path.is_dir()), stage]:
            sync_folder(inner)
        if folder.is_dir():
            folder.rmdir()  # an empty one; Windows cannot rename over it
        os.rename(stage, folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise _write_failed(error) from error
    finally:
        _drop_tree(stage)


def _settle(root: Path, state: Path) -> str:
    path = state / "journal.json"
    journal = read_journal(path)
    if journal is None:
        return ""
    run = _Run(root, path, journal)
    if journal.phase == "ready" and run.can_finish():
        run.put_in_place()
        run.clean_up()
        return "finished"
    run.check_can_undo()
    run.roll_back()
    return "undone"


class _Run:
    """Is one run over a journal; every method may be called again after it was cut short."""

    def __init__(self, root: Path, path: Path, journal: Journal) -> None:
        self.root = root
        self.path = path
        self.journal = journal

    def stage(self, changes: Sequence[Change]) -> None:
        """Writes every new file, and a copy of every old one, beside its place."""
        write_journal(self.path, self.journal)
        for folder in self.journal.folders:
            (self.root / folder).mkdir(exist_ok=True)
        for step, change in zip(self.journal.steps, changes, strict=True):
            place = self.root / step.path
            mode = stat.S_IMODE(place.stat().st_mode) if change.before is not None else None
            write_durably(self.root / step.stage, change.after, mode)
            if change.before is not None:
                write_durably(self.root / step.backup, change.before, mode)
        self._sync_folders()
        self.journal = replace(self.journal, phase="ready")
        write_journal(self.path, self.journal)

    def put_in_place(self) -> None:
        """Renames every stage that is still there to its place."""
        for step in self.journal.steps:
            if (self.root / step.stage).exists():
                os.replace(self.root / step.stage, self.root / step.path)
        self._sync_folders()

    def roll_back(self) -> None:
        """Puts every file back as it was, as far as this run changed it, and drops the rest."""
        for step in self.journal.steps:
            place, backup = self.root / step.path, self.root / step.backup
            if _hash(place) == step.after and self.journal.phase == "ready":
                if step.before is None:
                    place.unlink()
                elif _hash(backup) == step.before:
                    os.replace(backup, place)
        self.clean_up()
        for folder in reversed(self.journal.folders):
            with suppress(OSError):  # not empty: somebody else put something there
                (self.root / folder).rmdir()

    def can_finish(self) -> bool:
        """Tells whether every file is as it was to be, or is as before and has its stage."""
        return all(
            _hash(self.root / step.path) == step.after
            or (
                _hash(self.root / step.path) == step.before
                and _hash(self.root / step.stage) == step.after
            )
            for step in self.journal.steps
        )

    def check_can_undo(self) -> None:
        """Raises ApplyError if a file is neither as before nor can be put back."""
        for step in self.journal.steps:
            now, backup = _hash(self.root / step.path), _hash(self.root / step.backup)
            ours = now == step.after and (step.before is None or backup == step.before)
            if now != step.before and not (ours and self.journal.phase == "ready"):
                raise ApplyError(
                    f"an earlier run was interrupted, and {step.path} was changed since",
                    code="journal_unfinished",
                    hint=f"put {step.path} back, or delete {self.path} to keep what is there",
                )

    def clean_up(self) -> None:
        """Drops stages, backups and, last, the journal."""
        for step in self.journal.steps:
            for path in (step.stage, step.backup):
                (self.root / path).unlink(missing_ok=True)
        self.path.with_suffix(".new").unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _sync_folders(self) -> None:
        for folder in {(self.root / step.path).parent for step in self.journal.steps}:
            sync_folder(folder)


def _new_journal(root: Path, changes: Sequence[Change], command: str) -> Journal:
    token = os.urandom(4).hex()
    folders: dict[str, None] = {}
    steps: list[JournalStep] = []
    for change in changes:
        place = _real_place(root, change.path)
        path = place.relative_to(root).as_posix()
        missing = [each for each in place.parents if not each.exists()]
        folders.update((each.relative_to(root).as_posix(), None) for each in reversed(missing))
        beside = (place.parent / f".{place.name}").relative_to(root).as_posix()
        before = None if change.before is None else digest(change.before)
        stage, backup = f"{beside}.{token}.stage", f"{beside}.{token}.backup"
        steps.append(JournalStep(path, before, digest(change.after), stage, backup))
    return Journal(command, "staging", tuple(folders), tuple(steps))


def _real_place(root: Path, path: str) -> Path:
    """Returns what a path leads to, so that a link inside the target stays a link."""
    place = (root / path).resolve()
    if not place.is_relative_to(root):
        raise ConflictError(f"{path} leads out of {root}, to {place}", code="outside_target")
    return place


def _check_unchanged(root: Path, changes: Iterable[Change]) -> None:
    for change in changes:
        place = _real_place(root, change.path)
        expected = None if change.before is None else digest(change.before)
        if _hash(place) != expected or (expected is None and place.exists()):
            raise ConflictError(
                f"{change.path} changed while the command ran; nothing was written",
                code="changed_meanwhile",
                hint="run the command again",
            )


def _drop_tree(folder: Path) -> None:
    """Removes what is left of a folder that this run made."""
    if folder.exists():
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _hash(path: Path) -> str | None:
    try:
        return digest(path.read_bytes())
    except OSError:
        return None


def _write_failed(error: OSError) -> ApplyError:
    where = f"{error.filename}: " if error.filename else ""
    return ApplyError(
        f"writing failed, nothing was changed: {where}{error.strerror or error}",
        code="write_failed",
        hint="check free space and permissions, then run the command again",
    )
