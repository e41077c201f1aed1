"""One object for all the servers of a rollout."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

from areal.api.alloc_mode import ModelAllocation
from areal.api.config.rollout import InferenceEngineConfig
from areal.api.engine_api import InferenceEngine
from areal.api.io_struct import LocalInfServerInfo, ModelRequest, ModelResponse, WeightUpdateMeta
from areal.api.scheduler_api import Job, Scheduler, Worker
from areal.infra.staleness_manager import StalenessManager


class RolloutController:
    """Starts the servers of a rollout and generates with all of them.

    An engine of this package talks to a whole fleet, so one engine in this process does the work
    of AReaL's engine per server: a worker of the scheduler starts a server, and no more. A server
    that dies hands its rows to the others.

    Args:
        inf_engine: The class of the engine, made with ``config``.
        config: Rollout settings; ``config.backend`` gives the number of servers.
        scheduler: Starts the workers; None starts servers as children of this process.
    """

    def __init__(
        self,
        inf_engine: type[InferenceEngine],
        config: InferenceEngineConfig,
        scheduler: Scheduler | None,
    ) -> None:
        # What a worker starts asks for the key that the worker has.
        if key := config.provider_api_key or getattr(scheduler, "key", None):
            config = dataclasses.replace(config, provider_api_key=key)
        self.config = config
        self.scheduler = scheduler
        self._role = ""
        self.engine: Any = inf_engine(config)  # type: ignore[call-arg]  (engines take a config)
        self.server_infos: list[LocalInfServerInfo] = []

    def initialize(
        self,
        role: str,
        server_args: dict[str, Any] | None = None,
        server_infos: Sequence[LocalInfServerInfo] | None = None,
    ) -> None:
        """Start a server for each data-parallel index, or use those that run, and connect to them.

        Args:
            role: What the servers are for, such as "rollout" or "eval-rollout"; names this engine.
            server_args: For the command line of each server; a ``base_gpu_id`` is that of the
                first.
            server_infos: Servers that run already; none is started then.

        Raises:
            RuntimeError: A server ended before it was ready.
            TimeoutError: A server is not ready within ``config.setup_timeout``.
            SchedulerError: A worker could not be started, or failed.
        """
        try:
            if server_infos is None and self.scheduler is not None:
                server_infos = self._launch_in_workers(self.scheduler, role, server_args or {})
            self.server_infos = list(server_infos or self._launch(server_args or {}))
            addresses = [f"{info.host}:{info.port}" for info in self.server_infos]
            self.engine.initialize(engine_id=role, addr=addresses, train_data_parallel_size=1)
        except BaseException:
            self.destroy()
            raise

    def _launch(self, server_args: dict[str, Any]) -> list[LocalInfServerInfo]:
        parallel = ModelAllocation.from_str(self.config.backend).parallel
        infos: list[LocalInfServerInfo] = []
        for index in range(parallel.dp_size):
            args = dict(server_args)
            if "base_gpu_id" in args:
                args["base_gpu_id"] += index * parallel.model_parallel_size
            if index:
                args.pop("port", None)  # the first server has it
            infos.append(self.engine.launch_server(args))
        return infos

    def _launch_in_workers(
        self, scheduler: Scheduler, role: str, server_args: dict[str, Any]
    ) -> list[LocalInfServerInfo]:
        parallel = ModelAllocation.from_str(self.config.backend).parallel
        size = parallel.model_parallel_size
        specs = [
            dataclasses.replace(
                each, cpu=each.cpu * size, mem=each.mem * size, gpu=size if each.gpu else 0
            )
            for each in self.config.scheduling_spec
        ]
        strategy = self.config.scheduling_strategy
        scheduler.create_workers(Job(role, parallel.dp_size, specs, strategy))
        self._role = role
        workers = scheduler.get_workers(role)

        async def launch(worker: Worker) -> LocalInfServerInfo:
            await scheduler.create_engine(worker.id, type(self.engine), role, self.config)
            # A worker sees its own devices, and is reached where its server is.
            args = {**server_args, "host": worker.ip}
            args.pop("base_gpu_id", None)
            if len(workers) > 1:
                args.pop("port", None)
            return await scheduler.async_call_engine(worker.id, "launch_server", role, args)

        async def launch_all() -> list[LocalInfServerInfo]:
            return await asyncio.gather(*map(launch, workers))

        return asyncio.run(launch_all())

    def destroy(self) -> None:
        """Stop the engine and end what was started; a second call does nothing."""
        self.engine.destroy()
        self.server_infos = []
        if self.scheduler is not None and self._role:
            role, self._role = self._role, ""
            # A worker that is told to end destroys its engine, and that its server.
            self.scheduler.delete_workers(role)

    # --- rollouts: arguments and results are those of InferenceEngine

    def submit(self, *args: Any, **kwargs: Any) -> int:
        return self.engine.submit(*args, **kwargs)

    def wait(self, *args: Any, **kwargs: Any) -> list[dict[str, Any] | None]:
        return self.engine.wait(*args, **kwargs)

    def rollout_batch(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        return self.engine.rollout_batch(*args, **kwargs)

    def prepare_batch(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        return self.engine.prepare_batch(*args, **kwargs)

    async def agenerate(self, req: ModelRequest) -> ModelResponse:
        return await self.engine.agenerate(req)

    def compute_logp(self, *args: Any, **kwargs: Any) -> Any:
        return self.engine.compute_logp(*args, **kwargs)

    def abort_all_requests(self) -> None:
        """Have every server end what it generates; callers get what there is."""
        self.engine.abort_all_requests()

    def offload(self, tags: list[str] | None = None) -> None:
        """Have every server free its memory."""
        self.engine.offload(tags)

    def onload(self, tags: list[str] | None = None) -> None:
        """Undo ``offload``."""
        self.engine.onload(tags)

    def pause(self) -> None:
        self.engine.pause()

    def resume(self) -> None:
        self.engine.resume()

    @property
    def staleness_manager(self) -> StalenessManager:
        """Bounds how far rollouts run ahead of training."""
        return self.engine.workflow_executor.staleness_manager

    def get_capacity(self) -> int:
        """Return how many more rows may be started now."""
        return self.staleness_manager.get_capacity()

    def export_stats(self) -> dict[str, float]:
        return self.engine.export_stats()

    def config_perf_tracer(self, *args: Any, **kwargs: Any) -> None:
        self.engine.config_perf_tracer(*args, **kwargs)

    def save_perf_tracer(self, *args: Any, **kwargs: Any) -> None:
        self.engine.save_perf_tracer(*args, **kwargs)

    # --- weights

    def set_version(self, version: int) -> None:
        self.engine.set_version(version)

    def get_version(self) -> int:
        return self.engine.get_version()

    async def update_weights_from_disk(self, meta: WeightUpdateMeta) -> None:
        """Have every server load ``meta.path``, which must stay until there are newer weights."""
        await asyncio.wrap_future(self.engine.update_weights_from_disk(meta))

    async def init_weights_update_group(self, *args: Any, **kwargs: Any) -> None:
        """Have every server join the group of ``meta``, whose first member is the caller's."""
        await asyncio.wrap_future(self.engine.init_weights_update_group(*args, **kwargs))

    async def update_weights_from_distributed(self, *args: Any, **kwargs: Any) -> None:
        """Have every server take what the group's first member sends."""
        await asyncio.wrap_future(self.engine.update_weights_from_distributed(*args, **kwargs))

    async def pause_generation(self) -> None:
        await asyncio.to_thread(self.engine.pause_generation)

    def pause_generation_sync(self) -> None:
        """Call ``pause_generation`` without an event loop."""
        self.engine.pause_generation()

    async def continue_generation(self) -> None:
        await asyncio.to_thread(self.engine.continue_generation)
