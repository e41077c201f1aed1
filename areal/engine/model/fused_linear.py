"""Linear layers that read the same input, computed as one matrix product.

Query, key and value projections, and gate and up projections, are separate modules in Hugging Face
and Archon models. Here their weights lie next to each other in one block of memory of which each
module's weight is a view. The first sibling that is called with an input computes all of them, and
the others take their part. Parameters, names and checkpoints stay as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import has_torch_function

from areal.engine.model.cpu_kernels import FastLinear, linear_gradients, matmul_transposed

# Children of one module that may share an input; whether they do is seen at every call.
SIBLINGS = (
    ("q_proj", "k_proj", "v_proj"),
    ("gate_proj", "up_proj"),
    ("wq", "wk", "wv"),
    ("w1", "w3"),
)
# From so many numbers of an input on, what one call saves in training is less than what it costs to
# read parts of its result, and to put their gradients together.
MAX_FUSED_SIZE = 1 << 18


class _FusedLinear(torch.autograd.Function):
    """Multiplies by a block of weights and hands out the columns of each."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Tensor, sizes: list[int], *weights: Tensor) -> Any:
        ctx.save_for_backward(x, block)
        ctx.sizes = sizes
        ctx.set_materialize_grads(False)
        return matmul_transposed(x, block).split(sizes, -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        x, block = ctx.saved_tensors
        shape = x.shape[:-1]
        parts = [
            x.new_zeros(*shape, size) if grad is None else grad
            for grad, size in zip(grads, ctx.sizes, strict=True)
        ]
        needs = (ctx.needs_input_grad[0], any(ctx.needs_input_grad[3:]))
        grad_x, grad_block = linear_gradients(torch.cat(parts, -1), x, block, needs)
        grad_weights = (None,) * len(parts) if grad_block is None else grad_block.split(ctx.sizes)
        return grad_x, None, None, *grad_weights


class _Block:
    """The weights of siblings as rows of one matrix, and results that wait for their owners.

    Args:
        modules: The siblings, in the order of their rows.
    """

    def __init__(self, modules: Sequence[nn.Linear]) -> None:
        self.modules = list(modules)
        self.sizes = [module.out_features for module in modules]
        self.weight = torch.cat([module.weight.detach() for module in modules])
        for module, rows in zip(modules, self.weight.split(self.sizes), strict=True):
            module.weight.data = rows
        self._addresses = [module.weight.data_ptr() for module in modules]
        # Training and decoding call the same modules from different threads.
        self._waiting: dict[int, tuple[Tensor, list[Tensor | None]]] = {}

    def is_intact(self) -> bool:
        """Return whether every sibling's weight is still the view that it was made."""
        return all(
            module.weight.data_ptr() == address
            for module, address in zip(self.modules, self._addresses, strict=True)
        )

    def output(self, index: int, x: Tensor) -> Tensor:
        """Return one sibling's output; those of the others wait for a call with the same input."""
        thread = threading.get_ident()
        kept = self._waiting.get(thread)
        outputs = kept[1] if kept is not None and kept[0] is x else None
        if outputs is None or outputs[index] is None:
            outputs = list(self._compute(x))
            self._waiting[thread] = (x, outputs)
        mine, outputs[index] = outputs[index], None
        if all(output is None for output in outputs):
            del self._waiting[thread]
        assert mine is not None
        return mine

    def _compute(self, x: Tensor) -> Sequence[Tensor]:
        if torch.is_grad_enabled():
            weights = [module.weight for module in self.modules]
            return _FusedLinear.apply(x, self.weight, self.sizes, *weights)
        return matmul_transposed(x, self.weight).split(self.sizes, -1)


class SiblingLinear(FastLinear):
    """A linear layer that leaves its product to the block it shares with its siblings."""

    _block: _Block
    _index: int

    def forward(self, x: Tensor) -> Tensor:
        if has_torch_function((x,)):  # Where calls are recorded, each sibling's product is one.
            return matmul_transposed(x, self.weight)
        block = self._block
        # A deep copy, a move to another device or new weights end the sharing; the layer works on.
        if block.modules[self._index] is not self or not block.is_intact():
            return super().forward(x)
        if torch.is_grad_enabled() and x.numel() >= MAX_FUSED_SIZE:
            return super().forward(x)
        return block.output(self._index, x)


def fuse_siblings(model: nn.Module) -> None:
    """Make siblings without bias share one block of weights, wherever a model has them."""
    for parent in model.modules():
        for names in SIBLINGS:
            modules = [getattr(parent, name, None) for name in names]
            if not all(type(module) is FastLinear and module.bias is None for module in modules):
                continue
            if len({(m.in_features, m.weight.dtype, m.weight.device) for m in modules}) != 1:
                continue
            block = _Block(modules)
            for index, module in enumerate(modules):
                module.__class__ = SiblingLinear
                # Past nn.Module's bookkeeping: the block is neither a parameter nor a child.
                object.__setattr__(module, "_block", block)
                object.__setattr__(module, "_index", index)
