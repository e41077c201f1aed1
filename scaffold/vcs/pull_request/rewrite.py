"""The branch and its files, moved to another commit: wholly, or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from scaffold.errors import ScaffoldError
from scaffold.vcs.repository import Repository, failure, listed
from scaffold.vcs.signals import undisturbed

MAX_NAMED = 5


class FileCopies:
    """Copies of files: bytes, mode and time, untouched by git's filters.

    Git never writes into a file; it removes it and makes a new one. So a second link keeps the
    old one, and costs nothing.

    Args:
        root: The top folder of the work tree.
        folder: Where the second names go, best on the same file system.
        paths: Files below the root; those that are not there are left out.
    """

    def __init__(self, root: Path, folder: Path, paths: list[str]) -> None:
        self._root = root
        self._files: dict[str, Path] = {}
        self._folders: dict[Path, int] = {}
        for number, path in enumerate(paths):
            self._keep(path, folder / str(number))

    def _keep(self, path: str, kept: Path) -> None:
        place = self._root / path
        if not os.path.lexists(place):
            return
        # Folders too: git removes those that become empty, and with them their modes.
        for folder in place.parents:
            if folder == self._root or folder in self._folders:
                break
            self._folders[folder] = folder.stat().st_mode
        if place.is_dir() and not place.is_symlink():  # a submodule
            self._folders[place] = place.stat().st_mode
            return
        try:
            os.link(place, kept, follow_symlinks=False)
        except (OSError, NotImplementedError):  # another file system, or one without links
            shutil.copy2(place, kept, follow_symlinks=False)
        self._files[path] = kept

    def put_back(self) -> None:
        """Restore every file whose place now holds something else, or nothing.

        Raises:
            OSError: One cannot be written.
        """
        # Outer folders first, as the inner ones are made in them.
        for folder, mode in sorted(self._folders.items(), key=lambda each: len(each[0].parts)):
            if not folder.is_dir() or folder.is_symlink():
                with suppress(FileNotFoundError):
                    folder.unlink()
                folder.mkdir()
                # mkdir() applies the umask, chmod() does not.
                folder.chmod(stat.S_IMODE(mode))
        for path, kept in self._files.items():
            place = self._root / path
            if place.is_dir() and not place.is_symlink():
                place.rmdir()
            kept.replace(place)


class RefMove(NamedTuple):
    """A ref and where it points, before and after; None where it is not there."""

    ref: str
    old: str | None
    new: str


class TreeMove:
    """A move of the work tree, the index and refs from one commit to another.

    Args:
        repository: The repository, whose tracked files are as committed.
        new: The commit or tree to be checked out.

    Raises:
        ScaffoldError: A file that is not tracked, or whose edits git ignores, is in the way.
    """

    def __init__(
        self,
        repository: Repository,
        branch: str,
        old: str,
        new: str,
        env: dict[str, str] | None = None,
    ) -> None:
        self._repository = repository
        self._branch = branch
        self._root = repository.root
        self._old, self._new = old, new
        options = ("-r", "-z", "--no-renames", "--name-status")
        # With -z, status and path are fields of their own in turn.
        fields = repository.call("diff-tree", *options, old, new, env=env).split("\0")
        self._paths = list(zip(fields[0::2], fields[1::2], strict=False))
        self._going = {path for status, path in self._paths if status in "DT"}
        self._index = repository.folder / "index"
        self._lock = self._index.with_name("index.lock")
        self.is_done = False
        self._confirm_free()

    def move(self, refs: list[RefMove]) -> None:
        """Move files, index and refs; on any failure all is as it was.

        Raises:
            ScaffoldError: Git refused, and nothing was changed.
        """
        # A person may have worked on since the plan was made and shown.
        if self._lock.exists():
            raise ScaffoldError(
                f"another git is at work here, or one was killed: there is {str(self._lock)!r}",
                code="git_failed",
                hint="all is as it was; wait for it, or remove that file, then run it again",
            )
        self._confirm_branch()
        self._confirm_free()
        saved = self._index.read_bytes()
        folders = self._new_folders()
        with tempfile.TemporaryDirectory(prefix="scaffold-pr-", dir=self._index.parent) as scratch:
            # Added files are not there yet; what is undone for them is a deletion.
            held = [path for status, path in self._paths if status != "A"]
            kept = FileCopies(self._root, Path(scratch), held)
            try:
                self._move(refs)
            except BaseException:
                if self.is_done:  # a stop that came too late
                    return
                try:
                    with undisturbed():
                        self._put_back(saved, folders, kept)
                except OSError as error:
                    raise ScaffoldError(
                        f"files could not be put back: {error}; the branch is at {self._old[:9]} "
                        "as before",
                        code="write_failed",
                        hint=f"once the cause is gone: git reset --hard {self._old[:9]}",
                    ) from error
                raise

    def _move(self, refs: list[RefMove]) -> None:
        # Git compares times, which differ in a copied tree and where a file has a second link.
        self._repository.ask("update-index", "-q", "--refresh")
        move = ["read-tree", "-m", "-u", "--no-recurse-submodules"]
        # A dry run first: a refusal then finds every file untouched.
        self._repository.call(*move, "-n", self._old, self._new)
        self._repository.call(*move, self._old, self._new)
        # Whether refs have moved must be known, so no signal ends this call.
        with undisturbed():
            move_refs(self._repository, refs)
            self.is_done = True

    def _confirm_branch(self) -> None:
        answer = self._repository.ask("symbolic-ref", "--quiet", "HEAD")
        now = self._repository.call("rev-parse", "--verify", "HEAD").strip()
        if answer.output.strip() != f"refs/heads/{self._branch}" or now != self._old:
            raise ScaffoldError(
                f"{self._branch} at {self._old[:9]} is no longer what is checked out",
                code="changed_meanwhile",
                hint="all is as it was; go back to the branch, and run the command again",
            )

    def _confirm_free(self) -> None:
        """Refuse a move that overwrites ignored files or hidden edits, as git silently does."""
        taken = [path for status, path in self._paths if status == "A" and self._is_taken(path)]
        if taken:
            raise ScaffoldError(
                "files that git does not track are where the base has its own: "
                f"{listed(taken, MAX_NAMED)}",
                code="file_exists",
                hint="move them away; nothing was changed",
            )
        flags = self._repository.call("ls-files", "-v", "-z", "--full-name", ":/")
        # A small letter means --assume-unchanged, S --skip-worktree and sparse checkouts.
        hidden = {
            row[2:] for row in flags.split("\0") if row and (row[0].islower() or row[0] == "S")
        }
        held = [path for _, path in self._paths if path in hidden]
        if held:
            raise ScaffoldError(
                f"git is set not to look at files that would change: {listed(held, MAX_NAMED)}",
                code="file_exists",
                hint="git update-index --no-assume-unchanged --no-skip-worktree PATH, then again",
            )

    def _is_taken(self, path: str) -> bool:
        """Return whether something lies at a new path, or a file at a folder above it."""
        place = self._root / path
        if place.is_dir() and not place.is_symlink():
            # A folder whose files all go makes room for the file.
            inside = (each for each in place.rglob("*") if not each.is_dir() or each.is_symlink())
            paths = (each.relative_to(self._root).as_posix() for each in inside)
            return any(each not in self._going for each in paths)
        if os.path.lexists(place):
            return True
        parts = path.split("/")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        return any(
            os.path.lexists(place) and (place.is_symlink() or not place.is_dir())
            for each in above
            if each not in self._going and (place := self._root / each)
        )

    def _new_folders(self) -> list[Path]:
        """Return the folders that are not there yet, the innermost first."""
        found: set[Path] = set()
        for _, path in self._paths:
            for folder in (self._root / path).parents:
                if folder == self._root or (folder.is_dir() and not folder.is_symlink()):
                    break
                found.add(folder)
        # Innermost first, as only empty folders can be removed.
        return sorted(found, key=lambda folder: -len(folder.parts))

    def _put_back(self, index: bytes, folders: list[Path], kept: FileCopies) -> None:
        """Restore files and index, however far the move came."""
        for status, path in self._paths:
            if status == "A":
                place = self._root / path
                with suppress(OSError):  # a new submodule is an empty folder
                    place.rmdir() if place.is_dir() and not place.is_symlink() else place.unlink()
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()
        kept.put_back()
        # A child that was stopped leaves its lock.
        with suppress(OSError):
            self._lock.unlink()
        part = self._index.with_name("index.scaffold")
        part.write_bytes(index)
        # A rename is atomic: a reader never meets half an index.
        part.replace(self._index)


def move_refs(repository: Repository, refs: list[RefMove]) -> None:
    """Move refs in one transaction: all of them, or none.

    Raises:
        ScaffoldError: One is not where it was, or cannot be written.
    """
    lines = ["start"]
    for ref, old, new in refs:
        lines.append(f"create {ref} {new}" if old is None else f"update {ref} {new} {old}")
    # `prepare` locks all refs and checks their old values before any of them moves.
    text = "\n".join([*lines, "prepare", "commit", ""])
    argv = ["update-ref", "-m", "scaffold pr", "--stdin"]
    answer = repository.ask(*argv, given=text, is_apart=True)
    if answer.status:
        raise failure("update-ref", answer)
