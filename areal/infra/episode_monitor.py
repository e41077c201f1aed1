"""The boundary that every episode runs behind: it may fail in any way and costs only itself."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from typing import Any, Protocol

from areal.api.errors import ConfigError, TrajectoryError, UnknownNameError
from areal.api.failure_window import FailureWindow, ReasonBook
from areal.infra.trajectory import check_trajectory, is_interactions
from areal.utils.perf_tracer import Stage, current_stage

# What these say is true of every episode to come, so the run need not collect 64 of them.
_FATAL = (ConfigError, UnknownNameError)


class EpisodeTimeoutError(TimeoutError):
    """An episode ran past the time that one may take."""


class Episode(Stage):
    """One running episode, as the watchdog and messages see it."""

    __slots__ = ("overdue_in", "started_at", "task", "workflow_name")

    def __init__(self, workflow_name: str, task: asyncio.Task[Any] | None) -> None:
        super().__init__()
        self.workflow_name = workflow_name
        self.task = task
        self.started_at = time.monotonic()
        self.overdue_in: str | None = None  # the stage in which its time was up


class EpisodeMonitor:
    """Counts how episodes end, reports each kind of failure once, and notices when most fail.

    Args:
        logger: Gets the reports.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger
        self.window = FailureWindow("episodes")
        self.running: set[Episode] = set()
        self._lock = threading.Lock()
        self._fatal: Exception | None = None
        self._reasons = ReasonBook()
        self._counts: Counter[str] = Counter()

    def add_success(self) -> None:
        """Count an episode that gave a trajectory."""
        with self._lock:
            self._counts["accepted"] += 1
        self.window.add_success()

    def add_rejection(self) -> None:
        """Count an episode that rejected itself on purpose, which is no failure."""
        with self._lock:
            self._counts["rejected"] += 1
        self.window.add_success()

    def add_failure(self, workflow_name: str, error: BaseException) -> None:
        """Count an episode that failed, by its reason; logs a new reason with its traceback."""
        kind = type(error).__name__
        cause = str(error)
        if workflow_name not in cause:
            cause = f"workflow {workflow_name} raised {kind}: {error}"
        with self._lock:
            self._counts["failed"] += 1
            self._counts[f"failed/{kind}"] += 1
            is_new = self._reasons.add(kind, cause)
            if isinstance(error, _FATAL):
                self._fatal = self._fatal or error
        self.window.add_failure(cause)
        if is_new:
            # Where our own checks are is of use to nobody.
            trace = None if isinstance(error, (TrajectoryError, EpisodeTimeoutError)) else error
            self.logger.warning("an episode failed: %s (logged once)", cause, exc_info=trace)

    def failure_reasons(self) -> dict[str, int]:
        """Return how often each reason occurred, the most common first."""
        with self._lock:
            return dict(self._reasons.counts.most_common())

    def export(self, reset: bool = True) -> dict[str, float]:
        """Return ``accepted``, ``rejected``, ``failed`` and ``failed/<exception>`` since then."""
        with self._lock:
            counts = {"accepted": 0.0, "rejected": 0.0, "failed": 0.0}
            counts |= {name: float(count) for name, count in self._counts.items()}
            if reset:
                self._counts.clear()
        return counts

    def raise_if_hopeless(self) -> None:
        """Raise if going on makes no sense.

        Raises:
            EpisodeFailureError: More than half of the last 64 episodes failed.
            ConfigError: An episode found the configuration itself to be wrong.
        """
        if self._fatal is not None:
            raise self._fatal
        self.window.raise_if_tripped()

    @property
    def is_hopeless(self) -> bool:
        """True if ``raise_if_hopeless`` would raise."""
        return self._fatal is not None or self.window.is_tripped

    def cancel_overdue(self, limit_s: float) -> None:
        """Cancel the episodes that run longer than ``limit_s``, again and again if need be."""
        latest_start = time.monotonic() - limit_s
        for episode in list(self.running):
            if episode.started_at < latest_start and episode.task is not None:
                episode.overdue_in = episode.overdue_in or episode.name
                episode.task.cancel()

    def describe_running(self) -> str:
        """Return how many episodes of which workflow are in which stage."""
        episodes = list(self.running)
        if not episodes:
            return "none"
        longest_s = time.monotonic() - min(episode.started_at for episode in episodes)
        groups = Counter((episode.workflow_name, episode.name) for episode in episodes)
        parts = [f"{n} of {name} in stage '{stage}'" for (name, stage), n in groups.most_common(5)]
        return f"{', '.join(parts)}; the longest for {longest_s:.1f} s"


def workflow_name(workflow: Any) -> str:
    """Return the name by which messages speak of a workflow; one that wraps another has its."""
    name = getattr(workflow, "name_in_messages", None)
    return name if isinstance(name, str) else type(workflow).__name__


class _Workflow(Protocol):
    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any: ...


async def run_episode(
    workflow: _Workflow, engine: Any, data: dict[str, Any], name: str, monitor: EpisodeMonitor
) -> Any:
    """Run one episode and check what it returns.

    Args:
        workflow: Runs it.
        engine: For the workflow.
        data: The dataset row, for the workflow.
        name: Of the workflow, for messages.
        monitor: Learns how the episode ended.

    Returns:
        A checked dict of tensors, a mapping of interactions, or None if there is nothing to train
        on.
    """
    episode = Episode(name, asyncio.current_task())
    current_stage.set(episode)
    monitor.running.add(episode)
    try:
        result = await workflow.arun_episode(engine, data)
        if result is None:
            monitor.add_rejection()
            return None
        if is_interactions(result):
            for interaction in result.values():
                check_trajectory(interaction.to_tensor_dict(), name)
        else:
            check_trajectory(result, name)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if episode.overdue_in is None:
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled the episode: the workflow raised this by itself.
            monitor.add_failure(name, error)
            return None
        took_s = time.monotonic() - episode.started_at
        message = (
            f"workflow {name} was stopped after {took_s:.1f} s in stage '{episode.overdue_in}': "
            "longer than rollout.request_timeout"
        )
        monitor.add_failure(name, EpisodeTimeoutError(message))
        return None
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # The last two would break out of the event loop and with it end every other episode; a
        # person's Ctrl-C arrives in the main thread and not here.
        monitor.add_failure(name, error)
        return None
    finally:
        monitor.running.discard(episode)
        # The task's context has the episode: a cycle that only the garbage collector would free,
        # and with it all that the workflow left in its context.
        episode.task = None
    monitor.add_success()
    return result
