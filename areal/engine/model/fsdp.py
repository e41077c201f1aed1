"""Shares the parameters of a Hugging Face model among processes, by FSDP2."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from areal.api.errors import ConfigError
from areal.experimental.models.archon.parallel.fsdp import fsdp_options, shard_module
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims


def shard_hf_model(
    model: Any,
    dims: ArchonParallelDims,
    param_dtype: torch.dtype,
    reduce_dtype: torch.dtype,
    cpu_offload: bool,
) -> None:
    """Shard a model layer by layer over the processes of data and context parallelism.

    Args:
        model: A causal language model of transformers, the same on all processes.
        dims: The axes.
        param_dtype: Type of the parameters while they compute.
        reduce_dtype: Type in which gradients are summed.
        cpu_offload: Whether shards and gradients stay in host memory.

    Raises:
        ConfigError: The model has no list of decoder layers.
    """
    options = fsdp_options(dims, param_dtype, reduce_dtype, cpu_offload)
    for layer in decoder_layers(model):
        shard_module(layer, options, dims, reshard=True)
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is not None and head.weight is not embedding.weight:
        shard_module(embedding, options, dims, reshard=True)
        # The backward begins with the head.
        shard_module(head, options, dims, reshard=False)
    own = type(model)
    shard_module(model, options, dims, reshard=False)
    # transformers looks up by these how files spell parameters, and FSDP2 makes a class of its own.
    type(model).__name__, type(model).__module__ = own.__name__, own.__module__


def decoder_layers(model: Any) -> list[nn.Module]:
    """Return the decoder layers of a model: its list of as many modules as it has layers.

    Raises:
        ConfigError: There is no such list.
    """
    count = model.config.get_text_config().num_hidden_layers
    lists = [
        module
        for module in model.modules()
        if isinstance(module, nn.ModuleList) and len(module) == count
    ]
    if not lists:
        raise ConfigError(
            f"{type(model).__name__} has no nn.ModuleList of {count} decoder layers, which several "
            "processes could share one by one; use actor.backend=fsdp:d1"
        )
    return list(max(lists, key=lambda found: sum(p.numel() for p in found.parameters())))
