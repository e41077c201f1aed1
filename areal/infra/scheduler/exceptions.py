"""What a scheduler raises; ``SchedulerError`` catches all of it."""

from __future__ import annotations

from areal.api.errors import ArealError


class SchedulerError(ArealError, RuntimeError):
    """A scheduler could not do what it was asked for."""


class WorkerCreationError(SchedulerError):
    """A worker could not be started."""


class WorkerConfigurationError(SchedulerError):
    """A worker did not take its configuration or environment."""


class WorkerFailedError(SchedulerError):
    """A worker ended by itself; ``stderr`` holds the last lines of its log."""

    def __init__(self, worker_id: str, exit_code: int, stderr: str = "") -> None:
        super().__init__(f"worker {worker_id} ended with code {exit_code}: {stderr}")
        self.worker_id = worker_id
        self.exit_code = exit_code
        self.stderr = stderr


class WorkerNotFoundError(SchedulerError):
    """There is no worker of this id or role."""


class WorkerTimeoutError(SchedulerError, TimeoutError):
    """Workers were not ready in time."""


class EngineCreationError(SchedulerError):
    """An engine could not be made inside a worker."""


class EngineImportError(EngineCreationError):
    """The class of an engine could not be imported inside a worker."""


class EngineCallError(SchedulerError):
    """A method of an engine failed inside a worker, or the worker gave no answer."""

    def __init__(self, worker_id: str, method: str, reason: str, attempt: int = 0) -> None:
        super().__init__(f"{method} on worker {worker_id} failed in attempt {attempt}: {reason}")
        self.worker_id = worker_id
        self.method = method
        self.reason = reason
        self.attempt = attempt


class PortAllocationError(SchedulerError):
    """No port is free."""


class GPUAllocationError(SchedulerError):
    """There are fewer devices than a job asks for."""


class RPCConnectionError(SchedulerError):
    """A worker cannot be reached."""
