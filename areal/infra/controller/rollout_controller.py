"""One object for all the servers of a rollout."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

from areal.api.alloc_mode import ModelAllocation
from areal.api.config.rollout import InferenceEngineConfig
from areal.api.engine_api import InferenceEngine
from areal.api.errors import ConfigError
from areal.api.io_struct import LocalInfServerInfo, ModelRequest, ModelResponse, WeightUpdateMeta
from areal.api.registry import import_from_string
from areal.api.scheduler_api import Job, Scheduler, Worker
from areal.infra.staleness_manager import StalenessManager
from areal.infra.workflow_executor import WorkflowExecutor
from areal.utils.hf_utils import load_hf_tokenizer

# By its path: it lies above this package, and needs the packages of agents.
_PROXY = "areal.experimental.openai.proxy:AgentProxy"


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
        # Where training processes call this one, host:port; while an engine is connected.
        self.callback_addr: str | None = None
        self._proxy: Any = None
        self._model_path = ""

    def initialize(
        self,
        role: str,
        server_args: dict[str, Any] | None = None,
        server_infos: Sequence[LocalInfServerInfo] | None = None,
        **kwargs: Any,
    ) -> None:
        """Start a server for each data-parallel index, or use those that run, and connect to them.

        Args:
            role: What the servers are for, such as "rollout" or "eval-rollout"; names this engine.
            server_args: For the command line of each server; a ``base_gpu_id`` is that of the
                first.
            server_infos: Servers that run already; none is started then.
            **kwargs: Further arguments of the engine's ``initialize``.

        Raises:
            RuntimeError: A server ended before it was ready.
            TimeoutError: A server is not ready within ``config.setup_timeout``.
            SchedulerError: A worker could not be started, or failed.
        """
        self._model_path = str((server_args or {}).get("model_path", ""))
        try:
            if server_infos is None and self.scheduler is not None:
                server_infos = self._launch_in_workers(self.scheduler, role, server_args or {})
            self.server_infos = list(server_infos or self._launch(server_args or {}))
            addresses = [f"{info.host}:{info.port}" for info in self.server_infos]
            kwargs = {"engine_id": role, "train_data_parallel_size": 1, **kwargs}
            self.engine.initialize(addr=addresses, **kwargs)
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
        if self._proxy is not None:
            self._proxy.stop()
            self._proxy = None
        self.engine.destroy()
        self.server_infos = []
        if self.scheduler is not None and self._role:
            role, self._role = self._role, ""
            # A worker that is told to end destroys its engine, and that its server.
            self.scheduler.delete_workers(role)

    # --- agents

    def start_proxy(self, **options: Any) -> None:
        """Start what agents reach the model through, if it does not run yet.

        One proxy is enough: behind it are all servers.

        Args:
            **options: Further ones of ``AgentProxy``: ``gconfig``, ``eval_gconfig``,
                ``temperature`` and ``host``.

        Raises:
            ConfigError: No tokenizer is known, or ``config.agent`` contradicts itself.
        """
        if self._proxy is not None:
            return
        path = self.config.tokenizer_path or self._model_path
        if not path:
            raise ConfigError(
                "agents need a tokenizer with a chat template; set rollout.tokenizer_path"
            )
        make = import_from_string(_PROXY)
        proxy = make(self.engine, load_hf_tokenizer(path), self.config.agent, **options)
        proxy.start()
        self._proxy, self.dispatcher.agent_wrapper = proxy, proxy.wrap

    def get_proxy_addr(self, rank: int) -> str:
        """Return the base URL by which agents reach the server of a data-parallel index.

        Raises:
            RuntimeError: No proxy runs.
            IndexError: There is no such server.
        """
        if self._proxy is None:
            raise RuntimeError("no proxy runs; call start_proxy() first")
        if not 0 <= rank < len(self.server_infos):
            raise IndexError(f"rank {rank} of {len(self.server_infos)} server(s) has no proxy")
        return str(self._proxy.address)

    def start_proxy_gateway(self, **options: Any) -> None:
        """Start what outside programs begin sessions at: the proxy itself."""
        self.start_proxy(**options)

    @property
    def proxy_gateway_addr(self) -> str:
        """The base URL for outside programs.

        Raises:
            RuntimeError: None runs.
        """
        if self._proxy is None:
            raise RuntimeError("no gateway runs; call start_proxy_gateway() first")
        return str(self._proxy.address)

    def _check_proxy(self, address: str | None) -> None:
        if address is not None and (self._proxy is None or address != self._proxy.address):
            raise ValueError(
                f"the proxy {address} is not that of this controller; call start_proxy(), and pass "
                "get_proxy_addr(0) or nothing"
            )

    # --- rollouts: further arguments, and results, are those of InferenceEngine

    def submit(self, *args: Any, proxy_addr: str | None = None, **kwargs: Any) -> int:
        self._check_proxy(proxy_addr)
        return self.engine.submit(*args, **kwargs)

    def wait(self, *args: Any, **kwargs: Any) -> list[dict[str, Any] | None]:
        return self.engine.wait(*args, **kwargs)

    def wait_for_task(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        return self.engine.wait_for_task(*args, **kwargs)

    def rollout_batch(
        self, *args: Any, proxy_addr: str | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        self._check_proxy(proxy_addr)
        return self.engine.rollout_batch(*args, **kwargs)

    def prepare_batch(
        self, *args: Any, proxy_addr: str | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        self._check_proxy(proxy_addr)
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
    def dispatcher(self) -> WorkflowExecutor:
        """What starts episodes and collects their results."""
        found: WorkflowExecutor = self.engine.workflow_executor
        return found

    workflow_executor = dispatcher

    @property
    def runner(self) -> WorkflowExecutor:
        """The same: its thread runs the episodes."""
        return self.dispatcher

    @property
    def staleness_manager(self) -> StalenessManager:
        """Bounds how far rollouts run ahead of training."""
        return self.dispatcher.staleness_manager

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
