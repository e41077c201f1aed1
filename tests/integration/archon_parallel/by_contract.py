"""Splits a model over the processes by the contract's names alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from archon_probe.measure.tiny import tiny_config
from torch.distributed.tensor import DTensor

from areal.experimental.models.archon import ArchonParallelDims, get_model_spec

WHOLE = {"param_dtype": torch.float32, "loss_parallel": False, "enable_compile": False}
# As the engine's configuration has them.
PIPELINE = SimpleNamespace(
    pp_schedule="1F1B",
    pp_layers_per_stage=None,
    pp_first_stage_less_layers=1,
    pp_last_stage_less_layers=1,
)


def run(model_type: str, is_critic: bool, axis: str) -> dict[str, float]:
    """Returns the error of the logits, and how many exported tensors differ from the whole's.

    Args:
        model_type: Of a committed model.
        is_critic: Whether it gives scores.
        axis: What is split in two: tp or pp.
    """
    config, spec = tiny_config(model_type), get_model_spec(model_type)
    args = spec.model_args_class.from_hf_config(config, is_critic=is_critic, attn_type="sdpa")
    adapter = spec.state_dict_adapter_class(config)
    torch.manual_seed(0)
    drawn, model = spec.model_class(args), spec.model_class(args)
    for each in (drawn, model):
        each.init_weights()
        each.init_buffers("cpu")
    whole = {name: tensor.clone() for name, tensor in adapter.to_hf(drawn.state_dict()).items()}
    model.load_state_dict(adapter.from_hf(whole))
    tokens = torch.arange(24)[None] % config.vocab_size
    row = (torch.arange(24)[None], torch.tensor([0, 24]).int(), 24)
    dims = ArchonParallelDims(**{axis: 2}, world_size=dist.get_world_size(), device_type="cpu")
    with torch.no_grad():
        wanted = drawn(tokens, *row)
        split = _run_stages if axis == "pp" else _run_split
        found, exported = split(spec, model, dims, adapter, (tokens, *row), args.dim)
    different = whole.keys() ^ exported.keys()
    different |= {
        n for n in whole.keys() & exported.keys() if not torch.equal(whole[n], exported[n])
    }
    error = 0.0 if found is None else float((found - wanted).abs().max() / wanted.std())
    return {"error": error, "lost": len(different)}


def _run_split(
    spec: Any, model: Any, dims: Any, adapter: Any, row: tuple[Any, ...], _: int
) -> tuple[torch.Tensor | None, dict[str, torch.Tensor]]:
    spec.parallelize_fn(model, dims, **WHOLE)
    exported: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        exported.update(adapter.convert_single_to_hf(name, full))
    return model(*row), exported


def _run_stages(
    spec: Any, model: Any, dims: Any, adapter: Any, row: tuple[Any, ...], dim: int
) -> tuple[torch.Tensor | None, dict[str, torch.Tensor]]:
    """Returns the last stage's output, None on the first process, and what both export."""
    stages, parts, has_first, has_last = spec.pipelining_fn(
        model, torch.device("cpu"), dims, PIPELINE, spec.parallelize_fn, **WHOLE
    )
    assert len(stages) == len(parts) == 1
    assert has_first != has_last
    tokens, *rest = row
    hidden = parts[0](tokens, *rest) if has_first else torch.empty(*tokens.shape, dim)
    dist.broadcast(hidden, src=0)
    exported: dict[str, torch.Tensor] = {}
    of_both: list[Any] = [None, None]
    state = {
        name: tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        for name, tensor in parts[0].state_dict().items()
    }
    dist.all_gather_object(of_both, adapter.to_hf(state))
    for tensors in of_both:
        exported.update(tensors)
    return (parts[0](hidden, *rest) if has_last else None), exported
