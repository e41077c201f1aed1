"""Batches of trajectories: padding, packing, micro-batches, normalisation."""

from areal.utils.data.batching import TrajBatchMeta, batched_call, concat_batch, split_batch
from areal.utils.data.containers import (
    TensorDict,
    collate_samples_to_list,
    concat_padded_tensors,
    cycle_dataloader,
    pad_and_stack_tensors_along_first_dim,
    pad_sequences_to_tensors,
    reorder_list,
    tensor_container_to,
)
from areal.utils.data.microbatch import (
    MicroBatchItem,
    MicroBatchList,
    pack_mb_list,
    pad_mb_list,
    split_padded_tensor_dict_into_mb_list,
)
from areal.utils.data.normalization import Normalization, resolve_group_sizes
from areal.utils.data.packing import (
    pack_tensor_dict,
    pad_packed_tensor,
    pad_packed_tensor_dict,
    unpack_sequence,
)
from areal.utils.functional.kl import KL_ESTIMATORS, KLEstimator

__all__ = [
    "KL_ESTIMATORS",
    "KLEstimator",
    "MicroBatchItem",
    "MicroBatchList",
    "Normalization",
    "TensorDict",
    "TrajBatchMeta",
    "batched_call",
    "collate_samples_to_list",
    "concat_batch",
    "concat_padded_tensors",
    "cycle_dataloader",
    "pack_mb_list",
    "pack_tensor_dict",
    "pad_and_stack_tensors_along_first_dim",
    "pad_mb_list",
    "pad_packed_tensor",
    "pad_packed_tensor_dict",
    "pad_sequences_to_tensors",
    "reorder_list",
    "resolve_group_sizes",
    "split_batch",
    "split_padded_tensor_dict_into_mb_list",
    "tensor_container_to",
    "unpack_sequence",
]
