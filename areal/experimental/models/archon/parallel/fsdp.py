"""Shards a model's parameters over data and context parallelism with FSDP2."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import Shard

from areal.api.errors import ConfigError
from areal.experimental.models.archon.parallel.tie import is_tied, retie
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims

RESHARD_POLICIES = ("default", "always", "never")


def apply_fsdp(
    model: nn.Module,
    parallel_dims: ArchonParallelDims,
    *,
    param_dtype: torch.dtype = torch.bfloat16,
    reduce_dtype: torch.dtype = torch.float32,
    cpu_offload: bool = False,
    reshard_after_forward_policy: str = "default",
) -> None:
    """Shard a model block by block; gradients are means over the processes that have a loss.

    Args:
        model: Has ``layers`` and some of ``tok_embeddings``, ``norm``, ``output`` and ``score``.
        parallel_dims: The axes; experts are sharded over what expert parallelism leaves.
        param_dtype: Type of the parameters while they compute.
        reduce_dtype: Type in which gradients are summed.
        cpu_offload: Whether shards and gradients stay in host memory.
        reshard_after_forward_policy: Whether a block's parameters are given up after its forward
            and gathered again for its backward: "always", "never", or "default", which is always
            unless there is a pipeline, whose microbatches would gather them again and again.

    Raises:
        ConfigError: The policy is unknown.
    """
    options = fsdp_options(parallel_dims, param_dtype, reduce_dtype, cpu_offload)
    reshard = _reshards(reshard_after_forward_policy, parallel_dims.pp_enabled)
    tied = is_tied(model)
    for block in model.layers.values():
        _shard_experts(block, parallel_dims, options, reshard)
        shard_module(block, options, parallel_dims, reshard)
    if not tied:
        if _child(model, "tok_embeddings") is not None:
            shard_module(model.tok_embeddings, options, parallel_dims, reshard)
        # The backward begins with these: gathering them again right after is a waste.
        ends = [_child(model, name) for name in ("norm", "output", "score")]
        ends = [module for module in ends if module is not None]
        if ends:
            always = reshard_after_forward_policy == "always"
            shard_module(ends if len(ends) > 1 else ends[0], options, parallel_dims, always)
    shard_module(model, options, parallel_dims, reshard)
    if tied:
        retie(model)


def fsdp_options(
    dims: ArchonParallelDims,
    param_dtype: torch.dtype,
    reduce_dtype: torch.dtype,
    cpu_offload: bool,
) -> dict[str, Any]:
    """Return the options of ``fully_shard`` that all modules of a model share."""
    # What computes in host memory has nothing to offload, and no accelerator to pin memory for.
    offload = cpu_offload and dims.device_type != "cpu"
    return {
        "mesh": _shards(dims, "dp_shard_cp"),
        # Rotary tables are float32 arguments of the blocks and must stay so.
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=param_dtype, reduce_dtype=reduce_dtype, cast_forward_inputs=False
        ),
        "offload_policy": CPUOffloadPolicy() if offload else OffloadPolicy(),
    }


def _reshards(policy: str, pp_enabled: bool) -> bool:
    if policy not in RESHARD_POLICIES:
        known = ", ".join(RESHARD_POLICIES)
        raise ConfigError(f"unknown reshard_after_forward_policy {policy!r}; known: {known}")
    return policy == "always" or (policy == "default" and not pp_enabled)


def _shard_experts(
    block: nn.Module, dims: ArchonParallelDims, options: dict[str, Any], reshard: bool
) -> None:
    """Shard a block's experts over the processes that have the same ones."""
    experts = _child(_child(block, "moe"), "experts")
    if experts is None or not dims.ep_enabled:
        return
    mesh = _shards(dims, "dp_shard_mod_ep")
    held = experts.num_experts // dims.ep
    placement = Shard(1) if mesh.size(-1) > held else Shard(0)
    options = {**options, "mesh": mesh, "shard_placement_fn": lambda _: placement}
    shard_module(experts, options, dims, reshard)


def shard_module(
    module: Any, options: dict[str, Any], dims: ArchonParallelDims, reshard: bool
) -> None:
    """Wrap a module; its gradient is divided by the number of losses, whatever its mesh.

    Args:
        module: One, or a list of modules whose parameters are gathered together.
        options: Of ``fsdp_options``.
        dims: The axes.
        reshard: Whether parameters are given up after the forward.
    """
    fully_shard(module, **options, reshard_after_forward=reshard)
    for wrapped in module if isinstance(module, list) else [module]:
        if isinstance(wrapped, FSDPModule):
            wrapped.set_gradient_divide_factor(float(dims.fsdp_gradient_divide_factor))
            # gloo has no scaled sum: sum first and divide after. Where one process has all shards,
            # FSDP2 divides before copies are summed, and asked for this it would divide twice.
            if dims.device_type == "cpu" and options["mesh"].size(-1) > 1:
                wrapped.set_force_sum_reduction_for_comms(True)


def _shards(dims: ArchonParallelDims, name: str) -> DeviceMesh:
    """Return the mesh that parameters are sharded over, with one of copies before it if any."""
    return dims.get_mesh(f"dp_replicate_{name}") or dims.get_mesh(name)


def _child(module: nn.Module | None, name: str) -> nn.Module | None:
    return None if module is None else getattr(module, name, None)
