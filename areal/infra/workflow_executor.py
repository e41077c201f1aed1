"""Runs workflows on dataset rows in the background and hands out their trajectories."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from areal.api.errors import ConfigError, EpisodeFailureError, TrajectoryError
from areal.api.io_struct import RolloutStat
from areal.api.reward_api import REWARD_STATS
from areal.infra import workflow_context
from areal.infra.async_task_runner import TaskQueueFullError
from areal.infra.episode_gauge import EpisodeGauge
from areal.infra.episode_monitor import EpisodeMonitor, run_episode, workflow_name
from areal.infra.grouped_rollout import GroupedRolloutWorkflow
from areal.infra.rollout_queue import Mailbox, RolloutQueue, RolloutTask
from areal.infra.row_feed import Row, RowFeed
from areal.infra.staleness_manager import StalenessManager
from areal.infra.trajectory import check_trajectory_format, to_trajectory
from areal.infra.workflow_resolution import (
    AcceptFn,
    AgentWrapper,
    resolve_accept_fn,
    resolve_workflow,
)

if TYPE_CHECKING:
    from areal.api.cli_args import InferenceEngineConfig

Trajectory = dict[str, Any]

# Evaluation rows count for themselves, so that evaluating does not renumber the training rows.
_FIRST_EVAL_ID = 1 << 40
# So many rows in a row, or batches of them, of which nothing is left: there will be no batch.
_MAX_BARREN_ROWS = 1000
_MAX_BARREN_BATCHES = 20


class WorkflowExecutor:
    """Starts as many episodes as staleness and concurrency allow and never polls.

    Rows are started in the order in which they were submitted and handed out oldest first. An
    episode that raises, hangs, or returns something malformed is counted and costs itself.

    Args:
        config: Sizes and limits.
        inference_engine: Has ``agenerate`` and ``get_version()``. Its ``set_version`` should call
            ``executor.notify_version_changed()``; an engine that does not is asked every second.
            One that may be unable to generate for a while has ``obstacle()``, which has the reason.
        staleness_manager: None makes one from the config.

    Attributes:
        agent_wrapper: Makes a workflow of an agent; set by whoever runs a proxy.
        gauge: Counts live episodes, with ``deterministic_sampling``; else None.
        max_token_age: How many versions the oldest token of a row may be behind when its batch is
            made; the row is made again where it is older. None allows any age.
        monitor: Counts how episodes end.
    """

    def __init__(
        self,
        config: InferenceEngineConfig,
        inference_engine: Any,
        staleness_manager: StalenessManager | None = None,
    ) -> None:
        self.config = config
        self.inference_engine = inference_engine
        self.logger = logging.getLogger("WorkflowExecutor")
        self.monitor = EpisodeMonitor(self.logger)
        self.gauge = EpisodeGauge() if config.deterministic_sampling else None
        self.agent_wrapper: AgentWrapper | None = None
        self._staleness = staleness_manager
        self._queue: RolloutQueue | None = None
        self._own = Mailbox()  # of submit()
        self._batch = Mailbox()  # of prepare_batch()
        self.batch_rows: list[Row] = []  # of the latest one, a row for each trajectory
        self._feed: RowFeed | None = None
        self._batch_workflow: Any = None
        self._batch_accept_fn: AcceptFn | None = None
        self._requeued: list[Row] = []
        self._next_id = 0
        self._next_eval_id = _FIRST_EVAL_ID
        self._num_consumed = 0
        self._num_too_old = 0  # since the last export
        self.max_token_age: int | None = None
        self._expected_keys: frozenset[str] | None = None
        self._batch_keys: frozenset[str] | None = None

    # --- life ---------------------------------------------------------------------------------

    def initialize(
        self, logger: logging.Logger | None = None, train_data_parallel_size: int | None = None
    ) -> None:
        """Start the background thread.

        Args:
            logger: Gets warnings; None keeps the default.
            train_data_parallel_size: How many replicas share the configured sizes.
        """
        config, engine = self.config, self.inference_engine
        self.logger = self.monitor.logger = logger or self.logger
        replicas = train_data_parallel_size or 1
        concurrent = config.max_concurrent_rollouts or config.consumer_batch_size
        concurrent = max(1, concurrent // replicas)
        consumed = max(1, config.consumer_batch_size // replicas)
        if self._staleness is None:
            self._staleness = StalenessManager(
                engine, concurrent, consumed, config.max_head_offpolicyness
            )
        if self.gauge is not None and hasattr(engine, "set_episode_gauge"):
            engine.set_episode_gauge(self.gauge)
            self.gauge.set_listener(getattr(engine, "notify", None))
        REWARD_STATS.reset()
        self._queue = RolloutQueue(
            self._run,
            self._staleness,
            concurrent,
            self.gauge,
            self.monitor,
            self.logger,
            getattr(engine, "obstacle", None),
        )
        self._queue.start(config.request_timeout)

    def destroy(self) -> None:
        """Cancel all episodes and end the thread; what waits for results gets an error."""
        if self._queue is not None:
            self._queue.stop()

    def pause(self) -> None:
        """Start no more episodes; running ones go on."""
        self._running_queue.is_paused = True

    def resume(self) -> None:
        """End ``pause``."""
        self._running_queue.is_paused = False
        self._running_queue.start_waiting()

    def notify_version_changed(self) -> None:
        """Start what the engine's new version allows; call it after every ``set_version``."""
        self.staleness_manager.notify_version_changed()

    @property
    def staleness_manager(self) -> StalenessManager:
        """What holds rows back.

        Raises:
            RuntimeError: The executor has not been initialised.
        """
        if self._staleness is None:
            raise RuntimeError("the executor is not running; call initialize() first")
        return self._staleness

    @property
    def _running_queue(self) -> RolloutQueue:
        if self._queue is None:
            raise RuntimeError("the executor is not running; call initialize() first")
        return self._queue

    # --- rows ---------------------------------------------------------------------------------

    def submit(
        self,
        data: Row,
        workflow: Any,
        workflow_kwargs: dict[str, Any] | None = None,
        should_accept_fn: AcceptFn | str | None = None,
        group_size: int = 1,
        task_id: int | None = None,
        is_eval: bool = False,
        reward_normalization: bool = False,
        drop_incomplete_group: bool = False,
    ) -> int:
        """Queue one row; ``wait`` hands out its trajectory.

        Args:
            data: The row.
            workflow: What ``resolve_workflow`` takes.
            workflow_kwargs: For the workflow's class.
            should_accept_fn: Filters trajectories; a callable or an import path.
            group_size: How many episodes the row gets.
            task_id: Unique among the tasks that have not been handed out; None picks one.
            is_eval: Keeps the row out of the staleness count and marks its statistics.
            reward_normalization: See ``GroupedRolloutWorkflow``.
            drop_incomplete_group: See ``GroupedRolloutWorkflow``.

        Returns:
            The task's id.

        Raises:
            ValueError: The workflow cannot be made, or the task id is in use.
            TypeError: ``should_accept_fn`` is neither a callable nor a string.
            TaskQueueFullError: ``rollout.queue_size`` is set, and that many rows wait to start.
        """
        resolved = self._resolve(
            workflow, workflow_kwargs, group_size, reward_normalization, drop_incomplete_group
        )
        accept_fn = resolve_accept_fn(should_accept_fn)
        queue = self._running_queue
        with queue.lock:
            limit = self.config.queue_size
            if limit is not None and queue.num_waiting >= limit:
                raise TaskQueueFullError(
                    f"{limit} rows wait to start, which is rollout.queue_size; wait() for some"
                )
            task_id = self._new_id(is_eval, task_id)
            queue.add(
                [RolloutTask(task_id, data, resolved, accept_fn, is_eval, not is_eval, self._own)]
            )
        queue.start_waiting()
        return task_id

    def wait(
        self, count: int, timeout: float | None = None, raise_timeout: bool = True
    ) -> list[Trajectory | None]:
        """Wait for submitted rows and take out the oldest ones that are done.

        Args:
            count: How many.
            timeout: In seconds; None waits for ever.
            raise_timeout: False returns [] after the timeout.

        Returns:
            A trajectory per row, or None where the row was rejected, in the order of submission.

        Raises:
            TimeoutError: Fewer came in time; the message names what they waited for.
            EpisodeFailureError: Most episodes, or most reward calls, fail.
        """
        box, queue = self._own, self._running_queue
        if not queue.wait_until(lambda: len(box.done) >= count, box, count, timeout, raise_timeout):
            return []
        with queue.lock:
            return [task.result for task in queue.take(box, count)]

    def wait_for_task(
        self, task_id: int, timeout: float | None = None, raise_timeout: bool = True
    ) -> Trajectory | None:
        """Wait for one submitted row; the arguments are those of ``wait``.

        Raises:
            ValueError: No such task was submitted, or its result was handed out already.
            TimeoutError: It did not end in time.
            EpisodeFailureError: Most episodes, or most reward calls, fail.
        """
        box, queue = self._own, self._running_queue
        task = queue.tasks.get(task_id)
        if task is None or task.mailbox is not box:
            raise ValueError(f"task {task_id} was never submitted, or has been handed out already")
        if not queue.wait_until(lambda: task.is_done, box, 1, timeout, raise_timeout):
            return None
        with queue.lock:
            queue.take_task(task)
        return task.result

    def rollout_batch(
        self,
        data: list[Row],
        workflow: Any,
        workflow_kwargs: dict[str, Any] | None = None,
        group_size: int = 1,
        reward_normalization: bool = False,
        drop_incomplete_group: bool = False,
        *,
        should_accept_fn: AcceptFn | str | None = None,
        is_eval: bool = False,
    ) -> list[Trajectory]:
        """Run the episodes of all rows now and wait for them.

        The caller consumes the rows at once, so staleness does not hold them back.

        Args:
            data: The rows.
            workflow: What ``resolve_workflow`` takes.
            workflow_kwargs: For the workflow's class.
            group_size: How many episodes each row gets.
            reward_normalization: See ``GroupedRolloutWorkflow``.
            drop_incomplete_group: See ``GroupedRolloutWorkflow``.
            should_accept_fn: Filters trajectories; a callable or an import path.
            is_eval: Marks the statistics, and numbers the rows apart from training.

        Returns:
            The accepted trajectories in the order of their rows.

        Raises:
            EpisodeFailureError: Most episodes, or most reward calls, fail.
        """
        resolved = self._resolve(
            workflow, workflow_kwargs, group_size, reward_normalization, drop_incomplete_group
        )
        accept_fn = resolve_accept_fn(should_accept_fn)
        results = self._run_all(data, resolved, accept_fn, is_eval)
        return [result for result in results if result is not None]

    def evaluate_rows(self, data: list[Row], workflow: Any) -> list[Trajectory | None]:
        """Run one evaluation episode for each row and wait for them.

        Returns:
            The trajectories in the order of their rows, None for those that were rejected.

        Raises:
            EpisodeFailureError: Most episodes, or most reward calls, fail.
        """
        return self._run_all(data, self._resolve(workflow, None, 1), None, is_eval=True)

    def _run_all(
        self, data: list[Row], workflow: Any, accept_fn: AcceptFn | None, is_eval: bool
    ) -> list[Trajectory | None]:
        box, queue = Mailbox(), self._running_queue
        with self._hold():
            with queue.lock:
                queue.add(
                    RolloutTask(
                        self._new_id(is_eval), row, workflow, accept_fn, is_eval, False, box
                    )
                    for row in data
                )
            queue.start_waiting()
        queue.wait_until(lambda: len(box.done) >= len(data), box, len(data))
        with queue.lock:
            return [task.result for task in queue.take(box, len(data))]

    # --- batches from a dataloader ------------------------------------------------------------

    def prepare_batch(
        self,
        dataloader: Iterable[list[Row]],
        workflow: Any,
        workflow_kwargs: dict[str, Any] | None = None,
        should_accept_fn: AcceptFn | str | None = None,
        group_size: int = 1,
        dynamic_bs: bool = False,
        reward_normalization: bool = False,
        drop_incomplete_group: bool = False,
    ) -> list[Trajectory]:
        """Return the next batch, while rows of later batches may already be under way.

        Everything but ``dynamic_bs`` is taken from the first call; later calls continue it.

        Args:
            dataloader: Yields lists of rows; read round and round.
            workflow: What ``resolve_workflow`` takes.
            workflow_kwargs: For the workflow's class.
            should_accept_fn: Filters trajectories; a callable or an import path.
            group_size: How many episodes each row gets.
            dynamic_bs: Ends the batch when a batch of rows is done, of which some may have been
                rejected, instead of replacing those.
            reward_normalization: See ``GroupedRolloutWorkflow``.
            drop_incomplete_group: See ``GroupedRolloutWorkflow``.

        Returns:
            Trajectories in the order of their rows; as many as the dataloader's batch has rows,
            with ``dynamic_bs`` at least one.

        Raises:
            ConfigError: A batch can never be complete with the configured sizes.
            EpisodeFailureError: Most episodes, or most reward calls, fail, or a thousand rows in a
                row were rejected.
        """
        if self._feed is None:
            self._batch_workflow = self._resolve(
                workflow, workflow_kwargs, group_size, reward_normalization, drop_incomplete_group
            )
            self._batch_accept_fn = resolve_accept_fn(should_accept_fn)
            self._feed = RowFeed(dataloader, self._requeued)
            self._requeued = []
        num_missing = self._feed.batch_size
        self._check_sizes(num_missing)
        max_barren = max(_MAX_BARREN_ROWS, _MAX_BARREN_BATCHES * num_missing)
        batch: list[RolloutTask] = []
        num_barren = 0
        while num_missing > 0 or not batch:
            num_missing = max(num_missing, 1)
            self._top_up(self._feed, num_missing)
            tasks = self._take_from_batch(num_missing)
            accepted = [task for task in tasks if task.result is not None]
            fresh = self._without_old(accepted)
            batch += fresh
            num_barren = 0 if fresh else num_barren + len(tasks)
            if num_barren >= max_barren:
                raise EpisodeFailureError(self._describe_barren(num_barren))
            num_requeued = len(accepted) - len(fresh)
            num_missing -= len(tasks) - num_requeued if dynamic_bs else len(fresh)
        batch.sort()
        self.batch_rows = [task.data for task in batch]
        return [task.result for task in batch if task.result is not None]

    def pending_rows(self) -> list[Row]:
        """Return the rows read from the dataloader whose results ``prepare_batch`` has not used.

        A run that restores the dataloader's position and passes these to ``requeue`` loses no row
        and repeats none.
        """
        with self._running_queue.lock:
            read = self._feed.buffer if self._feed is not None else self._requeued
            return [*(task.data for task in self._pending_tasks()), *read]

    def requeue(self, rows: Iterable[Row]) -> None:
        """Put rows before those of the dataloader."""
        if self._feed is not None:
            self._feed.requeue(rows)
        else:
            self._requeued = [*rows, *self._requeued]

    def state_dict(self) -> dict[str, Any]:
        """Return what a restarted run needs besides the dataloader's own state.

        Call it in the thread that calls ``prepare_batch``, between two batches.
        """
        rows = self.pending_rows()
        with self._running_queue.lock:
            pending = [task.task_id for task in self._pending_tasks()]
            return {
                "next_task_id": min(pending, default=self._next_id),
                "next_eval_task_id": self._next_eval_id,
                "num_consumed": self._num_consumed,
                "pending_rows": rows,
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``; call it after ``initialize`` and before any row."""
        self._next_id = state["next_task_id"]
        self._next_eval_id = state["next_eval_task_id"]
        self._num_consumed = state["num_consumed"]
        self.staleness_manager.restore(self._num_consumed)
        self.requeue(state["pending_rows"])

    # --- numbers ------------------------------------------------------------------------------

    def get_stats(self) -> RolloutStat:
        """Return the counts of training rows so far."""
        return self.staleness_manager.get_stats()

    def export_stats(self, reset: bool = True) -> dict[str, float]:
        """Return counts since the last call.

        Args:
            reset: Starts counting again.

        Returns:
            ``rollout/accepted``, ``rollout/rejected``, ``rollout/failed`` and
            ``rollout/failed/<exception>`` count episodes; ``rollout/running`` and
            ``rollout/enqueued`` are training rows now; ``reward/calls``, ``reward/failures`` and
            ``reward/timeouts`` count reward calls.
        """
        stats = {f"rollout/{name}": n for name, n in self.monitor.export(reset).items()}
        rows = self.get_stats()
        stats |= {"rollout/running": float(rows.running), "rollout/enqueued": float(rows.enqueued)}
        if self.max_token_age is not None:
            stats["rollout/too_old"] = float(self._num_too_old)
            self._num_too_old = 0 if reset else self._num_too_old
        return stats | REWARD_STATS.export(reset)

    # --- inside: episodes ---------------------------------------------------------------------

    def _resolve(self, workflow: Any, kwargs: Any, group_size: int, *group_options: bool) -> Any:
        return resolve_workflow(
            workflow,
            kwargs,
            group_size,
            *group_options,
            agent_wrapper=self.agent_wrapper,
            is_online=self.config.agent.mode == "online" and self.agent_wrapper is not None,
            serialize=self.config.serialize_group_samples,
        )

    def _new_id(self, is_eval: bool, wish: int | None = None) -> int:
        """Return an unused task id; the caller holds the lock."""
        known = self._running_queue.tasks
        if wish is not None:
            if wish in known:
                raise ValueError(f"task id {wish} is in use")
            return wish
        task_id = self._next_eval_id if is_eval else self._next_id
        while task_id in known:  # chosen by a caller
            task_id += 1
        if is_eval:
            self._next_eval_id = task_id + 1
        else:
            self._next_id = task_id + 1
        return task_id

    async def _run(self, task: RolloutTask) -> None:
        workflow_context.set(workflow_context.WorkflowContext(task.is_eval, task.task_id))
        name = workflow_name(task.workflow)
        try:
            result = await self._run_workflow(task, name)
            if result is not None:
                task.result = self._accept(task, result)
        except Exception as error:
            self.monitor.add_failure(name, error)
        if self.config.enable_rollout_tracing:
            outcome = "rejected" if task.result is None else "accepted"
            self.logger.info("row %d of %s was %s", task.task_id, name, outcome)

    def _run_workflow(self, task: RolloutTask, name: str) -> Coroutine[Any, Any, Any]:
        engine, workflow = self.inference_engine, task.workflow
        if isinstance(workflow, GroupedRolloutWorkflow):
            return workflow.run_group(engine, task.data, self.monitor, task.lease)
        return run_episode(workflow, engine, task.data, name, self.monitor)

    def _accept(self, task: RolloutTask, result: Any) -> Trajectory | None:
        trajectory = to_trajectory(result)
        if self.config.check_trajectory_format:
            check_trajectory_format(
                trajectory, expected_keys=self._expected_keys, logger=self.logger
            )
            self._expected_keys = self._expected_keys or frozenset(trajectory)
        if task.mailbox is self._batch:
            self._check_batch_keys(task, trajectory)
        if task.accept_fn is not None and not task.accept_fn(trajectory):
            return None
        return trajectory

    def _check_batch_keys(self, task: RolloutTask, trajectory: Trajectory) -> None:
        """Raise unless a trajectory can be put together with those before it."""
        keys = frozenset(trajectory)
        self._batch_keys = self._batch_keys or keys
        if keys == self._batch_keys:
            return
        lacks, adds = self._batch_keys - keys, keys - self._batch_keys
        parts = [f"lacks {', '.join(sorted(lacks))}"] if lacks else []
        parts += [f"adds {', '.join(sorted(adds))}"] if adds else []
        raise TrajectoryError(
            f"workflow {workflow_name(task.workflow)} returned other keys than in the first "
            f"trajectory: this one {' and '.join(parts)}"
        )

    def _describe_barren(self, num_rows: int) -> str:
        """Return why rows give no batch."""
        text = (
            f"none of the last {num_rows} rows gave a trajectory to train on: the workflow or the "
            "filter (run.dynamic_filter, should_accept_fn) rejected them"
            + (
                ", or they were older than run.max_token_age"
                if self.max_token_age is not None
                else ""
            )
        )
        reasons = self.monitor.failure_reasons()
        if reasons:
            cause, count = next(iter(reasons.items()))
            text += f", or they failed, {count} times so far with: {cause}"
        return f"{text}. A filter of equal rewards rejects a task that is solved or hopeless"

    # --- inside: batches ----------------------------------------------------------------------

    def _hold(self) -> AbstractContextManager[None]:
        return self.gauge.hold() if self.gauge is not None else nullcontext()

    def _pending_tasks(self) -> list[RolloutTask]:
        tasks = self._running_queue.tasks.values()
        return sorted(task for task in tasks if task.mailbox is self._batch)

    def _top_up(self, feed: RowFeed, num_missing: int) -> None:
        """Submit rows for what a batch lacks, and when running ahead for the next one too."""
        queue = self._running_queue
        with self._hold():
            while self._needs_row(feed, num_missing):
                while self._needs_row(feed, num_missing):
                    row = feed.next_row()  # may take its time, so not under the lock
                    with queue.lock:
                        queue.add([self._batch_task(row)])
                queue.start_waiting()  # together, so that equal prompts share their prefill

    def _batch_task(self, row: Row, task_id: int | None = None) -> RolloutTask:
        workflow, accept_fn = self._batch_workflow, self._batch_accept_fn
        if task_id is None:
            task_id = self._new_id(is_eval=False)
        return RolloutTask(task_id, row, workflow, accept_fn, False, True, self._batch)

    def _needs_row(self, feed: RowFeed, num_missing: int) -> bool:
        if self.config.max_head_offpolicyness == 0:
            return self._batch.num_outstanding < num_missing
        # Rows that wait here start in the background as soon as the version allows it.
        return self._running_queue.num_waiting < min(
            feed.batch_size, self.config.queue_size or feed.batch_size
        )

    def _take_from_batch(self, num_missing: int) -> list[RolloutTask]:
        """Wait for what a batch lacks, or for a rejection that asks for another row."""
        box, queue = self._batch, self._running_queue
        in_waves = self.gauge is not None and self.config.max_head_offpolicyness == 0

        def is_satisfied() -> bool:
            if in_waves:  # a replacement at another moment would join other decode steps
                return len(box.done) == box.num_outstanding
            return box.num_accepted >= num_missing or len(box.done) > box.num_accepted

        queue.wait_until(is_satisfied, box, num_missing)
        taken: list[RolloutTask] = []
        num_accepted = 0
        with queue.lock:
            while box.done and num_accepted < num_missing:
                taken += queue.take(box, 1)
                num_accepted += taken[-1].result is not None
        self._num_consumed += num_accepted
        return taken

    def _without_old(self, tasks: list[RolloutTask]) -> list[RolloutTask]:
        """Return the tasks that are fresh enough to train on; the rows of others are made again.

        Staleness bounds which rows may start, not how long one of them takes.
        """
        if self.max_token_age is None:
            return tasks
        version = self.inference_engine.get_version()
        fresh, old = [], []
        for task in tasks:
            age = version - _oldest_version(task.result or {}, version)
            (old if age > self.max_token_age else fresh).append(task)
        if old:
            self._num_too_old += len(old)
            self._num_consumed -= len(old)
            self.staleness_manager.on_rollouts_requeued(len(old))
            queue = self._running_queue
            with queue.lock:
                # Under their old numbers, so that they keep their place among the pending rows.
                queue.add(self._batch_task(task.data, task.task_id) for task in old)
            queue.start_waiting()
        return fresh

    def _check_sizes(self, batch_size: int) -> None:
        manager = self.staleness_manager
        stats = manager.get_stats()
        room = manager.get_staleness_capacity() + stats.running + self._batch.num_accepted
        if room < batch_size:
            raise ConfigError(
                f"a batch of {batch_size} rows can never be complete: at version "
                f"{manager.version_provider.get_version()}, rollout.consumer_batch_size "
                f"{manager.consumer_batch_size} and max_head_offpolicyness "
                f"{manager.max_staleness} allow {max(room, 0)} more; set consumer_batch_size to "
                "the dataloader's batch_size, and raise the engine's version after every batch"
            )


def _oldest_version(trajectory: Trajectory, default: int) -> int:
    versions = trajectory.get("versions")
    if versions is None:
        return default
    # Prompts are version -1, and padding is outside of the mask.
    sampled = versions[(versions >= 0) & trajectory["attention_mask"].bool()]
    return int(sampled.min()) if sampled.numel() else default
