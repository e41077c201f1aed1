"""How a decoder is split over processes: the same steps, in the same order, for every model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor.parallel import ParallelStyle

from areal.api.errors import ConfigError
from areal.experimental.models.archon.activation_checkpoint import (
    ActivationCheckpointConfig,
    apply_ac,
)
from areal.experimental.models.archon.compile import apply_compile
from areal.experimental.models.archon.expert_parallel import apply_moe_ep_tp
from areal.experimental.models.archon.layers.sequence_mixer import refuse_split_mixers
from areal.experimental.models.archon.parallel.context import apply_cp
from areal.experimental.models.archon.parallel.experts import expert_meshes
from areal.experimental.models.archon.parallel.fsdp import apply_fsdp
from areal.experimental.models.archon.parallel.tensor import apply_tp, replicate_rest
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.experimental.models.archon.utils import validate_parallelism


def parallelize_decoder(
    model: Any,
    parallel_dims: ArchonParallelDims,
    tp_plan: Mapping[str, ParallelStyle],
    param_dtype: torch.dtype = torch.bfloat16,
    reduce_dtype: torch.dtype = torch.float32,
    loss_parallel: bool = True,
    cpu_offload: bool = False,
    reshard_after_forward_policy: str = "default",
    ac_config: ActivationCheckpointConfig | None = None,
    enable_compile: bool = True,
) -> nn.Module:
    """Split a model, or a pipeline stage of one, in place.

    Args:
        model: A ``BaseArchonModel``.
        parallel_dims: In how many parts each axis is split.
        tp_plan: Style of each module of a block under tensor parallelism; the others, experts
            apart, are replicated.
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
        ConfigError: A size of the model does not divide over an axis, or the model has mixers of
            transformers or is an encoder, and an axis splits sequences.
    """
    validate_parallelism(model.model_args, parallel_dims)
    refuse_split_mixers(model, parallel_dims)
    _refuse_split_encoders(model, parallel_dims)
    if parallel_dims.tp_enabled:
        apply_tp(model, parallel_dims.get_mesh("tp"), tp_plan, loss_parallel=loss_parallel)
    apply_moe_ep_tp(model, *expert_meshes(parallel_dims))
    if parallel_dims.tp_enabled:
        # After the experts, which split parameters of their own.
        replicate_rest(model, parallel_dims.get_mesh("tp"))
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


def _refuse_split_encoders(model: Any, parallel_dims: ArchonParallelDims) -> None:
    """Refuse to split the sequences of a model that pools them."""
    if not model.is_causal and (parallel_dims.tp_enabled or parallel_dims.cp_enabled):
        raise ConfigError(
            f"{type(model).__name__} scores whole sequences, so tensor and context parallelism are "
            "not available; use data or pipeline parallelism"
        )
