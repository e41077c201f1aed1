"""Norms, each as the Hugging Face families define it."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce

# Below fp32 the order of roundings decides; a fused kernel has another one than the families.
_ROUNDED = (torch.bfloat16, torch.float16)


class RMSNorm(nn.Module):
    """Divides by the root mean square of the last dimension, in fp32 for inputs below it.

    Args:
        dim: Size of the last dimension.
        eps: Added to the mean square.
        offset: Added to the weight, for families that store ``weight - 1``.
        has_weight: Whether there is a weight at all.
        n_heads: Number of heads that have weights of their own; the input is then heads
            [1, H, T, dim] and the weight [H, dim].
        weight_in_fp32: Whether the weight multiplies before the result is rounded to the input's
            type, and not after.

    Source: Zhang and Sennrich 2019, arXiv:1910.07467, equation 4.
    """

    def __init__(
        self,
        dim: int,
        eps: float = 1e-6,
        offset: float = 0.0,
        has_weight: bool = True,
        n_heads: int | None = None,
        *,
        weight_in_fp32: bool = False,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps
        self.offset = offset
        self.weight_in_fp32 = weight_in_fp32
        shape = (dim,) if n_heads is None else (n_heads, dim)
        self.weight = nn.Parameter(torch.empty(shape)) if has_weight else None
        self._tp_group: dist.ProcessGroup | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the norm multiply by one."""
        if self.weight is not None:
            nn.init.constant_(self.weight, 1.0 - self.offset)

    def set_tp_group(self, group: dist.ProcessGroup | None) -> None:
        """Norm over the slices of all ranks of ``group``, for inputs and weights that are sharded.

        Without it a norm over a whole projection would divide by the mean square of this rank's
        heads only.
        """
        self._tp_group = group

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        is_rounded = x.dtype in _ROUNDED
        if weight is not None and is_rounded and self.weight_in_fp32:
            weight = weight.float()
        if weight is not None and self.offset:
            weight = weight + self.offset
        if weight is not None and weight.dim() == 2:
            weight = weight[:, None, :]
        if self._tp_group is None and not is_rounded:
            if weight is None or weight.dim() == 1:
                return F.rms_norm(x, (self.dim,), weight, self.eps)
            return F.rms_norm(x, (self.dim,), None, self.eps) * weight
        wide = x.float()
        normed = wide * torch.rsqrt(self._mean_square(wide) + self.eps)
        if weight is None:
            return normed.to(x.dtype)
        if self.weight_in_fp32:
            return (normed * weight).to(x.dtype)
        return normed.to(x.dtype) * weight

    def _mean_square(self, wide: Tensor) -> Tensor:
        square = wide.square()
        if self._tp_group is None:
            return square.mean(-1, keepdim=True)
        return all_reduce(square.sum(-1, keepdim=True), group=self._tp_group) / self.dim

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}, offset={self.offset}, weight={self.weight is not None}"


class LayerNorm(nn.Module):
    """Subtracts the mean and divides by the standard deviation of the last dimension.

    ``nn.LayerNorm`` does the same for ``offset`` 0 without heads.

    Args:
        dim: Size of the last dimension.
        eps: Added to the variance.
        offset: Added to the weight, for families that store ``weight - 1``.
        n_heads: Number of heads that have weights of their own; the input is then heads
            [1, H, T, dim] and weight and bias are [H, dim].

    Source: Ba, Kiros and Hinton 2016, arXiv:1607.06450, equation 4.
    """

    def __init__(
        self,
        dim: int,
        eps: float = 1e-5,
        offset: float = 0.0,
        has_weight: bool = True,
        has_bias: bool = True,
        n_heads: int | None = None,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps
        self.offset = offset
        shape = (dim,) if n_heads is None else (n_heads, dim)
        self.weight = nn.Parameter(torch.empty(shape)) if has_weight else None
        self.bias = nn.Parameter(torch.empty(shape)) if has_bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the norm multiply by one and add zero."""
        if self.weight is not None:
            nn.init.constant_(self.weight, 1.0 - self.offset)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight, self.bias
        if weight is not None and self.offset:
            weight = weight + self.offset
        shared = all(parameter is None or parameter.dim() == 1 for parameter in (weight, bias))
        if shared:
            return F.layer_norm(x, (self.dim,), weight, bias, self.eps)
        out = F.layer_norm(x, (self.dim,), None, None, self.eps)
        if weight is not None:
            out = out * weight[:, None, :]
        return out if bias is None else out + bias[:, None, :]

    def extra_repr(self) -> str:
        has = f"weight={self.weight is not None}, bias={self.bias is not None}"
        return f"{self.dim}, eps={self.eps}, offset={self.offset}, {has}"
