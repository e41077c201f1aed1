"""Several processes that train one model, started by torchrun; all of it suits one as well."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from areal.api.errors import ConfigError

T = TypeVar("T")


def is_first() -> bool:
    """Return whether this process writes logs and files for all."""
    return not dist.is_initialized() or dist.get_rank() == 0


def from_first(value: T) -> T:
    """Return what the first process passed; all processes call it together."""
    if not dist.is_initialized():
        return value
    box: list[Any] = [value]
    dist.broadcast_object_list(box, src=0)
    found: T = box[0]
    return found


def wait_for_all() -> None:
    """Return once every process has come here."""
    if dist.is_initialized():
        dist.barrier()


def sums_over(group: dist.ProcessGroup | None, *values: float) -> list[float]:
    """Return the sum of each number over the processes of a group."""
    if group is None:
        return list(values)
    total = torch.tensor(values, dtype=torch.float64)
    if dist.get_backend(group) == "nccl":
        total = total.cuda()
    dist.all_reduce(total, group=group)
    return total.tolist()


def largest_over(group: dist.ProcessGroup | None, value: int) -> int:
    """Return the largest number that a process of a group passed."""
    if group is None:
        return value
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, value, group=group)
    return max(found)


def join_processes(world_size: int, backend: str, device: torch.device) -> None:
    """Join the processes that torchrun started.

    Args:
        world_size: How many the backend string asks for.
        backend: That string, for the message.
        device: Of this process; decides between gloo and NCCL.

    Raises:
        ConfigError: Another number of processes was started.
    """
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started != world_size:
        raise ConfigError(
            f"actor.backend {backend!r} takes {world_size} processes and {started} runs; start it "
            f"with: torchrun --nproc-per-node {world_size} -m areal.trainer.cli train -c FILE"
        )
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
