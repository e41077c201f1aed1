"""What starts worker processes and calls the engines inside them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from areal.api.config.cluster import SchedulingSpec, SchedulingStrategy


@dataclass
class Worker:
    """A running process; ports are text, as they come from the command line."""

    id: str
    ip: str
    worker_ports: list[str] = field(default_factory=list)
    engine_ports: list[str] = field(default_factory=list)


@dataclass
class Job:
    """Asks for ``replicas`` workers of one role; ``tasks`` holds one spec for all or one each."""

    role: str
    replicas: int = 0
    tasks: list[SchedulingSpec] = field(default_factory=list)
    scheduling_strategy: SchedulingStrategy = field(default_factory=SchedulingStrategy)

    def __post_init__(self) -> None:
        if self.replicas < 0:
            raise ValueError(f"replicas must not be negative, found {self.replicas}")
        if len(self.tasks) not in (0, 1, self.replicas):
            raise ValueError(
                f"{self.replicas} replicas need one spec for all or one each, "
                f"found {len(self.tasks)}"
            )


class Scheduler(ABC):
    """Starts, finds, calls and ends workers; errors are those of ``infra.scheduler.exceptions``."""

    @property
    @abstractmethod
    def n_gpus_per_node(self) -> int:
        """The number of devices of one machine."""

    @abstractmethod
    def create_workers(self, job: Job, *args: Any, **kwargs: Any) -> list[str]:
        """Start the workers of a job and return their ids, without waiting for them."""

    @abstractmethod
    def get_workers(self, role: str, timeout: float | None = None) -> list[Worker]:
        """Wait until all workers of a role are ready.

        Args:
            role: Of the job.
            timeout: In seconds; None waits for ever.

        Raises:
            WorkerTimeoutError: They were not ready in time.
        """

    @abstractmethod
    def delete_workers(self, role: str | None = None, reverse_order: bool = False) -> None:
        """End the workers of a role, or all; in reverse the last one first."""

    @abstractmethod
    def fork_workers(self, role: str, target_role: str, command: str | None = None) -> list[str]:
        """Start a worker beside each of another role, on its devices, and return their ids.

        Args:
            role: Of the new workers.
            target_role: Of the workers that exist.
            command: What to start; None starts another worker process.
        """

    @abstractmethod
    async def set_worker_env(self, worker_id: str, env: dict[str, str]) -> None:
        """Set environment variables in a worker."""

    @abstractmethod
    async def create_engine(
        self,
        worker_id: str,
        engine: str,
        engine_name: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Make an engine inside a worker.

        Args:
            worker_id: Where.
            engine: Import path of the class.
            engine_name: To call it by.
            *args: For the constructor.
            **kwargs: For the constructor.
        """

    @abstractmethod
    def call_engine(
        self,
        worker_id: str,
        method: str,
        engine_name: str | None = None,
        *args: Any,
        rpc_meta: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a method of an engine inside a worker and return its result.

        Args:
            worker_id: Where.
            method: Of the engine.
            engine_name: Which engine; None is the worker's only one.
            *args: For the method.
            rpc_meta: For the worker itself: "broadcast" sends the arguments on to its ranks.
            **kwargs: For the method.
        """

    @abstractmethod
    async def async_call_engine(
        self,
        worker_id: str,
        method: str,
        engine_name: str | None = None,
        *args: Any,
        rpc_meta: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call ``call_engine`` from a running event loop."""
