"""Several processes that train one model, started by torchrun; all of it suits one as well."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from areal.api.errors import ConfigError, RankError
from areal.utils.network import is_loopback, loopback_interface

T = TypeVar("T")

# A process waits for the first one as long as that may be busy with rollouts and evaluation.
PATIENCE = timedelta(hours=2)
# They all start at once, and one that has not come by then does not come.
JOIN_TIMEOUT = timedelta(minutes=5)

# The group of all processes, and the same processes over gloo.
_patient: tuple[Any, Any] = (None, None)


def resolve_device() -> torch.device:
    """Return this process's CUDA device, or the CPU where there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def is_first() -> bool:
    """Return whether this process writes logs and files for all."""
    return not dist.is_initialized() or dist.get_rank() == 0


def from_first(value: T) -> T:
    """Return what the first process passed; all processes call it together."""
    if not dist.is_initialized():
        return value
    box: list[Any] = [value]
    dist.broadcast_object_list(box, src=0, group=patient_group())
    found: T = box[0]
    return found


def from_all(value: T) -> list[T]:
    """Return what each process passed, in the order of their ranks; all call it together."""
    if not dist.is_initialized():
        return [value]
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, value, group=patient_group())
    return found


def wait_for_all() -> None:
    """Return once every process has come here."""
    if dist.is_initialized():
        dist.barrier(group=patient_group())


def patient_group() -> dist.ProcessGroup:
    """Return all processes over gloo, for what may take the first of them long.

    All of them make it together, at the first call.
    """
    global _patient
    if _patient[0] is not dist.group.WORLD:
        _patient = (dist.group.WORLD, dist.new_group(backend="gloo", timeout=PATIENCE))
    found: dist.ProcessGroup = _patient[1]
    return found


def sums_over(group: dist.ProcessGroup | None, *values: float) -> list[float]:
    """Return the sum of each number over the processes of a group."""
    if group is None:
        return list(values)
    total = torch.tensor(values, dtype=torch.float64, device=group_device(group))
    dist.all_reduce(total, group=group)
    return total.tolist()


def largest_over(group: dist.ProcessGroup | None, value: int) -> int:
    """Return the largest number that a process of a group passed."""
    if group is None:
        return value
    largest = torch.tensor(value, device=group_device(group))
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    return int(largest)


def group_device(group: dist.ProcessGroup) -> torch.device:
    """Return the device whose tensors the processes of a group exchange."""
    return resolve_device() if dist.get_backend(group) == "nccl" else torch.device("cpu")


def join_processes(world_size: int, backend: str, device: torch.device) -> None:
    """Join the processes that torchrun started.

    Args:
        world_size: How many the backend string asks for.
        backend: That string, for the message.
        device: Of this process; decides between gloo and NCCL.

    Raises:
        ConfigError: Another number of processes was started.
        RankError: One of them does not come.
    """
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started != world_size:
        raise ConfigError(
            f"actor.backend {backend!r} takes {world_size} processes and {started} runs; start it "
            f"with: torchrun --nproc-per-node {world_size} -m areal.trainer.cli train -c FILE"
        )
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        # What stays in host memory, such as offloaded shards, goes by gloo.
        found = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        try:
            dist.init_process_group(found, timeout=JOIN_TIMEOUT, **_meeting_place(world_size))
        except (OSError, RuntimeError) as error:
            raise RankError(
                f"process {os.environ.get('RANK')} of {world_size} waited "
                f"{JOIN_TIMEOUT.seconds} s for the others of actor.backend {backend!r}; the log "
                f"of the one that is missing has the reason ({error})"
            ) from error


def _meeting_place(world_size: int) -> dict[str, Any]:
    """Return where the processes find each other, if torchrun has left that to them."""
    host = os.environ.get("MASTER_ADDR", "")
    has_agent_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if has_agent_store or not is_loopback(host):
        return {}
    # What carries the tensors listens too, and would choose another interface.
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(variable, loopback_interface())
    rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
    store = open_store(host, port, rank == 0, JOIN_TIMEOUT)
    return {"store": store, "rank": rank, "world_size": world_size}


def open_store(host: str, port: int, is_server: bool, timeout: timedelta) -> dist.TCPStore:
    """Return a store that is reached under ``host`` alone; PyTorch's own listens on all addresses.

    It has no key, so whoever reaches it can read and change what a group agrees on. The server
    does not wait for clients.

    Raises:
        OSError: The port is taken.
        RuntimeError: The server did not come in time.
    """
    if not is_server:
        return dist.TCPStore(host, port, None, is_master=False, timeout=timeout)
    listener = socket.create_server((host, port))
    return dist.TCPStore(
        host,
        port,
        None,
        is_master=True,
        timeout=timeout,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
