"""One object for all the servers of a rollout."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from areal.api.alloc_mode import ModelAllocation
from areal.api.config.rollout import InferenceEngineConfig
from areal.api.engine_api import InferenceEngine
from areal.api.io_struct import LocalInfServerInfo, ModelRequest, ModelResponse, WeightUpdateMeta
from areal.infra.staleness_manager import StalenessManager


class RolloutController:
    """Starts the servers of a rollout on this machine and generates with all of them.

    An engine of this package talks to a whole fleet, so one engine in this process does the work
    of AReaL's engine per server.

    Args:
        inf_engine: The class of the engine, made with ``config``.
        config: Rollout settings; ``config.backend`` gives the number of servers.
        scheduler: None starts servers on this machine.

    Raises:
        NotImplementedError: A scheduler is given.
    """

    def __init__(
        self, inf_engine: type[InferenceEngine], config: InferenceEngineConfig, scheduler: Any
    ) -> None:
        if scheduler is not None:
            raise NotImplementedError(
                f"{type(scheduler).__name__}: schedulers other than local are not available yet; "
                "pass None to start servers on this machine"
            )
        self.config = config
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
        """
        try:
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

    def destroy(self) -> None:
        """Stop the engine and end the servers that it started; a second call does nothing."""
        self.engine.destroy()
        self.server_infos = []

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

    # --- weights

    def set_version(self, version: int) -> None:
        self.engine.set_version(version)

    def get_version(self) -> int:
        return self.engine.get_version()

    async def update_weights_from_disk(self, meta: WeightUpdateMeta) -> None:
        """Have every server load ``meta.path``, which must stay until there are newer weights."""
        await asyncio.wrap_future(self.engine.update_weights_from_disk(meta))

    async def pause_generation(self) -> None:
        await asyncio.to_thread(self.engine.pause_generation)

    def pause_generation_sync(self) -> None:
        """Call ``pause_generation`` without an event loop."""
        self.engine.pause_generation()

    async def continue_generation(self) -> None:
        await asyncio.to_thread(self.engine.continue_generation)
