"""The file-system steps that a run is made of; each of them may fail, or be the last one."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


class Disk:
    """The real file system; a subclass can fail, or die, at any step."""

    def create(self, path: Path, data: bytes, like: os.stat_result | None = None) -> None:
        """Write a file where there is none, without waiting until it is on disk.

        Args:
            path: The file; a link that is there is not followed.
            data: Its bytes.
            like: Whose mode it gets and, where the system allows that, whose owner.

        Raises:
            OSError: Something is there, or writing failed.
        """
        # O_EXCL refuses a link in the place of the file; without O_BINARY Windows rewrites line
        # ends.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(path, flags, 0o666)
        try:
            self.write(handle, data)
        finally:
            os.close(handle)
        if like is not None:
            self._copy_owner_and_mode(path, like)

    def sync(self, path: Path) -> None:
        """Wait until a file's bytes, or a folder's names, are on disk."""
        if sys.platform == "win32":
            if path.is_dir():
                return  # Windows opens no folders, and keeps their names in order itself
            handle = os.open(path, os.O_RDWR)
        else:
            handle = os.open(path, os.O_RDONLY)
        try:
            _flush(handle)
        finally:
            os.close(handle)

    def set_run_bits(self, path: Path, is_wanted: bool) -> None:
        """Let a file be run by whoever may read it, or by nobody."""
        mode = path.stat().st_mode & 0o7777
        # Each read bit, two places to the right, is the run bit of the same class.
        os.chmod(path, mode | (mode & 0o444) >> 2 if is_wanted else mode & ~0o111)

    def replace(self, source: Path, place: Path) -> None:
        """Rename a file, over another one if need be, in one step."""
        os.replace(source, place)

    def link(self, source: Path, place: Path) -> None:
        """Give a file a second name."""
        os.link(source, place)

    def unlink(self, path: Path) -> None:
        """Remove a file if it exists."""
        with suppress(NotADirectoryError):  # a file in the place of its folder: it cannot exist
            path.unlink(missing_ok=True)

    def mkdir(self, folder: Path) -> None:
        """Make a folder unless it exists."""
        with suppress(FileExistsError):
            os.mkdir(folder)

    def rmdir(self, folder: Path) -> None:
        """Remove an empty folder."""
        os.rmdir(folder)

    def write(self, handle: int, data: bytes) -> None:
        """Write all of the bytes to an open file."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]

    def _copy_owner_and_mode(self, path: Path, like: os.stat_result) -> None:
        mine = path.stat()
        if sys.platform != "win32" and (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
            with suppress(PermissionError):
                os.chown(path, like.st_uid, like.st_gid)
        os.chmod(path, like.st_mode & 0o7777)


DISK = Disk()
"""What every run writes through."""


def _flush(handle: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        with suppress(OSError):  # not every file system knows it
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # fsync there does not reach the platter
            return
    os.fsync(handle)
