"""Build an Archon model from a checkpoint, and run it on packed sequences."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig

from archon_probe.measure.tasks import is_encoder
from archon_probe.proof.reference import Batch, Run


@dataclass
class Built:
    """An Archon model with the weights of a transformers model."""

    args: Any
    model: Any
    adapter: Any


def load_spec(path: str) -> Any:
    """Return the model's spec, given as ``module:NAME``."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def read_args(spec: Any, config: PretrainedConfig, **chosen: Any) -> tuple[Any, str | None]:
    """Return the model's arguments, or why the model refuses the config."""
    if is_encoder(config):
        chosen["is_critic"] = True
    try:
        return spec.model_args_class.from_hf_config(config, **chosen), None
    except refusal_class(spec.model_args_class) as error:
        return None, str(error)


def refusal_class(model_args_class: type) -> type[Exception]:
    """Return the error by which a model refuses a configuration.

    Its base class raises it too. Where that is defined depends on the target.
    """
    modules = (sys.modules[owner.__module__] for owner in model_args_class.__mro__)
    return next(found for m in modules if (found := getattr(m, "ConfigError", None)) is not None)


def build(
    spec: Any,
    args: Any,
    config: PretrainedConfig,
    saved: dict[str, Tensor],
    dtype: torch.dtype = torch.float32,
) -> Built:
    """Build the Archon model and load a checkpoint's tensors through its adapter.

    As where models are trained, buffers are in fp32 whatever the dtype of the parameters.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        model = spec.model_class(args)
    finally:
        torch.set_default_dtype(before)
    adapter = spec.state_dict_adapter_class(config)
    # What is state, such as the bias that picks experts, comes with the checkpoint.
    model.init_buffers(torch.device("cpu"))
    model.load_state_dict(adapter.from_hf(dict(saved)), strict=True)
    return Built(args, model.eval(), adapter)


def run_packed(built: Built, batch: Batch) -> Run:
    """Run an Archon model once on all sequences, and its loss backwards."""
    model = built.model
    model.zero_grad(set_to_none=True)
    logits = forward_packed(model, batch)
    (logits * batch.cotangent).sum().backward()
    # Tied parameters under all of their names, as the adapter reads a whole state.
    given = {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in model.named_parameters(remove_duplicate=False)
    }
    state = {n: given.get(n, torch.zeros_like(t)) for n, t in model.state_dict().items()}
    return Run(logits.detach(), built.adapter.to_hf(state))


def forward_packed(model: Any, batch: Batch) -> Tensor:
    """Return the logits [T, vocab] of an Archon model for a packed batch."""
    positions, cu_seqlens = batch.positions[None], batch.cu_seqlens
    return model(batch.tokens[None], positions, cu_seqlens, max(batch.lengths))[0]
