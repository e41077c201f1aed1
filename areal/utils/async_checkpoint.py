"""Models written to disk while training goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, runtime_checkable

from areal.api.errors import ConfigError
from areal.api.io_struct import SaveLoadMeta


class SavesModel(Protocol):
    """What a model is saved by."""

    def save(self, meta: SaveLoadMeta) -> None:
        """Write the model, and return when it is on disk."""


@runtime_checkable
class StagesModel(SavesModel, Protocol):
    """An engine that can copy its model first and write the copy later."""

    def stage(self, meta: SaveLoadMeta) -> Callable[[], None]:
        """Copy the model to host memory and return the function that writes the copy."""


class AsyncCheckpointManager:
    """Saves models at once, or copies them at once and writes the copies in a thread.

    One copy exists at a time: saving waits until the model before it is on disk. A folder appears
    when it is complete, in both modes.

    Args:
        mode: ``config.saver.mode``; "async" writes in a thread, "sync" and "auto" do not, as the
            copy takes as much host memory as the model.
    """

    def __init__(self, mode: str) -> None:
        self.is_async = mode == "async"
        self._pool = ThreadPoolExecutor(1, "checkpoint") if self.is_async else None
        self._pending: Future[None] | None = None

    def save(self, engine: SavesModel, meta: SaveLoadMeta) -> None:
        """Save a model, or copy it and return; all processes that share it call this.

        Raises:
            ConfigError: The engine cannot copy its model.
            OSError: The model before this one could not be written.
        """
        if self._pool is None:
            engine.save(meta)
            return
        if not isinstance(engine, StagesModel):
            raise ConfigError(
                f"saver.mode=async: {type(engine).__name__} cannot copy its model; set it to sync"
            )
        self.finalize()
        self._pending = self._pool.submit(engine.stage(meta))

    def finalize(self) -> None:
        """Wait until the last model is on disk.

        Raises:
            OSError: It could not be written.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait as ``finalize`` does, and end the thread."""
        try:
            self.finalize()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
