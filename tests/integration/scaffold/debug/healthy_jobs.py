"""Sound distributed jobs, which must get no verdict: `python healthy_jobs.py JOB RANKS`.

Each trains a few steps as its kind of parallelism does, with the traffic around it that real loops
have: a loss that is reduced, a rank that logs, ranks that are late.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parent))
import jobs

STEPS = 6


def mlp(width: int = 16) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.Linear(width, 2)
    )


def batch(size: int = 4) -> Tensor:
    return torch.randn(size, 8)


def train(
    model: nn.Module,
    *,
    steps: int = STEPS,
    loss_of: Callable[[Tensor], Tensor] = lambda out: out.pow(2).mean(),
    has_mean: bool = True,
) -> None:
    """Trains as the textbook does, with one reduction of the loss a step."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(batch()))
        loss.backward()
        optimizer.step()
        if has_mean:
            mean = loss.detach().clone()
            dist.all_reduce(mean)


def ddp() -> None:
    train(DistributedDataParallel(mlp()), steps=40)


def ddp_small_buckets() -> None:
    train(DistributedDataParallel(mlp(64), bucket_cap_mb=0.001))


def ddp_views_and_static_graph() -> None:
    train(DistributedDataParallel(mlp(), gradient_as_bucket_view=True, static_graph=True))


def ddp_unused_parameters() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other, self.calls = mlp(), mlp(), 0

        def forward(self, rows: Tensor) -> Tensor:
            self.calls += 1
            return self.one(rows) if self.calls % 2 else self.other(rows)

    train(DistributedDataParallel(Branching(), find_unused_parameters=True))


def ddp_comm_hook() -> None:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    model = DistributedDataParallel(mlp())
    model.register_comm_hook(None, fp16_compress_hook)
    train(model)


def ddp_accumulation() -> None:
    model = DistributedDataParallel(mlp())
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(STEPS):
        with model.no_sync():
            model(batch()).sum().backward()
        loss = model(batch()).sum()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach().clone())


def ddp_join() -> None:
    """Gives each rank another number of batches."""
    model = DistributedDataParallel(mlp())
    with model.join():
        train(model, steps=3 + dist.get_rank(), has_mean=False)
    dist.all_reduce(torch.ones(1))


def ddp_two_models() -> None:
    train(DistributedDataParallel(mlp()))
    train(DistributedDataParallel(mlp(24)))


def ddp_batch_norm() -> None:
    train(
        DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)))
    )


def zero_optimizer() -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(mlp())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.01)
    for _ in range(STEPS):
        loss = model(batch()).sum()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach().clone())


def fsdp() -> None:
    shard_and_train()


def shard_and_train(
    mesh_shape: tuple[int, ...] | None = None, *, accumulates: bool = False
) -> None:
    from torch.distributed.fsdp import fully_shard

    model = mlp()
    shape = mesh_shape or (dist.get_world_size(),)
    names = ("replicate", "shard")[-len(shape) :]
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if accumulates:
        model.set_requires_gradient_sync(False)
        model(batch()).sum().backward()
        model.set_requires_gradient_sync(True)
    train(model)


def fsdp_accumulation() -> None:
    shard_and_train(accumulates=True)


def fsdp_hybrid() -> None:
    shard_and_train((dist.get_world_size() // 2, 2))


def fsdp_checkpoint() -> None:
    """Saves a sharded checkpoint in the middle of training."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard

    model = mlp()
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    train(model, steps=2)
    place: list[str | None] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(place)
    dcp.save(model.state_dict(), checkpoint_id=place[0])
    train(model, steps=2)


def tensor_parallel() -> None:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    train(parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}))


def tensor_and_data_parallel() -> None:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    shape = (dist.get_world_size() // 2, 2)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    train(model)


def pipeline() -> None:
    run_schedule("ScheduleGPipe")


def run_schedule(schedule: str) -> None:
    import torch.distributed.pipelining as pipelining

    rank, world = dist.get_rank(), dist.get_world_size()
    first, last = rank == 0, rank == world - 1
    part = nn.Linear(8, 8)
    stage = pipelining.PipelineStage(part, rank, world, torch.device("cpu"))
    run = getattr(pipelining, schedule)(stage, 4, loss_fn=lambda out, _: out.pow(2).mean())
    for _ in range(3):
        rows = (batch(8),) if first else ()
        run.step(*rows, **({"target": torch.zeros(8, 8)} if last else {}))
        dist.all_reduce(torch.ones(1))


def pipeline_1f1b() -> None:
    run_schedule("Schedule1F1B")


def subgroups() -> None:
    """Lets halves of the job reduce as often as each likes."""
    world, rank = dist.get_world_size(), dist.get_rank()
    halves = [dist.new_group(list(range(world))[half::2]) for half in (0, 1)]
    for _ in range(3 + 2 * (rank % 2)):
        dist.all_reduce(torch.ones(4 + rank % 2), group=halves[rank % 2])
    dist.barrier()


def local_groups() -> None:
    rank = dist.get_rank()
    group = dist.new_group([rank], use_local_synchronization=True)
    for _ in range(rank + 1):
        dist.all_reduce(torch.ones(2), group=group)
    dist.barrier()


def ring() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for _ in range(STEPS):
        ways = [dist.P2POp(dist.isend, torch.ones(4), (rank + 1) % world)]
        ways += [dist.P2POp(dist.irecv, torch.ones(4), (rank - 1) % world)]
        for work in dist.batch_isend_irecv(ways):
            work.wait()
        dist.all_reduce(torch.ones(1))


def server_and_workers() -> None:
    """Has one rank receive from whoever sends."""
    rank, world = dist.get_rank(), dist.get_world_size()
    for _ in range(3):
        if rank:
            dist.send(torch.ones(3), 0)
        else:
            for _ in range(world - 1):
                dist.recv(torch.ones(3))
    dist.barrier()


def uneven_sizes() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    sizes = [index + 1 for index in range(world)]
    for _ in range(3):
        out = torch.empty(world * (rank + 1))
        dist.all_to_all_single(out, torch.ones(sum(sizes)), [rank + 1] * world, sizes)


def objects() -> None:
    gathered: list[object] = [None] * dist.get_world_size()
    for step in range(3):
        dist.all_gather_object(gathered, {"rank": dist.get_rank(), "text": "x" * 50 * step})
        dist.broadcast_object_list([gathered if dist.get_rank() == 0 else None])


def roots() -> None:
    world, rank = dist.get_world_size(), dist.get_rank()
    for root in range(world):
        dist.broadcast(torch.ones(3), root)
        dist.reduce(torch.ones(3), root)
        rows = [torch.empty(2) for _ in range(world)] if rank == root else None
        dist.gather(torch.ones(2), rows, root)
        dist.scatter(torch.empty(2), rows, root)


def late_waits() -> None:
    """Waits for works in another order than they were issued in, another one on each rank."""
    works = [dist.all_reduce(torch.ones(size), async_op=True) for size in range(1, 6)]
    for work in works[:: 1 if dist.get_rank() % 2 else -1]:
        work.wait()


def one_rank_logs() -> None:
    """Lets the first rank write and sleep between steps, and evaluate by itself."""
    model = DistributedDataParallel(mlp())
    for _ in range(3):
        train(model, steps=1)
        if dist.get_rank() == 0:
            time.sleep(0.3)
            with torch.no_grad():
                model.module(batch())
    dist.barrier()


def two_threads() -> None:
    """Reduces statistics in a thread with a group of its own, beside training."""
    group = dist.new_group(list(range(dist.get_world_size())))

    def reduce() -> None:
        for _ in range(STEPS):
            dist.all_reduce(torch.ones(3), group=group)

    beside = threading.Thread(target=reduce)
    beside.start()
    train(DistributedDataParallel(mlp()))
    beside.join()


def monitored_barriers() -> None:
    for _ in range(2):
        train(DistributedDataParallel(mlp()), steps=2)
        dist.monitored_barrier()


def handled_errors() -> None:
    """Communicates on all ranks after each has handled an error of its own."""
    try:
        raise ValueError("a row cannot be read")
    except ValueError:
        dist.all_reduce(torch.ones(1))
    train(DistributedDataParallel(mlp()), steps=2)


def functional() -> None:
    import torch.distributed._functional_collectives as collectives

    ranks = list(range(dist.get_world_size()))
    for _ in range(3):
        collectives.all_reduce(torch.ones(4), "sum", ranks).sum().item()
        collectives.all_gather_tensor(torch.ones(2), 0, ranks).sum().item()


if __name__ == "__main__":
    vars(jobs).update(globals())  # `fork` looks a job up by its name there
    sys.exit(jobs.fork(sys.argv[1], int(sys.argv[2])))
