"""Faster CPU arithmetic for two module kinds that take most of a small model's time, with the same parameters and results.

``nn.Linear`` in fp32 goes to MKL, which runs at half speed and less on processors that are not Intel's; oneDNN, which
PyTorch ships too, does not. An RMS norm written in Python keeps six intermediate tensors for its backward; one
autograd function keeps one.
"""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Below this many multiply-adds oneDNN's call overhead costs more than its speed gains (measured, one thread).
MIN_ONEDNN_MACS = 1 << 20
# oneDNN keeps generated code for every shape it has met, 1,024 shapes by default, which is hundreds
# of megabytes where batch sizes vary; it reads this limit when it generates the first.
ONEDNN_CACHED_SHAPES = 128


@functools.cache
def prefers_onednn() -> bool:
    """Says whether fp32 matrix products should go to oneDNN here: PyTorch has it and the processor is not Intel's.

    The answer depends on the machine alone, never on a timing, so that a resumed run repeats its arithmetic.
    """
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()):
        return False
    return "GenuineIntel" not in _processor_vendor()


def _processor_vendor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("vendor_id"):
                return line
    except OSError:
        pass
    return "GenuineIntel" if "Intel" in platform.processor() else platform.processor()


def _onednn_matmul(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns ``a @ b.T + bias``; either operand may be a transposed view."""
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")


class _OneDnnLinear(torch.autograd.Function):
    """Is ``F.linear`` with its three products done by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _onednn_matmul(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows = grad.reshape(-1, grad.shape[-1])
        grad_x = _onednn_matmul(grad, weight.t()) if ctx.needs_input_grad[0] else None
        grad_w = grad_b = None
        if ctx.needs_input_grad[1]:
            grad_w = _onednn_matmul(rows.t(), x.reshape(-1, x.shape[-1]).t())
        if ctx.has_bias and ctx.needs_input_grad[2]:
            grad_b = rows.sum(0)
        return grad_x, grad_w, grad_b


class OneDnnLinear(nn.Linear):
    """Is ``nn.Linear`` through oneDNN for large fp32 products on a CPU, and plain ``nn.Linear`` otherwise."""

    def forward(self, x: Tensor) -> Tensor:
        large = x.numel() * self.weight.shape[0] >= MIN_ONEDNN_MACS
        if not large or x.dtype != torch.float32 or x.device.type != "cpu":
            return F.linear(x, self.weight, self.bias)
        if torch.is_grad_enabled():
            return _OneDnnLinear.apply(x, self.weight, self.bias)
        return _onednn_matmul(x, self.weight, self.bias)


class _RmsNorm(torch.autograd.Function):
    """Is x / rms(x) * weight over the last dimension, keeping only x and 1/rms for the backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        inverse = torch.rsqrt(x.square().mean(-1, keepdim=True).add_(eps))
        ctx.save_for_backward(x, weight, inverse)
        return (x * inverse).mul_(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # With n = x * inverse and h = grad * weight: dx = inverse * (h - n * mean(h * n)), dw = sum(grad * n).
        x, weight, inverse = ctx.saved_tensors
        normed = x * inverse
        product = grad * normed
        grad_w = product.reshape(-1, product.shape[-1]).sum(0)
        mean = torch.matmul(product, weight).div_(weight.numel()).unsqueeze(-1)
        grad_x = torch.addcmul(grad * weight, normed, mean, value=-1.0).mul_(inverse)
        return grad_x, grad_w, None


class FusedRmsNorm(nn.Module):
    """Takes the place of a Hugging Face RMS norm of the plain kind (``weight``, ``variance_epsilon``)."""

    weight: Tensor
    variance_epsilon: float

    def forward(self, hidden_states: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return _RmsNorm.apply(hidden_states, self.weight, self.variance_epsilon)
        return F.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)


def _is_plain_rms_norm(module: nn.Module) -> bool:
    """Says, by trying it on numbers, whether a module computes what :class:`FusedRmsNorm` computes."""
    weight, eps = getattr(module, "weight", None), getattr(module, "variance_epsilon", None)
    if not isinstance(weight, nn.Parameter) or not isinstance(eps, float) or weight.ndim != 1:
        return False
    if (
        len(list(module.parameters())) != 1
        or list(module.children())
        or weight.dtype != torch.float32
    ):
        return False
    generator = torch.Generator().manual_seed(0)
    probe = torch.randn(3, weight.numel(), generator=generator)
    original = weight.detach().clone()
    with torch.no_grad():
        weight.copy_(torch.randn(weight.shape, generator=generator))
        try:
            expected = F.rms_norm(probe, weight.shape, weight, eps)
            return bool(torch.allclose(module(probe), expected, rtol=1e-6, atol=1e-6))
        finally:
            weight.copy_(original)


def use_cpu_kernels(model: nn.Module) -> None:
    """Swaps the classes of linear layers and RMS norms of a CPU model for the faster ones; parameters stay as they are."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(ONEDNN_CACHED_SHAPES))
    verdicts: dict[type, bool] = {}
    for module in model.modules():
        kind = type(module)
        if kind is nn.Linear and prefers_onednn():
            module.__class__ = OneDnnLinear
        elif kind.__name__.endswith("RMSNorm"):
            if kind not in verdicts:
                verdicts[kind] = _is_plain_rms_norm(module)
            if verdicts[kind]:
                module.__class__ = FusedRmsNorm
