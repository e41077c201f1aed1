"""Norms, each as the Hugging Face families define it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Divides by the root mean square of the last dimension.

    Args:
        dim: Size of the last dimension.
        eps: Added to the mean square.
        offset: Added to the weight, for families that store ``weight - 1``.
        has_weight: Whether there is a weight at all.

    Source: Zhang and Sennrich 2019, arXiv:1910.07467, equation 4.
    """

    def __init__(
        self, dim: int, eps: float = 1e-6, offset: float = 0.0, has_weight: bool = True
    ) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps
        self.offset = offset
        if has_weight:
            self.weight = nn.Parameter(torch.empty(dim))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            nn.init.constant_(self.weight, 1.0 - self.offset)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        if weight is not None and self.offset:
            weight = weight + self.offset
        return F.rms_norm(x, (self.dim,), weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}, offset={self.offset}, weight={self.weight is not None}"
