"""One object for all the processes of a train engine."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import SchedulingSpec, TrainEngineConfig
from areal.api.engine_api import TrainEngine
from areal.api.io_struct import FinetuneSpec, SaveLoadMeta, WeightUpdateMeta
from areal.api.scheduler_api import Job, Scheduler, Worker
from areal.infra.controller.callback import CallbackServer, RolloutCallback
from areal.infra.controller.rollout_controller import RolloutController
from areal.utils.data.microbatch import take_rows
from areal.utils.seqpack import partition_sizes

logger = logging.getLogger("TrainController")

WEIGHT_UPDATE_TYPES = ("disk", "http", "xccl")

_ENGINE = "engine"
# What a second port of the first worker is for, as torchrun would have it.
_MEETING_PORT = 1


class TrainController:
    """Starts the processes of a train engine and calls them together.

    Methods that are not listed here are those of the engine. Of their arguments, lists of
    trajectories and padded batches are shared out over the processes that see other data, by
    balanced numbers of tokens; all else goes to each. Lists and tensors with a row for each that
    was given come back in the order of the arguments, everything else from the first process.

    Args:
        train_engine: The class of the engine, made with ``config`` in each process.
        config: Of the engine; ``config.backend`` gives the number of processes.
        scheduler: Starts them.
    """

    # How many items that follow each other stay together: the two sides of a pair are two.
    group_size = 1

    def __init__(
        self, train_engine: type[TrainEngine], config: TrainEngineConfig, scheduler: Scheduler
    ) -> None:
        self.train_engine = train_engine
        self.config = config
        self.scheduler = scheduler
        self.workers: list[Worker] = []
        self.rollout: RolloutController | None = None
        self._callbacks: CallbackServer | None = None
        self.cpu_group = None
        self.data_parallel_rank = 0
        self.data_parallel_world_size = 1
        self._role = ""
        self._version = 0
        self._heads: list[bool] = []
        self._replicas: list[int] = []

    def is_data_parallel_head(self) -> bool:
        """Return True: there is one controller."""
        return True

    # --- life

    def create_process_group(self, parallel_strategy: Any = None) -> None:
        """Do nothing: the processes join each other in ``initialize``."""

    def initialize(self, role: str, ft_spec: FinetuneSpec | None = None, **kwargs: Any) -> None:
        """Start the processes, make the engine in each, and have them join each other.

        Args:
            role: Of the workers, such as "actor".
            ft_spec: The length of the run.
            **kwargs: Further arguments of the engine's ``initialize``.
        """
        parallel = ModelAllocation.from_str(self.config.backend).parallel
        specs = list(self.config.scheduling_spec) or [SchedulingSpec()]
        # Beside the worker's own port, one for the processes to meet at.
        specs = [
            dataclasses.replace(each, port_count=max(each.port_count, _MEETING_PORT + 1))
            for each in specs
        ]
        job = Job(role, parallel.world_size, specs, self.config.scheduling_strategy)
        self.scheduler.create_workers(job)
        self._role = role
        try:
            self.workers = self.scheduler.get_workers(role)
            asyncio.run(self._create(parallel.world_size, ft_spec, kwargs))
        except BaseException:
            self.destroy()
            raise

    async def _create(self, world_size: int, ft_spec: Any, kwargs: dict[str, Any]) -> None:
        first = self.workers[0]
        names = [worker.id for worker in self.workers]
        environments = [
            {
                "RANK": str(rank),
                "WORLD_SIZE": str(world_size),
                "LOCAL_RANK": "0",  # a worker sees its own devices alone
                "MASTER_ADDR": first.ip,
                "MASTER_PORT": first.worker_ports[_MEETING_PORT],
            }
            for rank in range(world_size)
        ]
        s = self.scheduler
        await asyncio.gather(*map(s.set_worker_env, names, environments))
        path = f"{self.train_engine.__module__}.{self.train_engine.__qualname__}"
        await asyncio.gather(*(s.create_engine(n, path, _ENGINE, self.config) for n in names))
        await self._call_all("create_process_group")
        await self._call_all("initialize", None, ft_spec, **kwargs)
        self._heads = await self._call_all("is_data_parallel_head")
        self._replicas = await self._call_all("data_parallel_rank")

    def destroy(self) -> None:
        """Destroy the engines and end the processes, the last one first; again does nothing."""
        if not self._role:
            return
        role, self._role = self._role, ""
        if self._heads:
            try:
                asyncio.run(self._call_all("destroy"))
            except Exception as error:  # a worker that is gone has nothing to destroy
                logger.warning("the engines of %s could not be destroyed: %s", role, error)
        self._disconnect()
        self.workers, self._heads = [], []
        self.scheduler.delete_workers(role, reverse_order=True)

    # --- calls

    async def _call_all(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Call a method of all processes and return what each gave."""
        return await asyncio.gather(
            *(
                self.scheduler.async_call_engine(worker.id, method, _ENGINE, *args, **kwargs)
                for worker in self.workers
            )
        )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or not callable(getattr(self.train_engine, name, None)):
            raise AttributeError(f"{type(self).__name__} and its engine have no {name!r}")
        return lambda *args, **kwargs: self._shared_call(name, args, kwargs)

    def _shared_call(self, method: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Share out the data of a call, and put the results together."""
        num_shares = max(self._replicas) + 1
        values = [*args, *kwargs.values()]
        batches = [value for value in values if _sizes(value) is not None]
        shares = _shares(batches, num_shares, self.group_size)
        results = asyncio.run(self._call_shares(method, args, kwargs, shares))
        found = [result for result, is_head in zip(results, self._heads, strict=True) if is_head]
        if not shares:
            return found[0]
        order = [row for share in shares for row in share]
        return _joined(found, order)

    async def _call_shares(
        self, method: str, args: Sequence[Any], kwargs: dict[str, Any], shares: list[list[int]]
    ) -> list[Any]:
        calls = []
        for worker, is_head, replica in zip(self.workers, self._heads, self._replicas, strict=True):
            given, named = args, kwargs
            if shares:
                share = shares[replica] if is_head else None  # others get it from their head
                given = [_part(value, share) for value in args]
                named = {name: _part(value, share) for name, value in kwargs.items()}
            is_split = len(self.workers) > len(set(self._replicas))
            calls.append(
                self.scheduler.async_call_engine(
                    worker.id,
                    method,
                    _ENGINE,
                    *given,
                    rpc_meta={"broadcast": bool(shares) and is_split},
                    **named,
                )
            )
        return await asyncio.gather(*calls)

    def _filled_up(self, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return items with groups behind them that no loss counts: each replica has one at least.

        Of such a group the first item has tokens, for the model to have any.
        """
        size = (max(self._replicas) + 1) * self.group_size
        unmasked = dict(data[0])
        if "loss_mask" in unmasked:
            unmasked["loss_mask"] = torch.zeros_like(unmasked["loss_mask"])
        group = [unmasked, *([_empty_like(data[0])] * (self.group_size - 1))]
        return [*data, *(group * (-len(data) % size // self.group_size))]

    def train(self, mode: bool = True) -> TrainController:
        """Switch to training mode, or with False to evaluation mode, and return itself."""
        self._shared_call("train", (mode,), {})
        return self

    def eval(self) -> TrainController:
        """Switch to evaluation mode and return itself."""
        return self.train(False)

    def step_lr_scheduler(self) -> None:
        """Move the learning rate one step along its schedule."""
        self._shared_call("lr_scheduler_step", (), {})

    # --- rollouts and weights

    def set_version(self, version: int) -> None:
        """Set the version of the weights."""
        self._version = version
        self._shared_call("set_version", (version,), {})

    def get_version(self) -> int:
        """Return the version of the weights."""
        return self._version

    def connect_engine(self, rollout: RolloutController, meta: WeightUpdateMeta) -> None:
        """Name the controller that gets the weights, by a folder, by HTTP or in a group.

        Raises:
            NotImplementedError: They are to go another way.
        """
        if meta.type not in WEIGHT_UPDATE_TYPES:
            raise NotImplementedError(
                f"weight_update_mode {meta.type!r} is not available; choose one of "
                f"{', '.join(WEIGHT_UPDATE_TYPES)}"
            )
        self._disconnect()
        self.rollout = rollout
        is_on_one_machine = bool(getattr(self.scheduler, "is_on_one_machine", True))
        key = getattr(self.scheduler, "key", "")
        self._callbacks = CallbackServer(rollout.engine, key, is_on_one_machine)
        rollout.callback_addr = self._callbacks.start()
        callback = RolloutCallback(rollout.callback_addr)
        self._shared_call("connect_engine", (callback, meta), {})

    @property
    def inference_engine(self) -> RolloutController | None:
        """What is connected; None before."""
        return self.rollout

    def _disconnect(self) -> None:
        if self.rollout is not None:
            self.rollout.callback_addr = None
        self.rollout = None
        if self._callbacks is not None:
            self._callbacks.stop()
            self._callbacks = None

    def update_weights(self, meta: WeightUpdateMeta) -> None:
        """Give the servers the weights of now; return when those that can have them.

        Generation goes on while they are gathered and written.

        Args:
            meta: Without a version it is the one that comes next; without a path, the folder in
                which servers that join later find the weights is one of the run's.

        Raises:
            RuntimeError: There is nobody to give them to.
        """
        if self.rollout is None:
            raise RuntimeError("call connect_engine() first")
        if meta.path is None:
            meta = dataclasses.replace(meta, path=self._weights_path())
        if meta.version is None:
            meta = meta.with_version(self.rollout.get_version() + 1)
        self._shared_call("update_weights", (meta,), {})

    def _weights_path(self) -> str:
        c, root = self.config, getattr(self.scheduler, "fileroot", None)
        if root is None:
            raise RuntimeError("meta.path is not set, and the scheduler has no fileroot")
        disk = WeightUpdateMeta.from_disk(c.experiment_name, c.trial_name, root, self._role)
        return str(disk.path)

    def save(self, meta: SaveLoadMeta) -> None:
        """Save the model, and the optimiser if asked."""
        self._shared_call("save", (meta,), {})

    def load(self, meta: SaveLoadMeta) -> None:
        """Load what ``save`` saved."""
        self._shared_call("load", (meta,), {})

    def rollout_batch(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """Call the connected controller's ``rollout_batch``."""
        return self._require_rollout().rollout_batch(*args, **kwargs)

    def prepare_batch(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """Call the connected controller's ``prepare_batch``."""
        return self._require_rollout().prepare_batch(*args, **kwargs)

    def _require_rollout(self) -> RolloutController:
        if self.rollout is None:
            raise RuntimeError("no rollouts are connected; call connect_engine() first")
        return self.rollout

    def clear_batches(self, *batches: Any) -> None:
        """Do nothing: batches travel with the calls, and none is left in a worker."""


# --- shares of data


def _sizes(value: Any) -> list[int] | None:
    """Return the number of tokens of each item of what is shared out; None for anything else."""
    if isinstance(value, dict) and isinstance(value.get("attention_mask"), torch.Tensor):
        found: list[int] = value["attention_mask"].sum(1).tolist()
        return found
    is_batch = isinstance(value, list) and value and all(isinstance(v, dict) for v in value)
    if is_batch and all(isinstance(v.get("attention_mask"), torch.Tensor) for v in value):
        return [int(each["attention_mask"].sum()) for each in value]
    return None


def _shares(batches: list[Any], count: int, group_size: int) -> list[list[int]]:
    """Return which items each replica gets; [] where there is nothing to share out.

    Raises:
        ValueError: There are too few items, or the batches of one call differ in size.
    """
    if not batches:
        return []
    sizes = _sizes(batches[0]) or []
    if any(len(_sizes(other) or []) != len(sizes) for other in batches[1:]):
        raise ValueError("the batches of one call have different numbers of items")
    if len(sizes) % group_size or len(sizes) < count * group_size:
        raise ValueError(
            f"{len(sizes)} items cannot be shared out over {count} replicas in groups of "
            f"{group_size}; make the batch a multiple of {group_size}, and at least "
            f"{count * group_size}"
        )
    groups = [sum(sizes[i : i + group_size]) for i in range(0, len(sizes), group_size)]
    parts = partition_sizes(groups, min_groups=count, algorithm="kk")
    return [[g * group_size + k for g in part for k in range(group_size)] for part in parts]


def _empty_like(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item that no loss counts: its masks are 0."""
    return {
        name: torch.zeros_like(value) if isinstance(value, torch.Tensor) else value
        for name, value in item.items()
    }


def _part(value: Any, share: list[int] | None) -> Any:
    if _sizes(value) is None:
        return value
    if share is None:
        return None
    return take_rows(value, share) if isinstance(value, dict) else [value[i] for i in share]


def _joined(found: list[Any], order: list[int]) -> Any:
    """Put the results of the heads together, in the order of what was shared out."""
    if all(isinstance(each, list) for each in found):
        items = [item for each in found for item in each]
        if len(items) == len(order):
            return [item for _, item in sorted(zip(order, items, strict=True), key=_first)]
    if all(isinstance(each, torch.Tensor) and each.ndim for each in found):
        rows = torch.cat(found)
        if len(rows) == len(order):
            return torch.empty_like(rows).index_copy_(0, torch.tensor(order), rows)
    return found[0]


def _first(pair: tuple[int, Any]) -> int:
    return pair[0]
