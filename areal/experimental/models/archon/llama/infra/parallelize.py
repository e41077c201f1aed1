"""Llama across processes."""

from __future__ import annotations

import torch
from torch import nn

from areal.experimental.models.archon.activation_checkpoint import (
    ActivationCheckpointConfig,
    apply_ac,
)
from areal.experimental.models.archon.compile import apply_compile
from areal.experimental.models.archon.parallel import (
    Colwise,
    Region,
    Rowwise,
    apply_cp,
    apply_fsdp,
    apply_tp,
    replicate_rest,
)
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.experimental.models.archon.utils import validate_parallelism

# What is split over tensor parallelism in a block; everything else is replicated.
TP_PLAN = {
    "attention": Region(),
    "attention.wq": Colwise(),
    "attention.wk": Colwise(),
    "attention.wv": Colwise(),
    "attention.wo": Rowwise(),
    "feed_forward": Region(),
    "feed_forward.w1": Colwise(),
    "feed_forward.w3": Colwise(),
    "feed_forward.w2": Rowwise(),
}


def parallelize_llama(
    model: nn.Module,
    parallel_dims: ArchonParallelDims,
    param_dtype: torch.dtype = torch.bfloat16,
    reduce_dtype: torch.dtype = torch.float32,
    loss_parallel: bool = True,
    cpu_offload: bool = False,
    reshard_after_forward_policy: str = "default",
    ac_config: ActivationCheckpointConfig | None = None,
    enable_compile: bool = True,
) -> nn.Module:
    """Splits a model, or a pipeline stage of one, in place.

    Args:
        model: A ``LlamaModel``.
        parallel_dims: In how many parts each axis is split.
        param_dtype: Type of the parameters while they compute.
        reduce_dtype: Type in which gradients are summed.
        loss_parallel: Whether logits stay split by the vocabulary under tensor parallelism.
        cpu_offload: Whether parameters and gradients stay in host memory.
        reshard_after_forward_policy: "default", "always" or "never", see ``apply_fsdp``.
        ac_config: What the backward computes again; None is nothing.
        enable_compile: Whether each block is compiled.

    Returns:
        The same model.

    Raises:
        ConfigError: A size of the model does not divide over an axis.
    """
    validate_parallelism(model.model_args, parallel_dims)
    if parallel_dims.tp_enabled:
        tp_mesh = parallel_dims.get_mesh("tp")
        apply_tp(model, tp_mesh, TP_PLAN, loss_parallel=loss_parallel)
        replicate_rest(model, tp_mesh)
    if parallel_dims.cp_enabled:
        apply_cp(model, parallel_dims.get_group("cp"))
    apply_ac(model, ac_config, model_compile_enabled=enable_compile)
    if enable_compile:
        apply_compile(model)
    apply_fsdp(
        model,
        parallel_dims,
        param_dtype=param_dtype,
        reduce_dtype=reduce_dtype,
        cpu_offload=cpu_offload,
        reshard_after_forward_policy=reshard_after_forward_policy,
    )
    return model
