"""Find what a model below fp32 keeps in fp32 while it rotates queries and keys."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from archon_probe.measure.hooks import Watch
from archon_probe.measure.random_weights import build_model
from archon_probe.measure.tasks import call

LENGTH = 6


@torch.no_grad()
def rotation_in_fp32(config: PretrainedConfig) -> str:
    """Return what a bf16 model has in fp32: "tables" of cos and sin, "products", or nothing.

    Tables that are rounded may still be multiplied with queries and keys that are not.
    """
    model = build_model(config).eval()
    for parameter in model.parameters():  # buffers, such as frequencies, stay as they are
        parameter.data = parameter.data.to(torch.bfloat16)
    with _Products(model) as seen:
        try:
            call(model, torch.arange(LENGTH)[None])
        except RuntimeError:
            return ""  # some part of it runs in fp32 only
    if seen.has_wide_tables:
        return "tables"
    return "products" if seen.has_wide_products else ""


class _Products(Watch):
    """Watches products with what modules of rotations return."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.has_wide_tables = False
        self.has_wide_products = False
        self._tables: dict[int, Tensor] = {}
        for name, module in model.named_modules():
            if "rotary" in f"{name}{type(module).__name__}".lower():
                self.hooks.enter_context(module.register_forward_hook(self._returned))

    def _returned(self, _: nn.Module, __: Any, output: Any) -> None:
        for table in output if isinstance(output, tuple | list) else (output,):
            if isinstance(table, Tensor) and (table.is_floating_point() or table.is_complex()):
                self.has_wide_tables |= table.dtype in (torch.float32, torch.complex64)
                self._tables[table.untyped_storage().data_ptr()] = table

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") in ("mul", "__mul__", "__rmul__") and len(args) == 2:
            tensors = [a for a in args if isinstance(a, Tensor)]
            is_table = [t.untyped_storage().data_ptr() in self._tables for t in tensors]
            if any(is_table) and any(t.dtype == torch.float32 for t in tensors):
                self.has_wide_products = True
        return func(*args, **(kwargs or {}))
