"""Distributed jobs with one planted bug each: `python jobs.py BUG RANKS`, or under torchrun.

By itself it imports torch once and forks the ranks, which is the cheapest start there is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

FOREVER_S = 600


def is_odd() -> bool:
    return dist.get_rank() == dist.get_world_size() - 1


def collective() -> None:
    if is_odd():
        dist.broadcast(torch.ones(4), 0)
    else:
        dist.all_reduce(torch.ones(4))


def order() -> None:
    tensors = [torch.ones(3), torch.ones(5)]
    works = [
        dist.all_reduce(each, async_op=True) for each in (tensors[::-1] if is_odd() else tensors)
    ]
    for work in works:
        work.wait()
    dist.barrier()
    time.sleep(FOREVER_S)


def shape() -> None:
    dist.all_reduce(torch.ones(1000 if is_odd() else 4))
    dist.barrier()


def dtype() -> None:
    dist.all_reduce(torch.ones(4, dtype=torch.int32 if is_odd() else torch.float32))


def root() -> None:
    dist.broadcast(torch.ones(4), 1 if is_odd() else 0)
    dist.barrier()


def reduction() -> None:
    op = dist.ReduceOp.MAX if is_odd() else dist.ReduceOp.SUM
    dist.all_reduce(torch.ones(4), op)


def exits() -> None:
    if is_odd():
        return
    dist.all_reduce(torch.ones(4))


def leaves() -> None:
    if is_odd():
        os._exit(7)
    dist.all_reduce(torch.ones(4))


def raises() -> None:
    if is_odd():
        raise ValueError("no such sample: 17")
    dist.all_reduce(torch.ones(4))


def cleans_up() -> None:
    try:
        if is_odd():
            raise KeyError("weights")
        dist.all_reduce(torch.ones(4))
    finally:
        dist.barrier()


def killed() -> None:
    if is_odd():
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(4))


def sleeps() -> None:
    if is_odd():
        time.sleep(FOREVER_S)
    dist.all_reduce(torch.ones(4))


def times_out() -> None:
    """Lets the call fail at a limit of its own, before anybody watches for so long."""
    from datetime import timedelta

    group = dist.new_group(list(range(dist.get_world_size())), timeout=timedelta(seconds=1))
    if is_odd():
        time.sleep(FOREVER_S)
    dist.all_reduce(torch.ones(4), group=group)


def spins() -> None:
    """Is stuck in C, which holds the interpreter's lock."""
    if is_odd():
        sum(range(10**12))
    dist.all_reduce(torch.ones(4))


def skips() -> None:
    for step in range(4):
        if not (is_odd() and step == 2):
            dist.all_reduce(torch.ones(4))
        dist.all_reduce(torch.ones(4))


def groups() -> None:
    """Uses two groups of all ranks in another order."""
    ranks = list(range(dist.get_world_size()))
    first, second = dist.new_group(ranks), dist.new_group(ranks)
    for group in (second, first) if is_odd() else (first, second):
        dist.all_reduce(torch.ones(4), group=group)


def new_groups() -> None:
    """Makes another group on one rank."""
    dist.new_group([0] if is_odd() else [0, 1])
    dist.barrier()


def receives() -> None:
    """Lets two ranks wait for a message of each other."""
    rank, world = dist.get_rank(), dist.get_world_size()
    dist.recv(torch.ones(4), (rank + 1) % world)
    dist.send(torch.ones(4), (rank - 1) % world)


def no_partner() -> None:
    if dist.get_rank() == 0:
        dist.recv(torch.ones(4), dist.get_world_size() - 1)
    dist.barrier()


def objects() -> None:
    gathered: list[object] = [None] * dist.get_world_size()
    if not is_odd():
        dist.all_gather_object(gathered, {"rank": dist.get_rank()})
    else:
        time.sleep(FOREVER_S)


def tensor_parallel() -> None:
    """Redistributes a DTensor on all ranks but one."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    sharded = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])
    if is_odd():
        time.sleep(FOREVER_S)
    sharded.redistribute(mesh, [Replicate()]).to_local().sum()


def mesh() -> None:
    """Gives one rank of the last row of a mesh another size."""
    from torch.distributed.device_mesh import init_device_mesh

    shape = (dist.get_world_size() // 2, 2)
    group = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")).get_group("tp")
    dist.all_reduce(torch.ones(3))
    dist.broadcast(torch.ones(6 if is_odd() else 4), group=group, group_src=0)
    dist.barrier()


def reducer() -> None:
    """Lets C++ reduce gradients on all ranks but one, which has no backward."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
    loss = model(torch.ones(2, 3)).sum()
    if is_odd():
        dist.all_reduce(torch.ones(4))
    else:
        loss.backward()
    dist.barrier()


def reducer_skips() -> None:
    """Leaves out one reduction of the loss beside gradients that C++ reduces."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 64))
    for step in range(6):
        loss = model(torch.ones(2, 8)).sum()
        loss.backward()
        if not (is_odd() and step == 3):
            dist.all_reduce(loss.detach().clone())


def reducer_waits() -> None:
    """Lets C++ wait for the gradients of a rank that has no backward."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
    loss = model(torch.ones(2, 3)).sum()
    if is_odd():
        time.sleep(FOREVER_S)
    loss.backward()


def dumps() -> None:
    """Skips a call on one rank, and writes what torch's flight recorder has as NCCL does."""
    import threading

    from torch._C._distributed_c10d import _dump_fr_trace

    def write() -> None:
        time.sleep(3)
        Path(f"nccl_trace_rank_{dist.get_rank()}").write_bytes(_dump_fr_trace(True, True, False))
        os._exit(1)

    threading.Thread(target=write).start()
    for step in range(4):
        dist.all_reduce(torch.ones(4))
        if not (is_odd() and step == 1):
            dist.broadcast(torch.ones(2), 0)
    time.sleep(FOREVER_S)


def absent() -> None:
    """Is no bug of this function: `main` keeps the last rank from joining."""


def memory() -> None:
    kept = torch.nn.Linear(64, 64)
    if is_odd():
        torch.empty(2**60)
    kept(torch.ones(1, 64))
    dist.all_reduce(torch.ones(4))


def thread() -> None:
    """Waits in a thread, while the main thread waits for it."""
    import threading

    def reduce() -> None:
        dist.all_reduce(torch.ones(4))

    if is_odd():
        time.sleep(FOREVER_S)
    worker = threading.Thread(target=reduce, name="reducer")
    worker.start()
    worker.join()


def fine() -> None:
    """Does what a sound job does, with everything that could look like a fault and is none."""
    rank, world = dist.get_rank(), dist.get_world_size()
    gathered = [torch.empty(2) for _ in range(world)]
    dist.all_gather(gathered, torch.ones(2))
    objects: list[object] = [None] * world
    dist.all_gather_object(objects, "x" * (rank + 1))
    sizes = [index + 1 for index in range(world)]
    out = torch.empty(world * (rank + 1))
    dist.all_to_all_single(out, torch.ones(sum(sizes)), [rank + 1] * world, sizes)
    group = dist.new_group([0])
    if rank == 0:
        dist.all_reduce(torch.ones(4), group=group)
        dist.broadcast(torch.ones(3), 0)
    else:
        buffer = torch.empty(3)
        dist.broadcast(buffer, 0)
    dist.barrier()


def rejoins() -> None:
    """Leaves the job and joins it again, where groups of the same names make other calls."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        dist.all_reduce(torch.ones(7), group=dist.new_group([0], use_local_synchronization=True))
    dist.barrier()
    dist.destroy_process_group()
    if is_last := rank == world - 1:
        time.sleep(4)
    place = os.path.join(os.environ["SCAFFOLD_DEBUG_RECORD"], "store")
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=world)
    dist.broadcast(torch.ones(5), 0)
    if is_last:
        time.sleep(4)
    dist.barrier()


def main(bug: str, rank: int) -> None:
    """Joins the job, makes one call that all make, then has the bug."""
    os.environ["RANK"] = str(rank)
    last = int(os.environ["WORLD_SIZE"]) - 1
    if bug == "absent" and rank == last:
        time.sleep(FOREVER_S)
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(2))
    globals()[bug]()
    if dist.is_initialized():
        dist.destroy_process_group()


def fork(bug: str, world: int) -> int:
    """Forks the ranks and returns the first status that is none of success."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(world))
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=main, args=(bug, rank)) for rank in range(world)]
    for each in ranks:
        each.start()
    while any(each.exitcode is None for each in ranks):
        time.sleep(0.05)
    return next((1 for each in ranks if each.exitcode), 0)


if __name__ == "__main__":
    if "RANK" in os.environ:
        main(sys.argv[1], int(os.environ["RANK"]))
    else:
        sys.exit(fork(sys.argv[1], int(sys.argv[2])))
