"""Faster CPU arithmetic for the two module kinds that take most of a small model's time.

``nn.Linear`` in fp32 goes to MKL, which uses no AVX-512 on processors that are not Intel's and then
runs at half speed; oneDNN, which PyTorch ships too, does use it. In 16 bits, without instructions
for them, it runs at a hundredth of fp32's speed; so such products are done in fp32 and rounded
once. An RMS norm written in Python keeps six intermediate tensors for its backward; one autograd
function keeps one.
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
from torch.overrides import handle_torch_function, has_torch_function

# Below this many multiply-adds oneDNN's call overhead costs more than its speed gains (measured,
# one thread).
MIN_ONEDNN_MACS = 1 << 20
# A product this narrow leaves most of a vector register empty.
MIN_ONEDNN_WIDTH = 64
# oneDNN generates code for every shape it meets, half a megabyte each, and never frees all of it;
# so row counts are filled up to few sizes. It reads the limit when it generates the first.
ONEDNN_CACHED_SHAPES = 128
MIN_ROW_STEP = 16


@functools.cache
def prefers_onednn() -> bool:
    """Return whether fp32 products go to oneDNN here: MKL would leave half of the processor unused.

    The answer depends on the machine alone, never on a timing, so that a resumed run repeats its
    arithmetic.
    """
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()):
        return False
    return is_not_intels() and torch.backends.cpu.get_cpu_capability() == "AVX512"


@functools.cache
def is_not_intels() -> bool:
    """Return whether the processor is another maker's than MKL's."""
    return "GenuineIntel" not in _processor_vendor()


@functools.cache
def multiplies_slowly(dtype: torch.dtype) -> bool:
    """Return whether a 16-bit type has no products of its own on this processor."""
    supports = {
        torch.bfloat16: torch.ops.mkldnn._is_mkldnn_bf16_supported,
        torch.float16: torch.ops.mkldnn._is_mkldnn_fp16_supported,
    }
    return dtype in supports and not supports[dtype]()


def _processor_vendor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("vendor_id"):
                return line
    except OSError:
        pass
    return "GenuineIntel" if "Intel" in platform.processor() else platform.processor()


def even_size(count: int) -> int:
    """Return the next of few sizes: at most eight for each doubling, less than an eighth more.

    Below 256 the sizes are the multiples of 16.
    """
    step = max(MIN_ROW_STEP, 1 << max(0, count.bit_length() - 4))
    return -(-count // step) * step


def matmul_transposed(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``a @ b.T + bias`` by the faster library for the shape; both may be transposed views.

    Args:
        a: [..., K], of any number of rows.
        b: [N, K].
        bias: [N].
    """
    if has_torch_function((a, b)):  # Where calls are recorded, this is one of them.
        return handle_torch_function(matmul_transposed, (a, b), a, b, bias)
    if a.device.type == "cpu" and multiplies_slowly(a.dtype):
        wide_bias = None if bias is None else bias.float()
        return matmul_transposed(a.float(), b.float(), wide_bias).to(a.dtype)
    if not _suits_onednn(a, b.shape[0]):
        return F.linear(a, b, bias)
    num_rows = a.numel() // a.shape[-1]
    if num_rows == even_size(num_rows):
        return _onednn_matmul(a, b, bias)
    out = _onednn_matmul(_with_even_rows(a.reshape(num_rows, -1)), b, bias)[:num_rows]
    return out.view(*a.shape[:-1], out.shape[-1])


def _suits_onednn(x: Tensor, width: int) -> bool:
    """Return whether the product of [..., K] with a matrix [K, width] should go to oneDNN."""
    is_large = x.numel() * width >= MIN_ONEDNN_MACS
    is_wide = min(x.shape[-1], width) >= MIN_ONEDNN_WIDTH
    is_fp32_on_cpu = x.dtype == torch.float32 and x.device.type == "cpu"
    return is_large and is_wide and is_fp32_on_cpu and prefers_onednn()


def _with_even_rows(x: Tensor) -> Tensor:
    """Return [T, K] with zeros below, or as it is."""
    missing = even_size(len(x)) - len(x)
    return F.pad(x, (0, 0, 0, missing)) if missing else x


def _onednn_matmul(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")


class _FastLinear(torch.autograd.Function):
    """``F.linear`` with each of its three products done by the faster library."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return matmul_transposed(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_x, grad_w = linear_gradients(grad, x, weight, ctx.needs_input_grad[:2])
        has_grad_b = ctx.has_bias and ctx.needs_input_grad[2]
        grad_b = grad.reshape(-1, grad.shape[-1]).sum(0) if has_grad_b else None
        return grad_x, grad_w, grad_b


def linear_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of ``x @ weight.T`` for x and for the weight, None where not needed."""
    grad_x = matmul_transposed(grad, weight.t()) if needs[0] else None
    if not needs[1]:
        return grad_x, None
    rows, inputs = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
    if x.device.type == "cpu" and multiplies_slowly(x.dtype):
        return grad_x, (rows.float().t() @ inputs.float()).to(x.dtype)
    # MKL reads the transposed factor where it is, and oneDNN wants a copy, which costs more than it
    # gains.
    return grad_x, rows.t() @ inputs


class FastLinear(nn.Linear):
    """``nn.Linear`` with products by the faster library."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and (x.dtype == torch.float32 or multiplies_slowly(x.dtype)):
            return _FastLinear.apply(x, self.weight, self.bias)
        return matmul_transposed(x, self.weight, self.bias)


def _inverse_rms(x: Tensor, eps: Tensor) -> Tensor:
    norm = torch.linalg.vector_norm(x, 2, -1, True)
    return torch.addcmul(eps, norm, norm, value=1 / x.shape[-1]).rsqrt_()


class _RmsNorm(torch.autograd.Function):
    """X / rms(x) * weight over the last dimension, keeping only x and 1/rms for the backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: Tensor) -> Tensor:
        inverse = _inverse_rms(x, eps)
        ctx.save_for_backward(x, weight, inverse)
        return (x * inverse).mul_(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # With n = x * inverse and h = grad * weight: dx = inverse * (h - n * mean(h * n)), dw =
        # sum(grad * n).
        x, weight, inverse = ctx.saved_tensors
        normed = x * inverse
        product = grad * normed
        grad_w = product.reshape(-1, product.shape[-1]).sum(0)
        mean = torch.matmul(product, weight).div_(weight.numel()).unsqueeze(-1)
        # In the memory of the product: fresh memory costs more than what is done with it.
        grad_x = torch.mul(grad, weight, out=product)
        grad_x.addcmul_(normed, mean, value=-1.0).mul_(inverse)
        return grad_x, grad_w, None


class FusedRmsNorm(nn.Module):
    """An RMS norm of the plain kind: a weight and an epsilon."""

    weight: Tensor
    fused_eps: Tensor  # [1]

    def forward(self, hidden_states: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return _RmsNorm.apply(hidden_states, self.weight, self.fused_eps)
        # F.rms_norm is made of more calls on a CPU, and takes half as long again.
        return (hidden_states * _inverse_rms(hidden_states, self.fused_eps)).mul_(self.weight)


def _epsilon(module: nn.Module) -> float | None:
    """Return the epsilon of a norm, under whichever name it has one."""
    return getattr(module, "variance_epsilon", getattr(module, "eps", None))


def _is_plain_rms_norm(module: nn.Module) -> bool:
    """Return, by trying it on numbers, whether a module computes what the fused norm does."""
    weight, eps = getattr(module, "weight", None), _epsilon(module)
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
        except (TypeError, ValueError, RuntimeError):
            return False  # it wants more than hidden states
        finally:
            weight.copy_(original)


def use_cpu_kernels(model: nn.Module) -> None:
    """Swap the classes of a CPU model's linear layers and RMS norms; parameters stay.

    Which ones depends on the machine and the types alone.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(ONEDNN_CACHED_SHAPES))
    for module in model.modules():
        kind = type(module)
        if kind is nn.Linear and (is_not_intels() or multiplies_slowly(module.weight.dtype)):
            module.__class__ = FastLinear
        elif kind.__name__.endswith("RMSNorm") and _is_plain_rms_norm(module):
            module.fused_eps = torch.tensor([_epsilon(module)])
            module.__class__ = FusedRmsNorm
