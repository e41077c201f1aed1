"""A disk that fails, or takes the process with it, at one of its steps."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from scaffold.transaction.disk import Disk


class Death(BaseException):
    """Takes the place of the end of the process: no code of the run may mend anything after it."""


class FaultyDisk(Disk):
    """Is the real file system until a step is reached.

    Args:
        at: The step, counted from 1, that fails half done; 0 for none.
        fail: What happens then.
        is_final: Whether every later step fails as well, as nothing is done after a death.
    """

    def __init__(
        self, at: int = 0, fail: Callable[[], object] = lambda: None, *, is_final: bool = False
    ) -> None:
        self.at, self.fail, self.is_final = at, fail, is_final
        self.steps: list[str] = []

    def create(self, path: Path, data: bytes, like: os.stat_result | None = None) -> None:
        self._step("create")
        super().create(path, data, like)

    def write(self, handle: int, data: bytes) -> None:
        if len(self.steps) + 1 == self.at:
            super().write(handle, data[: len(data) // 2])
        self._step("write")
        super().write(handle, data)

    def sync(self, path: Path) -> None:
        self._step("sync")
        path.stat()  # what a dead process has written stays readable: waiting would cost time only

    def set_run_bits(self, path: Path, is_wanted: bool) -> None:
        self._step("chmod")
        super().set_run_bits(path, is_wanted)

    def replace(self, source: Path, place: Path) -> None:
        self._step("replace")
        super().replace(source, place)

    def link(self, source: Path, place: Path) -> None:
        self._step("link")
        super().link(source, place)

    def unlink(self, path: Path) -> None:
        self._step("unlink")
        super().unlink(path)

    def mkdir(self, folder: Path) -> None:
        self._step("mkdir")
        super().mkdir(folder)

    def rmdir(self, folder: Path) -> None:
        self._step("rmdir")
        super().rmdir(folder)

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if len(self.steps) == self.at or (self.is_final and 0 < self.at < len(self.steps)):
            self.fail()


def raising(code: int) -> Callable[[], object]:
    """Returns a failure with the given error number."""

    def fail() -> object:
        raise OSError(code, os.strerror(code))

    return fail


def die() -> object:
    """Ends the run as the death of its process does, for tests that live on."""
    raise Death


NO_SPACE = raising(errno.ENOSPC)
