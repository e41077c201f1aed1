"""What all schedulers do: start commands somewhere, wait until they answer, call them, end them.

A kind of scheduler knows where a command runs. That a worker is one more command, which names its
address in a folder that all machines see, is the same for all.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import secrets
import shlex
import shutil
import sys
import time
import uuid
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from areal.api.cli_args import SchedulingSpec
from areal.api.scheduler_api import Job, Scheduler, Worker
from areal.infra.launch import KEY_VARIABLE
from areal.infra.managed_process import Process
from areal.infra.rpc import wire
from areal.infra.scheduler.exceptions import (
    EngineCallError,
    EngineCreationError,
    EngineImportError,
    PortAllocationError,
    RPCConnectionError,
    SchedulerError,
    WorkerConfigurationError,
    WorkerCreationError,
    WorkerFailedError,
    WorkerNotFoundError,
    WorkerTimeoutError,
)
from areal.utils import names
from areal.utils.name_resolve import NfsNameRecordRepository

logger = logging.getLogger("Scheduler")

DEFAULT_COMMAND = "python -m areal.infra.rpc.rpc_server"
_LOOK_EVERY_S = 0.05
_CONNECT_TIMEOUT_S = 10.0
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclasses.dataclass(frozen=True)
class Command:
    """What to start, and what it needs.

    Attributes:
        name: Of the worker, "role/index".
        argv: Words of the command.
        environment: Beside that of this process.
        spec: The resources.
        log_path: Where its output goes.
        beside: The worker whose place and devices it shares.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    spec: SchedulingSpec
    log_path: Path
    beside: str | None = None


class CommandScheduler(Scheduler):
    """Starts workers as commands and calls the engines in them.

    Args:
        experiment_name: Of the run.
        trial_name: Of the run.
        fileroot: A folder that all machines see.
        n_gpus_per_node: Devices of one machine.
        log_dir: Where logs go; None takes the run's below ``fileroot``.
        startup_timeout: How long ``get_workers`` waits unless it is told, in seconds.
        http_timeout: How long a call may take, in seconds.
        max_retries: How often a call is sent again whose connection broke; the worker runs it once.
        retry_delay: Seconds between attempts.
        exp_config: The run's configuration; its seed, and its names where they are not given.
    """

    key: str  # of the workers, and of the servers that they start
    names_root: Path  # the folder in which they name their addresses

    # Whether workers are reached from this machine alone.
    is_on_one_machine = False

    def __init__(
        self,
        *,
        experiment_name: str | None = None,
        trial_name: str | None = None,
        fileroot: str | None = None,
        n_gpus_per_node: int = 8,
        log_dir: str | Path | None = None,
        startup_timeout: float = 300.0,
        http_timeout: float = 7200.0,
        max_retries: int = 3,
        retry_delay: float = 1.0,
        exp_config: Any = None,
    ) -> None:
        experiment_name = experiment_name or getattr(exp_config, "experiment_name", None)
        trial_name = trial_name or getattr(exp_config, "trial_name", None)
        if fileroot is None and exp_config is not None:
            fileroot = exp_config.cluster.fileroot
        if not experiment_name or not trial_name or not fileroot:
            raise ValueError("a scheduler needs experiment_name, trial_name and fileroot")
        self.experiment_name, self.trial_name = experiment_name, trial_name
        self.exp_config, self.fileroot = exp_config, str(fileroot)
        root = Path(fileroot) / "logs" / names.trial_root(experiment_name, trial_name)
        self.log_dir = Path(log_dir or root).absolute()
        self._n_gpus_per_node = n_gpus_per_node
        self._startup_timeout = startup_timeout
        self._max_retries, self._retry_delay = max_retries, retry_delay
        # Of this scheduler alone: addresses of an earlier run mean nothing.
        self.names_root = self.log_dir / "names" / uuid.uuid4().hex[:8]
        self._repository = NfsNameRecordRepository(self.names_root)
        self.key = os.environ.get(KEY_VARIABLE) or secrets.token_hex(24)
        self._processes: dict[str, list[Process]] = {}
        self._workers: dict[str, Worker] = {}
        self._specs: dict[str, SchedulingSpec] = {}
        self._hosts: dict[str, str] = {}  # of a role that lives in another one's workers
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=httpx.Timeout(http_timeout, connect=_CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
        )
        self._threads = ThreadPoolExecutor(256, "areal-rpc")

    @property
    def n_gpus_per_node(self) -> int:
        return self._n_gpus_per_node

    # --- what a kind of scheduler does

    @abstractmethod
    def start(self, role: str, commands: Sequence[Command], together: bool = True) -> list[Process]:
        """Start commands.

        Args:
            role: Of the commands.
            commands: What to start.
            together: Whether they are of no use without each other.

        Raises:
            WorkerCreationError: There is no room for them, or they cannot be started.
        """

    def await_places(self, processes: Sequence[Process]) -> None:
        """Wait until commands that were started have a place, however long that takes."""

    def close(self) -> None:
        """End all workers, and free what the scheduler itself holds."""
        self.delete_workers(reverse_order=True)
        self._repository.reset()
        shutil.rmtree(self.names_root, ignore_errors=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    # --- workers

    def create_workers(self, job: Job, *args: Any, **kwargs: Any) -> list[str]:
        """Start the workers of a job and return their ids, without waiting for them.

        Raises:
            WorkerCreationError: There are some of that role, or they cannot be started.
        """
        if job.role in self._processes or job.role in self._hosts:
            raise WorkerCreationError(f"there are workers of role {job.role!r} already")
        if job.replicas < 1:
            raise WorkerCreationError(f"role {job.role!r} asks for {job.replicas} workers")
        strategy = job.scheduling_strategy
        specs = job.tasks or [SchedulingSpec()]
        if strategy.type == "colocation":
            target = strategy.target or ""
            if len(self._of(target)) != job.replicas:
                raise WorkerCreationError(
                    f"role {job.role!r} has {job.replicas} workers and {target!r}, whose devices "
                    f"it shares, {len(self._of(target))}"
                )
            if strategy.fork:
                return self._start_workers(job.role, specs, job.replicas, target)
            self._hosts[job.role] = target
            return self._of(target)
        return self._start_workers(job.role, specs, job.replicas)

    def fork_workers(self, role: str, target_role: str, command: str | None = None) -> list[str]:
        if role in self._processes:
            raise WorkerCreationError(f"there are workers of role {role!r} already")
        ids = self._of(target_role)
        spec = dataclasses.replace(self._specs[ids[0]], cmd=command or DEFAULT_COMMAND)
        return self._start_workers(role, [spec], len(ids), target_role)

    def _start_workers(
        self, role: str, specs: Sequence[SchedulingSpec], replicas: int, beside: str | None = None
    ) -> list[str]:
        specs = [specs[0]] * replicas if len(specs) == 1 else specs
        commands = [
            self._command(role, index, spec, None if beside is None else f"{beside}/{index}")
            for index, spec in enumerate(specs)
        ]
        self._processes[role] = []
        try:
            self._processes[role] = self.start(role, commands)
        except BaseException:
            self._processes.pop(role)
            raise
        ids = [command.name for command in commands]
        self._specs |= dict(zip(ids, specs, strict=True))
        return ids

    def _command(self, role: str, index: int, spec: SchedulingSpec, beside: str | None) -> Command:
        command = spec.cmd or DEFAULT_COMMAND
        if "--port" in command:
            raise WorkerCreationError(
                f"role {role!r}: scheduling_spec.cmd must not contain --port, which each worker "
                f"chooses; found {command!r}"
            )
        words = shlex.split(command)
        if words[0] in ("python", "python3"):
            words[0] = sys.executable
        options = {
            "--experiment-name": self.experiment_name,
            "--trial-name": self.trial_name,
            "--role": role,
            "--worker-index": str(index),
            "--host": "127.0.0.1" if self.is_on_one_machine else "0.0.0.0",
            "--name-resolve-type": "nfs",
            "--nfs-record-root": str(self.names_root),
        }
        argv = [*words, *(word for option in options.items() for word in option)]
        log_path = self.log_dir / f"{role}-{index}.log"
        environment = worker_environment(spec) | {KEY_VARIABLE: self.key}
        return Command(f"{role}/{index}", argv, environment, spec, log_path, beside)

    def get_workers(self, role: str, timeout: float | None = None) -> list[Worker]:
        """Wait until all workers of a role answer, and return them in the order of their ids.

        Raises:
            WorkerNotFoundError: There is no such role.
            WorkerFailedError: One ended instead.
            WorkerTimeoutError: They did not answer in time.
        """
        role = self._hosts.get(role, role)
        ids = self._of(role)
        limit_s = self._startup_timeout if timeout is None else timeout
        give_up_at = time.monotonic() + limit_s
        while missing := [each for each in ids if not self._is_known(each)]:
            self._check_alive(role)
            if time.monotonic() >= give_up_at:
                raise WorkerTimeoutError(
                    f"{', '.join(missing)} did not answer in {limit_s:g} s; {self.log_dir} has "
                    "the logs"
                )
            time.sleep(_LOOK_EVERY_S)
        return [self._workers[each] for each in ids]

    def _is_known(self, worker_id: str) -> bool:
        if worker_id in self._workers:
            return True
        role, _, index = worker_id.rpartition("/")
        found = self._repository.get_subtree(
            names.workers(self.experiment_name, self.trial_name, role, int(index))
        )
        if not found:
            return False
        host, _, port = found[0].rpartition(":")
        worker = Worker(worker_id, host, [port])
        more = self._specs[worker_id].port_count - 1
        if more > 0:
            try:
                ports = self._send(worker, "/alloc_ports", {"count": more})
            except SchedulerError as error:
                raise PortAllocationError(f"{worker_id} has no {more} free ports") from error
            worker.worker_ports += [str(each) for each in ports]
        self._workers[worker_id] = worker
        return True

    def _of(self, role: str) -> list[str]:
        if role not in self._processes:
            known = ", ".join(self._processes) or "none"
            raise WorkerNotFoundError(f"there are no workers of role {role!r}; known: {known}")
        return [process.name for process in self._processes[role]]

    def _neighbour(self, command: Command) -> Process | None:
        """Return the process whose place a command shares, if it shares one."""
        role = (command.beside or "").rpartition("/")[0]
        near = self._processes.get(role, [])
        return next((process for process in near if process.name == command.beside), None)

    def _check_alive(self, role: str) -> None:
        for process in self._processes[role]:
            code = process.exit_code()
            if code is not None:
                raise WorkerFailedError(process.name, code, process.last_words())

    def delete_workers(self, role: str | None = None, reverse_order: bool = False) -> None:
        if role is None:
            for each in reversed([*self._hosts, *self._processes]):
                self.delete_workers(each, reverse_order)
            return
        if self._hosts.pop(role, None) is not None:
            return
        self._of(role)
        processes = self._processes.pop(role)
        for process in reversed(processes) if reverse_order else processes:
            process.signal(15)
        for process in processes:
            process.stop()
            self._workers.pop(process.name, None)
            self._specs.pop(process.name, None)
        self._repository.clear_subtree(names.workers(self.experiment_name, self.trial_name, role))

    # --- calls

    async def set_worker_env(self, worker_id: str, env: dict[str, str]) -> None:
        try:
            await self._in_thread(self._request, worker_id, "/set_env", {"env": env})
        except EngineCallError as error:
            raise WorkerConfigurationError(str(error)) from error

    async def create_engine(
        self,
        worker_id: str,
        engine: str | type[Any],
        engine_name: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if isinstance(engine, type):
            engine = f"{engine.__module__}.{engine.__qualname__}"
        if self.exp_config is not None:
            role, _, rank = worker_id.rpartition("/")
            seed = {"seed": self.exp_config.seed}
            body: dict[str, Any] = {"config": seed, "role": role, "rank": int(rank)}
            await self._in_thread(self._request, worker_id, "/configure", body)
        body = {
            "engine": engine,
            "engine_name": engine_name,
            "init_args": list(args),
            "init_kwargs": kwargs,
        }
        try:
            return await self._in_thread(self._request, worker_id, "/create_engine", body)
        except EngineCallError as error:
            wrong_import = "cannot import" in error.reason or "is not an engine" in error.reason
            kind = EngineImportError if wrong_import else EngineCreationError
            raise kind(f"worker {worker_id}: {error.reason}") from error

    def call_engine(
        self,
        worker_id: str,
        method: str,
        engine_name: str | None = None,
        *args: Any,
        rpc_meta: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a method of an engine in a worker and return its result.

        Raises:
            WorkerFailedError: The worker has ended.
            EngineCallError: The method raised, or there is no such method or engine.
            RPCConnectionError: The worker runs, and cannot be reached.
        """
        body = {
            "method": method,
            "engine_name": engine_name,
            "args": list(args),
            "kwargs": kwargs,
            "rpc_meta": rpc_meta,
            # The worker runs a call once, however often it is sent.
            "call_id": uuid.uuid4().hex,
        }
        return self._request(worker_id, "/call", body)

    async def async_call_engine(
        self,
        worker_id: str,
        method: str,
        engine_name: str | None = None,
        *args: Any,
        rpc_meta: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        return await self._in_thread(
            lambda: self.call_engine(
                worker_id, method, engine_name, *args, rpc_meta=rpc_meta, **kwargs
            )
        )

    async def _in_thread(self, function: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    def _request(self, worker_id: str, path: str, body: dict[str, Any]) -> Any:
        role = worker_id.rpartition("/")[0]
        worker = self._workers.get(worker_id)
        if worker is None:
            if worker_id not in self._of(role):
                raise WorkerNotFoundError(f"there is no worker {worker_id!r}")
            worker = next(each for each in self.get_workers(role) if each.id == worker_id)
        return self._send(worker, path, body)

    def _send(self, worker: Worker, path: str, body: dict[str, Any]) -> Any:
        role = worker.id.rpartition("/")[0]
        method = str(body.get("method", path))
        content = wire.dump(body)
        url = f"http://{worker.ip}:{worker.worker_ports[0]}{path}"
        for attempt in range(self._max_retries + 1):
            try:
                answer = self._client.post(url, content=content)
                break
            except httpx.TimeoutException as error:
                reason = f"no answer in {self._client.timeout.read:g} s"
                raise EngineCallError(worker.id, method, reason, attempt) from error
            except httpx.TransportError as error:
                self._check_alive(role)
                if attempt == self._max_retries:
                    raise RPCConnectionError(
                        f"worker {worker.id} at {url} cannot be reached: {error}"
                    ) from error
                time.sleep(self._retry_delay)
        if answer.status_code != 200:
            try:
                reason = str(answer.json()["error"])
            except (ValueError, KeyError, TypeError):
                reason = f"status {answer.status_code}"
            raise EngineCallError(worker.id, method, reason, attempt)
        return wire.load(answer.content)["result"]


def worker_environment(spec: SchedulingSpec) -> dict[str, str]:
    """Return what a command gets beside the machine's own variables.

    It imports what this process imports, from the same folders, and takes as many threads as it has
    CPUs. What the specification names wins.
    """
    paths = dict.fromkeys([str(Path.cwd()), *(path for path in sys.path if path)])
    threads = dict.fromkeys(_THREADS, str(max(1, spec.cpu)))
    return {"PYTHONPATH": os.pathsep.join(paths), **threads, **spec.env_vars}
