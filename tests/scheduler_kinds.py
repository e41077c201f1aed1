"""Makers of every scheduler that can run on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from areal.infra.scheduler import LocalScheduler
from areal.infra.scheduler.base import CommandScheduler


@contextmanager
def local(folder: Path) -> Iterator[CommandScheduler]:
    yield LocalScheduler(experiment_name="e", trial_name="t", fileroot=str(folder))


KINDS: dict[str, Callable[[Path], AbstractContextManager[CommandScheduler]]] = {"local": local}
