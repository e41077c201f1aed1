"""Workers on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from areal.infra.launch import visible_devices
from areal.infra.managed_process import ManagedProcess, Process
from areal.infra.scheduler.base import Command, CommandScheduler
from areal.infra.scheduler.exceptions import GPUAllocationError, WorkerCreationError


class LocalScheduler(CommandScheduler):
    """Starts workers as children of this process; they end with it, however it ends.

    Args:
        gpu_devices: Which devices workers get; None takes those that this process sees.
        log_dir: Where logs go; None takes the run's below ``fileroot``.
        startup_timeout: How long workers may take to answer, in seconds.
        health_check_interval: Not used: a worker that ends is noticed at the next call.
        options: Those of ``CommandScheduler``.
    """

    is_on_one_machine = True

    def __init__(
        self,
        gpu_devices: Sequence[int] | None = None,
        log_dir: str | Path | None = None,
        startup_timeout: float = 30.0,
        health_check_interval: float = 1.0,
        **options: Any,
    ) -> None:
        devices = visible_devices() if gpu_devices is None else [str(each) for each in gpu_devices]
        options.setdefault("n_gpus_per_node", len(devices))
        super().__init__(log_dir=log_dir, startup_timeout=startup_timeout, **options)
        self._devices = devices
        self._next_device = 0
        self._devices_of: dict[str, list[str]] = {}

    def start(self, role: str, commands: Sequence[Command], together: bool = True) -> list[Process]:
        started: list[Process] = []
        try:
            for command in commands:
                devices = self._place(command)
                environment = dict(command.environment)
                if devices:
                    environment["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
                process = ManagedProcess(command.name, command.argv, environment, command.log_path)
                process.start()
                started.append(process)
        except BaseException as error:
            for process in started:
                process.stop()
            if isinstance(error, OSError):
                raise WorkerCreationError(f"role {role!r} cannot be started: {error}") from error
            raise
        return started

    def _place(self, command: Command) -> list[str]:
        """Return the devices of a command: those of its neighbour, or the next ones in turn."""
        if command.beside is not None:
            found = self._devices_of.get(command.beside, [])
        else:
            count = command.spec.gpu
            if count > len(self._devices):
                raise GPUAllocationError(
                    f"{command.name} asks for {count} devices and there are {len(self._devices)}"
                )
            first, self._next_device = self._next_device, self._next_device + count
            found = [self._devices[(first + i) % len(self._devices)] for i in range(count)]
        self._devices_of[command.name] = found
        return found
