"""How many episodes are under way, for an engine that must not decode before all have arrived."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class EpisodeGauge:
    """Counts live episodes, each member of a group by itself. Safe to use from any thread.

    With deterministic sampling the composition of every decode step must not depend on timing. An
    engine takes a step only when ``may_step`` finds that all live episodes wait in it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live = 0
        self._holds = 0
        self._listener: Callable[[], None] | None = None

    @property
    def live(self) -> int:
        """The number of episodes that have been submitted and have not ended."""
        return self._live

    @property
    def held(self) -> bool:
        """True while more episodes are being submitted."""
        return self._holds > 0

    def may_step(self, num_waiting: int) -> bool:
        """Return True if no episode can join the ``num_waiting`` that wait for a step."""
        with self._lock:
            return not self._holds and num_waiting >= self._live

    def set_listener(self, listener: Callable[[], None] | None) -> None:
        """Have a function called, in whatever thread, after every change that may allow a step."""
        self._listener = listener

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the engine waiting while a batch is being submitted."""
        with self._lock:
            self._holds += 1
        try:
            yield
        finally:
            with self._lock:
                self._holds -= 1
            self._notify()

    def lease(self, num_episodes: int) -> EpisodeLease:
        """Count the episodes of one row as live until their lease lets them go."""
        with self._lock:
            self._live += num_episodes
        return EpisodeLease(self, num_episodes)

    def _release(self, num_episodes: int) -> None:
        with self._lock:
            self._live -= num_episodes
        self._notify()

    def _notify(self) -> None:
        if self._listener is not None:
            self._listener()


class EpisodeLease:
    """The live episodes of one row; used in the executor's thread only."""

    def __init__(self, gauge: EpisodeGauge, num_episodes: int) -> None:
        self._gauge = gauge
        self._num_left = num_episodes

    def release_one(self) -> None:
        """Let one ended episode go, but never the last of its row.

        The last one goes with ``close``, after the executor has started what follows; otherwise
        the engine could take a step between the two.
        """
        if self._num_left > 1:
            self._num_left -= 1
            self._gauge._release(1)

    def close(self) -> None:
        """Let go of all that is left."""
        num_left, self._num_left = self._num_left, 0
        if num_left:
            self._gauge._release(num_left)
