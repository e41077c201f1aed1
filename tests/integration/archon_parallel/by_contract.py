"""Splits a model over the processes by the contract's names alone."""

from __future__ import annotations

import torch
import torch.distributed as dist
from archon_probe.measure.tiny import tiny_config
from torch.distributed.tensor import DTensor

from areal.experimental.models.archon import ArchonParallelDims, get_model_spec


def run(model_type: str, is_critic: bool) -> dict[str, float]:
    """Returns the error of the logits, and how many exported tensors differ from the whole's."""
    config, spec = tiny_config(model_type), get_model_spec(model_type)
    args = spec.model_args_class.from_hf_config(config, is_critic=is_critic, attn_type="sdpa")
    torch.manual_seed(0)
    model = spec.model_class(args)
    model.init_weights()
    model.init_buffers("cpu")
    adapter = spec.state_dict_adapter_class(config)
    whole = {name: tensor.clone() for name, tensor in adapter.to_hf(model.state_dict()).items()}
    tokens = torch.arange(24)[None] % config.vocab_size
    row = (tokens, torch.arange(24)[None], torch.tensor([0, 24]).int(), 24)
    with torch.no_grad():
        wanted = model(*row)
        dims = ArchonParallelDims(tp=2, world_size=dist.get_world_size(), device_type="cpu")
        spec.parallelize_fn(
            model, dims, param_dtype=torch.float32, loss_parallel=False, enable_compile=False
        )
        found = model(*row)
    exported: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        exported.update(adapter.convert_single_to_hf(name, full))
    different = whole.keys() ^ exported.keys()
    different |= {
        n for n in whole.keys() & exported.keys() if not torch.equal(whole[n], exported[n])
    }
    return {"error": float((found - wanted).abs().max() / wanted.std()), "lost": len(different)}
