"""How far rollouts may run ahead of training."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from areal.api.io_struct import RolloutStat


class VersionProvider(Protocol):
    """Knows the version of the weights; engines do."""

    def get_version(self) -> int: ...


class StalenessManager:
    """Counts rollouts and decides how many more may start. Safe to use from any thread.

    A rollout that starts at version v must be consumed at version v + max_staleness at the latest.
    With ``consumer_batch_size`` rollouts consumed per version, that bounds how many may be under
    way or accepted in all: (max_staleness + version + 1) * consumer_batch_size.

    Args:
        version_provider: Returns the current version.
        max_concurrent_rollouts: How many may run at once.
        consumer_batch_size: How many are consumed per version.
        max_staleness: How many versions a rollout may be old when it is consumed.
    """

    def __init__(
        self,
        version_provider: VersionProvider,
        max_concurrent_rollouts: int,
        consumer_batch_size: int,
        max_staleness: int,
    ) -> None:
        self.version_provider = version_provider
        self.max_concurrent_rollouts = max_concurrent_rollouts
        self.consumer_batch_size = consumer_batch_size
        self.max_staleness = max_staleness
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._num_blocked = 0  # threads in wait_for_capacity
        self._stat = RolloutStat()
        self._listeners: list[Callable[[], None]] = []

    def get_capacity(self) -> int:
        """Return how many rollouts may start now; negative if too many are under way."""
        with self._lock:
            return min(self.get_concurrency_capacity(), self.get_staleness_capacity())

    def get_concurrency_capacity(self) -> int:
        """Return what ``max_concurrent_rollouts`` leaves."""
        return self.max_concurrent_rollouts - self._stat.running

    def get_staleness_capacity(self) -> int:
        """Return what ``max_staleness`` leaves."""
        version = self.version_provider.get_version()
        allowed = (self.max_staleness + version + 1) * self.consumer_batch_size
        return allowed - (self._stat.accepted + self._stat.running)

    def get_stats(self) -> RolloutStat:
        """Return the counts so far."""
        with self._lock:
            return replace(self._stat)

    def wait_for_capacity(self, timeout: float | None = None) -> int:
        """Wait until a rollout may start and return how many; 0 or less after the timeout."""

        def capacity() -> int:
            return min(self.get_concurrency_capacity(), self.get_staleness_capacity())

        with self._lock:
            self._num_blocked += 1
            self._changed.wait_for(lambda: capacity() > 0, timeout)
            self._num_blocked -= 1
            return capacity()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Have a function called, in whatever thread, when the version may have changed."""
        self._listeners.append(listener)

    def notify_version_changed(self) -> None:
        """Wake whoever waits for capacity; call it after every change of the version."""
        with self._lock:
            self._wake()
        for listener in self._listeners:
            listener()

    def on_rollout_enqueued(self) -> None:
        """Count a rollout that waits to start."""
        with self._lock:
            self._stat.enqueued += 1

    def on_rollout_submitted(self, count: int = 1) -> None:
        """Count waiting rollouts as running."""
        with self._lock:
            self._stat.enqueued -= count
            self._stat.running += count

    def on_rollout_accepted(self) -> None:
        """Count a running rollout as accepted."""
        with self._lock:
            self._stat.running -= 1
            self._stat.accepted += 1
            self._wake()

    def on_rollout_rejected(self) -> None:
        """Count a running rollout as rejected, which makes room for another."""
        with self._lock:
            self._stat.running -= 1
            self._stat.rejected += 1
            self._wake()

    def on_rollouts_requeued(self, count: int) -> None:
        """Count accepted rollouts as never made: their rows start again."""
        with self._lock:
            self._stat.accepted -= count
            self._wake()

    def on_version_recovered(self, version: int) -> None:
        """Start after a restart at this version, for which each earlier one consumed its batch."""
        self.restore(version * self.consumer_batch_size)

    def restore(self, num_accepted: int) -> None:
        """Start from the number of rollouts accepted and consumed before a restart."""
        with self._lock:
            self._stat = replace(self._stat, accepted=num_accepted)
            self._wake()

    def _wake(self) -> None:
        if self._num_blocked:
            self._changed.notify_all()
