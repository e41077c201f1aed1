"""The branch and its files, moved to another commit: wholly, or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scaffold.spec import ScaffoldError
from scaffold.vcs.opening import root_of
from scaffold.vcs.pull.calling import ask_git, call_git, failure
from scaffold.vcs.pull.stopping import undisturbed

if TYPE_CHECKING:
    import git

MAX_NAMED = 5


class RefMove(NamedTuple):
    """Is a ref and where it points, before and after; None where it is not there."""

    ref: str
    old: str | None
    new: str


class Placing:
    """Moves the work tree, the index and refs from one commit to another.

    Args:
        repository: The repository, whose tracked files are as committed.
        old: The commit that is checked out.
        new: The commit to be checked out.

    Raises:
        ScaffoldError: A file that is not tracked, or whose edits git was told not to see, stands
            in the way.
    """

    def __init__(self, repository: git.Repo, old: str, new: str) -> None:
        self._repository = repository
        self._root = root_of(repository)
        self._old, self._new = old, new
        self._paths = self._changed()
        self._index = Path(repository.git_dir) / "index"
        self.is_done = False
        self._confirm_free()

    def move(self, refs: list[RefMove]) -> None:
        """Moves files, index and refs; on any failure all is as it was.

        Raises:
            ScaffoldError: Git refused, and nothing was changed.
        """
        call_git(self._repository, "read-tree", "-m", "-u", "-n", self._old, self._new)
        saved = self._index.read_bytes()
        folders = self._new_folders()
        try:
            call_git(self._repository, "read-tree", "-m", "-u", self._old, self._new)
            # Whether refs have moved must be known, so no signal ends this call.
            with undisturbed():
                move_refs(self._repository, refs)
                self.is_done = True
        except BaseException:
            if self.is_done:  # a stop that came too late
                return
            with undisturbed():
                self._put_back_or_tell(saved, folders)
            raise

    def _changed(self) -> list[tuple[str, str]]:
        output = call_git(
            self._repository, "diff-tree", "-r", "-z", "--no-renames", "--name-status",
            self._old, self._new,
        )  # fmt: skip
        fields = output.split("\0")
        return list(zip(fields[0::2], fields[1::2], strict=False))

    def _confirm_free(self) -> None:
        """Refuses what git would overwrite without a word: ignored files, and hidden edits."""
        taken = [path for status, path in self._paths if status == "A" and self._is_taken(path)]
        if taken:
            raise ScaffoldError(
                f"files that git does not track stand where the base has its own: {_named(taken)}",
                code="file_exists",
                hint="move them away; nothing was changed",
            )
        flags = call_git(self._repository, "ls-files", "-v", "-z", "--full-name", ":/")
        # A small letter stands for --assume-unchanged, S for --skip-worktree and sparse checkouts.
        hidden = {
            row[2:] for row in flags.split("\0") if row and (row[0].islower() or row[0] == "S")
        }
        held = [path for _, path in self._paths if path in hidden]
        if held:
            raise ScaffoldError(
                f"git was told not to look at files that would change: {_named(held)}",
                code="file_exists",
                hint="git update-index --no-assume-unchanged --no-skip-worktree PATH, then again",
            )

    def _is_taken(self, path: str) -> bool:
        """Tells whether something lies at a new path, or a file at a folder above it."""
        tracked = {path for status, path in self._paths if status in "DT"}
        place = self._root / path
        if place.is_dir() and not place.is_symlink():
            # A folder whose files all go makes room for the file.
            inside = (each for each in place.rglob("*") if not each.is_dir() or each.is_symlink())
            return any(each.relative_to(self._root).as_posix() not in tracked for each in inside)
        if os.path.lexists(place):
            return True
        parts = path.split("/")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        return any(
            os.path.lexists(place) and (place.is_symlink() or not place.is_dir())
            for each in above
            if each not in tracked and (place := self._root / each)
        )

    def _new_folders(self) -> list[Path]:
        """Returns the folders that are not there yet, the innermost first."""
        found: set[Path] = set()
        for _, path in self._paths:
            for folder in (self._root / path).parents:
                if folder == self._root or folder.exists():
                    break
                found.add(folder)
        return sorted(found, key=lambda folder: -len(folder.parts))

    def _put_back_or_tell(self, index: bytes, folders: list[Path]) -> None:
        try:
            self._put_back(index, folders)
        except (OSError, ScaffoldError) as error:
            raise ScaffoldError(
                f"files could not be put back: {error}; the branch is at {self._old[:9]} as before",
                code="write_failed",
                hint=f"once the cause is gone: git reset --hard {self._old[:9]}",
            ) from error

    def _put_back(self, index: bytes, folders: list[Path]) -> None:
        """Makes files and index what they were, however far the move came."""
        for status, path in self._paths:
            if status == "A":
                place = self._root / path
                with suppress(OSError):  # a new submodule is an empty folder
                    place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()
        kept = [path for status, path in self._paths if status != "A"]
        kept.sort(key=lambda path: path.rpartition("/")[2] != ".gitattributes")
        first = sum(path.rpartition("/")[2] == ".gitattributes" for path in kept)
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()
        with tempfile.TemporaryDirectory(prefix="scaffold-pr-") as scratch:
            env = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            call_git(self._repository, "read-tree", self._old, env=env)
            argv = ["checkout-index", "-f", "-q", "-z", "--stdin"]
            # How a file is written depends on the attributes that lie on the disk by then.
            for paths in (kept[:first], kept[first:]):
                names = "".join(f"{path}\0" for path in paths)
                call_git(self._repository, *argv, env=env, given=names)
        # A child that was stopped leaves its lock.
        with suppress(OSError):
            self._index.with_name("index.lock").unlink()
        part = self._index.with_name("index.scaffold")
        part.write_bytes(index)
        part.replace(self._index)


def move_refs(repository: git.Repo, refs: list[RefMove]) -> None:
    """Moves refs in one transaction: all of them, or none.

    Raises:
        ScaffoldError: One is not where it was, or cannot be written.
    """
    lines = ["start"]
    for ref, old, new in refs:
        lines.append(f"create {ref} {new}" if old is None else f"update {ref} {new} {old}")
    text = "\n".join([*lines, "prepare", "commit", ""])
    answer = ask_git(repository, "update-ref", "-m", "scaffold pr", "--stdin", given=text)
    if answer.status:
        raise failure("update-ref", answer)


def _named(paths: list[str]) -> str:
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return ", ".join(paths[:MAX_NAMED]) + more
