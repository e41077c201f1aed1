"""What every process of the sharded test does: load into sharded parameters, compare, save."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.multiprocessing import start_processes

from areal.experimental.models.archon.state_dict import (
    Fused,
    Rename,
    Split,
    Stacked,
    Transposed,
    load_checkpoint,
    save_checkpoint,
)
from tests.unit.experimental.archon.state_dict.small_models import (
    SmallArgs,
    adapter_of,
    module_of,
)

NUM_PROCESSES = 4
# 5 rows do not divide by 2 or 4: the last processes have less, or nothing.
SHAPES = {
    "layers.0.attention.wq": (12, 6),
    "layers.0.attention.wk": (4, 6),
    "layers.0.attention.wv": (4, 6),
    "layers.0.moe.w1": (3, 8, 6),
    "layers.0.moe.w2": (3, 6, 8),
    "layers.0.moe.w3": (3, 8, 6),
    "layers.0.conv": (14, 1, 3),
    "layers.0.up": (5, 8),
    "norm.weight": (6,),
    "output.weight": (10, 6),
}
RULES = [
    Fused(
        "h.{}.qkv",
        tuple(f"layers.{{}}.attention.{name}" for name in ("wq", "wk", "wv")),
        groups="n_kv_heads",
    ),
    Fused("h.{}.experts.{e}.gate_up", ("layers.{}.moe.w1", "layers.{}.moe.w3"), groups="rows"),
    Stacked("h.{}.experts.{e}.down", "layers.{}.moe.w2"),
    Split(("h.{}.conv_a", "h.{}.conv_b"), "layers.{}.conv"),
    Transposed("h.{}.up", "layers.{}.up"),
    Rename("norm.weight", "norm.weight"),
    Rename("lm_head.weight", "output.weight"),
]
# Over the second dimension of the mesh; the first one is FSDP's.
TP: dict[str, list[Placement]] = {
    "layers.0.attention.wq": [Shard(0)],
    "layers.0.attention.wk": [Shard(0)],
    "layers.0.attention.wv": [Shard(1)],
    "layers.0.moe.w1": [Shard(1)],
    "layers.0.moe.w2": [Shard(2)],
    "layers.0.moe.w3": [Shard(0)],
    "layers.0.conv": [Shard(0)],
    "layers.0.up": [Shard(0)],
    "norm.weight": [Replicate()],
    "output.weight": [Shard(0)],
}


def main(rank: int, folder: Path) -> None:
    """Runs the three ways of sharding, and compares with the tensors of the checkpoint."""
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=NUM_PROCESSES)
    try:
        adapter = adapter_of(RULES, SHAPES, SmallArgs())
        expected = adapter.from_hf(load_file(folder / "model.safetensors"))
        for name in ("fsdp", "tp", "fsdp_tp"):
            model = sharded(name)
            load_checkpoint(model, folder, adapter)
            state = model.state_dict()
            assert all(isinstance(tensor, DTensor) for tensor in state.values())
            for key, tensor in state.items():
                assert torch.equal(tensor.full_tensor(), expected[key]), (name, key)
            save_checkpoint(model, folder / name, adapter, max_shard_bytes=600)
    finally:
        dist.destroy_process_group()


def sharded(way: str) -> nn.Module:
    """Returns a model of zeros whose parameters are spread over all processes."""
    world = dist.get_world_size()
    shape = {"fsdp": (world, 1), "tp": (1, world), "fsdp_tp": (world // 2, 2)}[way]
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    model = module_of(SHAPES)
    if way != "fsdp":
        for name, parameter in list(model.named_parameters()):
            owner = model.get_submodule(name.rpartition(".")[0])
            part = distribute_tensor(parameter.data, mesh["tp"], TP[name])
            setattr(owner, name.rpartition(".")[2], nn.Parameter(part))
    if way != "tp":
        fully_shard(model, mesh=mesh["dp"])
    return model


if __name__ == "__main__":
    torch.set_num_threads(1)
    # Forked, so that torch is imported once.
    start_processes(main, (Path(sys.argv[1]),), nprocs=NUM_PROCESSES, start_method="fork")
