"""Workers on the nodes of a Ray cluster.

Of Ray this needs a place for each worker and an actor there that starts a command and watches it.
What is trained and generated never goes through Ray.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from areal.api.cli_args import SchedulingSpec
from areal.api.errors import ConfigError
from areal.infra.managed_process import ManagedProcess, Process
from areal.infra.scheduler.base import Command, CommandScheduler
from areal.infra.scheduler.exceptions import WorkerCreationError

if TYPE_CHECKING:
    from ray.util.placement_group import PlacementGroup

logger = logging.getLogger("RayScheduler")

# A node's own; what else the launcher's environment has goes along, and wins.
_OWN_VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "HOME", "HOSTNAME", "LD_LIBRARY_PATH", "PATH", "PWD", "TMPDIR"),
    "AREAL_PARENT_PID",
)
_OWN_PREFIXES = ("RAY_", "SLURM_")
_ANSWER_TIMEOUT_S = 30.0
_PLACE_ATTEMPTS = 4
_TELL_AFTER_S = 10.0
_KILLED = -9


class _Watcher:
    """Starts one command on its node, and watches it there; the command ends with this process."""

    def __init__(self) -> None:
        self._process: ManagedProcess | None = None

    def start(self, command: Command, environment: dict[str, str], folder: str) -> str | None:
        """Start a command; return what keeps it from starting on this node, else None."""
        if not Path(folder).is_dir():
            return (
                f"there is no folder {folder!r}, in which the run was started; start it in one "
                "that all nodes see"
            )
        named = {**environment, **command.environment}
        self._process = ManagedProcess(
            command.name, command.argv, named, command.log_path, folder=folder
        )
        try:
            self._process.start()
        except OSError as error:
            return str(error)
        return None

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the process that it watches."""
        return None if self._process is None else getattr(self._process, method)(*args)

    def devices(self) -> str | None:
        return os.environ.get("CUDA_VISIBLE_DEVICES")


class RayProcess(Process):
    """A command on some node of the cluster.

    Args:
        command: What to start.
        group: The placement group with its place.
        index: Of the place.
        environment: Of this process, but for what is a node's own.
        neighbour: Whose place and devices it shares.
    """

    def __init__(
        self,
        command: Command,
        group: PlacementGroup,
        index: int,
        environment: dict[str, str],
        neighbour: RayProcess | None,
    ) -> None:
        super().__init__(command.name, command.log_path)
        self.group, self.index = group, index
        self._command = command
        self._environment = environment
        self._neighbour = neighbour
        self._watcher: Any = None
        self._started: Any = None
        self._code: int | None = None

    def start(self) -> None:
        """Have a watcher start the command, on another node if its own is gone; does not wait."""
        import ray  # an optional package
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        spec, environment = self._command.spec, dict(self._environment)
        if self._neighbour is not None:
            spec = SchedulingSpec(cpu=0, gpu=0)
            devices = ray.get(self._neighbour._watcher.devices.remote(), timeout=_ANSWER_TIMEOUT_S)
            if devices is not None:
                environment["CUDA_VISIBLE_DEVICES"] = devices
        paths = self._command.environment["PYTHONPATH"]
        self._watcher = (
            ray.remote(_Watcher)
            .options(
                num_cpus=spec.cpu,
                num_gpus=spec.gpu,
                max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self.group, self.index),
                runtime_env={"env_vars": {"PYTHONPATH": paths}},
            )
            .remote()
        )
        self._code = None
        self._started = self._watcher.start.remote(self._command, environment, os.getcwd())
        self._note_start()

    def obstacle(self, timeout_s: float) -> str | None:
        """Wait until it runs, and return what keeps it from that, else None.

        It is placed again if its node goes away meanwhile.
        """
        import ray

        for attempt in range(1, _PLACE_ATTEMPTS + 1):
            try:
                found: str | None = ray.get(self._started, timeout=timeout_s)
            except ray.exceptions.GetTimeoutError:
                return f"its node has not started it in {timeout_s:g} s"
            except ray.exceptions.RayError as error:
                if attempt == _PLACE_ATTEMPTS:
                    return f"{error}; are the same packages on all nodes?"
                logger.warning("%s was not started (%s); again", self.name, type(error).__name__)
                self.start()
                self.num_starts = 1  # it has never run
            else:
                return found
        raise AssertionError

    def exit_code(self) -> int | None:
        """Return how it ended; -9 where its node is gone."""
        if self._code is None and self._started is not None:
            self._code = self._ask_exit_code()
        return self._code

    def _ask_exit_code(self) -> int | None:
        import ray

        try:
            if not ray.wait([self._started], timeout=0)[0]:
                return None  # its place is still being made
            if (obstacle := ray.get(self._started)) is not None:
                logger.warning("%s does not start: %s", self.name, obstacle)
                return 1
            asked = self._watcher.call.remote("exit_code")
            code: int | None = ray.get(asked, timeout=_ANSWER_TIMEOUT_S)
        except (ray.exceptions.GetTimeoutError, ray.exceptions.ActorUnavailableError):
            return None  # Ray has still to find out
        except ray.exceptions.RayError as error:
            logger.warning("%s is gone with its node: %s", self.name, type(error).__name__)
            return _KILLED
        return code

    def signal(self, number: int) -> None:
        if self.exit_code() is None:
            self._tell("signal", number)

    def terminate(self) -> None:
        if self.exit_code() is None:
            self._tell("terminate")

    def _tell(self, method: str, *args: Any, timeout_s: float = _ANSWER_TIMEOUT_S) -> None:
        import ray

        if self._watcher is None:
            return
        try:
            ray.get(self._watcher.call.remote(method, *args), timeout=timeout_s)
        except ray.exceptions.RayError:
            logger.info("%s is gone already", self.name)

    def stop(self, grace_s: float = 10.0) -> None:
        import ray

        if self._watcher is None:
            return
        self._tell("stop", grace_s, timeout_s=grace_s + _ANSWER_TIMEOUT_S)
        # What the watcher has not ended, the kernel ends with it.
        ray.kill(self._watcher)
        self._watcher = None


class RayScheduler(CommandScheduler):
    """Starts workers on the nodes of a Ray cluster, those that need each other close together.

    The cluster is the one that this process is part of, else one is made of this machine. All nodes
    need the folder of the run and the folder that it is started in; nothing is copied to them.

    Args:
        n_gpus_per_node: Devices of one machine.
        startup_timeout: How long places and workers may take, in seconds.
        options: Those of ``CommandScheduler``.

    Raises:
        ConfigError: Ray is not installed.
    """

    def __init__(
        self, n_gpus_per_node: int = 8, startup_timeout: float = 300.0, **options: Any
    ) -> None:
        super().__init__(
            n_gpus_per_node=n_gpus_per_node, startup_timeout=startup_timeout, **options
        )
        self._owns_cluster = connect()
        self._groups: dict[str, PlacementGroup] = {}
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if name not in _OWN_VARIABLES and not name.startswith(_OWN_PREFIXES)
        }

    def start(self, role: str, commands: Sequence[Command], together: bool = True) -> list[Process]:
        for command in commands:
            if command.spec.ray_placement_strategy is not None:
                logger.warning(
                    "ray_placement_strategy is ignored: the workers of %s are packed", role
                )
            if command.spec.gpu > self.n_gpus_per_node:
                raise WorkerCreationError(
                    f"{command.name} asks for {command.spec.gpu} devices and a node has "
                    f"{self.n_gpus_per_node} (cluster.n_gpus_per_node); split it into several"
                )
        neighbours: list[Any] = [self._neighbour(command) for command in commands]
        apart = [c for c, near in zip(commands, neighbours, strict=True) if near is None]
        if apart:
            # What can do without each other shall not be lost together.
            strategy = "PACK" if together else "SPREAD"
            self._groups[role] = self._reserve(role, [c.spec for c in apart], strategy)
        processes = [
            RayProcess(
                command,
                self._groups[role] if near is None else near.group,
                apart.index(command) if near is None else near.index,
                self._environment,
                near,
            )
            for command, near in zip(commands, neighbours, strict=True)
        ]
        try:
            for process in processes:
                process.start()
            obstacles = [process.obstacle(self._startup_timeout) for process in processes]
            trouble = [f"{p.name}: {o}" for p, o in zip(processes, obstacles, strict=True) if o]
            if trouble:
                raise WorkerCreationError("; ".join(trouble))
        except Exception:
            for process in processes:
                process.stop()
            self._free(role)
            raise
        return list(processes)

    def _reserve(self, role: str, specs: Sequence[SchedulingSpec], strategy: str) -> PlacementGroup:
        import ray
        from ray.util.placement_group import placement_group, remove_placement_group

        bundles = [{"CPU": spec.cpu, "GPU": spec.gpu, "memory": spec.mem << 30} for spec in specs]
        bundles = [
            # A place for nothing is none.
            {name: count for name, count in bundle.items() if count} or {"CPU": 0.001}
            for bundle in bundles
        ]
        group = placement_group(bundles, strategy=strategy, name=f"{self.experiment_name}:{role}")
        started = time.monotonic()
        waited_s, tell_after_s = 0.0, _TELL_AFTER_S
        # In short waits: Ray's own does not let signals through.
        while not group.wait(1):
            waited_s = time.monotonic() - started
            if waited_s < min(tell_after_s, self._startup_timeout):
                continue
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            has = [{name: node.get(name, 0) for name in ("CPU", "GPU", "memory")} for node in nodes]
            trouble = (
                f"the cluster has no room for role {role!r} in {waited_s:.0f} s: it asks for "
                f"{bundles}, and the nodes have {has}, partly in use; see cpu, gpu and mem (GiB) "
                "of scheduling_spec"
            )
            if waited_s >= self._startup_timeout:
                remove_placement_group(group)
                raise WorkerCreationError(trouble)
            logger.warning("%s; waiting %g s in all", trouble, self._startup_timeout)
            tell_after_s = math.inf
        return group

    def delete_workers(self, role: str | None = None, reverse_order: bool = False) -> None:
        super().delete_workers(role, reverse_order)
        if role is not None:
            self._free(role)

    def _free(self, role: str) -> None:
        from ray.util.placement_group import remove_placement_group

        group = self._groups.pop(role, None)
        if group is not None:
            remove_placement_group(group)

    def close(self) -> None:
        import ray

        super().close()
        for role in list(self._groups):
            self._free(role)
        if self._owns_cluster:
            ray.shutdown()


def connect() -> bool:
    """Join the Ray cluster of this machine; make one where there is none, and say so.

    Returns:
        Whether this process has joined by it, and leaves at the end.

    Raises:
        ConfigError: Ray is not installed.
    """
    try:
        import ray  # an optional package
    except ImportError as error:
        raise ConfigError(
            "scheduler.type=ray needs Ray, which is not installed: pip install 'areal-lite[ray]'"
        ) from error
    if ray.is_initialized():
        return False
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
    try:
        ray.init(address="auto", **options)
    except ConnectionError:
        logger.warning("there is no Ray cluster; starting one on this machine")
        # Ray would write a token into the home folder; one in the environment counts as well. A
        # cluster that is joined has one of its own, or none.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        ray.init(include_dashboard=False, **options)
    return True
