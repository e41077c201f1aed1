"""Feed-forward networks and their activations."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from areal.api.errors import ConfigError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
}


def get_activation(name: str) -> Callable[[Tensor], Tensor]:
    """Returns an activation by the name that transformers gives it.

    Raises:
        ConfigError: There is none of that name; the message lists those there are.
    """
    if name not in ACTIVATIONS:
        raise ConfigError(f"unknown activation {name!r}; known: {', '.join(sorted(ACTIVATIONS))}")
    return ACTIVATIONS[name]


class GatedFeedForward(nn.Module):
    """Computes ``w2(act(w1(x)) * w3(x))``: w1 is the gate, w3 goes up, w2 goes down."""

    def __init__(self, dim: int, hidden_dim: int, activation: str, bias: bool = False) -> None:
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=bias)
        self.w2 = nn.Linear(hidden_dim, dim, bias=bias)
        self.w3 = nn.Linear(dim, hidden_dim, bias=bias)
        self.act = get_activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(self.act(self.w1(x)) * self.w3(x))


class FeedForward(nn.Module):
    """Computes ``w2(act(w1(x)))``."""

    def __init__(self, dim: int, hidden_dim: int, activation: str, bias: bool = False) -> None:
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=bias)
        self.w2 = nn.Linear(hidden_dim, dim, bias=bias)
        self.act = get_activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(self.act(self.w1(x)))
