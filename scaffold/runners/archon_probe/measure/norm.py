"""Find what kind of norm a module is, from what it does to numbers."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from archon_probe.measure.algebra import is_close
from archon_probe.measure.hooks import Call

_KINDS = ("rms", "layer")

EPS_SHARE = 3e-2
"""How far leaving out eps may move the output: kinds and offsets differ by much more."""


def observe_norm(module: nn.Module, x: Tensor) -> dict[str, Any] | None:
    """Describe a norm over the last axis.

    Args:
        module: Any module.
        x: [..., D], an input that it gets in the model.

    Returns:
        ``kind`` (rms or layer), ``eps``, ``offset`` (what is added to the weight), ``weight`` and
        ``bias`` (there is one), ``dim``, ``heads`` (rows of weights, 0 if one row serves all);
        None if the module is no such norm.
    """
    parameters = dict(module.named_parameters())
    # A norm has no modules inside; what has is some larger part.
    if sum(1 for _ in module.modules()) > 1 and parameters:
        return None
    weight, bias = parameters.pop("weight", None), parameters.pop("bias", None)
    if parameters or any(p is not None and p.ndim > 2 for p in (weight, bias)):
        return None
    if any(True for _ in module.named_buffers()) or isinstance(module, nn.Linear):
        return None
    generator = torch.Generator().manual_seed(7)
    # A mean that is not zero separates a layer norm from an RMS norm.
    probe = torch.randn(x.shape, generator=generator, dtype=torch.float32) + 0.7
    try:
        y = module(probe)
    except Exception:
        return None
    if not isinstance(y, Tensor) or y.shape != probe.shape:
        return None
    # An offset is added to the weight.
    offsets = (0.0, 1.0) if weight is not None else (0.0,)
    for kind, offset in itertools.product(_KINDS, offsets):
        gain = None if weight is None else weight.double() + offset
        norm = _Norm(kind, gain, bias)
        if not is_close(norm(probe, 0.0), y, EPS_SHARE):
            continue
        eps = _eps(module, norm, probe)
        if eps is not None and is_close(norm(probe, eps), y):
            is_late = kind == "rms" and weight is not None
            return {
                "weight_in_fp32": is_late and _weighs_in_fp32(module, probe, eps, offset),
                "kind": kind,
                "eps": eps,
                "offset": offset,
                "weight": weight is not None,
                "bias": bias is not None,
                "dim": probe.shape[-1],
                "heads": weight.shape[0] if weight is not None and weight.ndim == 2 else 0,
            }
    return None


def norm_giving(calls: Iterable[Call], given: Tensor) -> tuple[Call, dict[str, Any]] | None:
    """Return the first call of a norm whose output is what is given, with what it is."""
    for call in calls:
        kind = observe_norm(call.module, call.x) if call.inputs else None
        if kind is not None and is_close(call.y_rows, given):
            return call, {"when": True, **kind}
    return None


@dataclass(frozen=True)
class _Norm:
    """A norm in double precision: what its output is multiplied by, and what is added to that."""

    kind: str
    gain: Tensor | None
    bias: Tensor | None

    def centred(self, x: Tensor) -> Tensor:
        """Return what is divided by its root mean square."""
        x = x.double()
        return x - x.mean(-1, keepdim=True) if self.kind == "layer" else x

    def __call__(self, x: Tensor, eps: float) -> Tensor:
        x = self.centred(x)
        y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        y = y if self.gain is None else y * self.gain
        return y if self.bias is None else y + self.bias.double()

    def undone(self, y: Tensor) -> Tensor:
        """Return the quotient that an output comes from."""
        y = y.double()
        y = y if self.bias is None else y - self.bias.double()
        return y if self.gain is None else y / self.gain


@torch.no_grad()
def _weighs_in_fp32(module: nn.Module, probe: Tensor, eps: float, offset: float) -> bool:
    """Return whether a norm in bf16 multiplies by its weight before it rounds."""
    half = copy.deepcopy(module).to(torch.bfloat16)
    for part in half.modules():
        part._forward_hooks.clear()
        part._forward_pre_hooks.clear()
    x = probe.to(torch.bfloat16)
    try:
        y = half(x)
    except RuntimeError:
        return False
    wide, weight = x.float(), half.weight
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    early = normed.to(x.dtype) * (weight + offset)
    late = (normed * (weight.float() + offset)).to(x.dtype)
    return int((y != late).sum()) < int((y != early).sum())


@torch.no_grad()
def _eps(module: nn.Module, norm: _Norm, probe: Tensor) -> float | None:
    """Solve for eps on inputs so small that it decides the result."""
    for scale in (1e-3, 1e-2, 1e-4, 1e-1):
        x = probe * scale
        y, z = norm.undone(module(x)), norm.centred(x)
        square = z.square().mean(-1)
        # y = z / sqrt(mean square + eps), so the squared quotient is mean square + eps.
        ratio = ((z * y).sum(-1) / y.square().sum(-1)).square()
        eps = float((ratio - square).median())
        mean = float(square.mean())
        # Far below the mean square eps drowns in rounding; far above it only eps is left.
        if 1e-2 * mean < eps < 1e3 * mean:
            # The module's own attribute is exact, where the measured number is rounded.
            declared = [v for v in vars(module).values() if isinstance(v, float)]
            close = [v for v in declared if abs(v - eps) <= 1e-2 * eps]
            return close[0] if close else float(f"{eps:.3g}")
    x = probe * 1e-2
    return 0.0 if is_close(norm(x, 0.0), module(x)) else None
