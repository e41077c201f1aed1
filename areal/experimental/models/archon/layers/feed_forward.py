"""Feed-forward networks and their activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.api.registry import nearest_names


def _relu_squared(x: Tensor) -> Tensor:
    return F.relu(x).square()


def _quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


def _clipped_gelu(x: Tensor) -> Tensor:
    return F.gelu(x).clamp(-10.0, 10.0)


def _laplace(x: Tensor) -> Tensor:
    return 0.5 * (1.0 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2.0))))


def _sqrt_softplus(x: Tensor) -> Tensor:
    return F.softplus(x).sqrt()


def _identity(x: Tensor) -> Tensor:
    return x


class XIELU(nn.Module):
    """Integrates an ELU on both sides of zero, with two learned slopes.

    The learned numbers and the constants are in checkpoints.

    Source: Huang and Schlag 2024, arXiv:2411.13010, equation 10.
    """

    def __init__(self) -> None:
        super().__init__()
        self.alpha_p = nn.Parameter(torch.empty(1))
        self.alpha_n = nn.Parameter(torch.empty(1))
        self.register_buffer("beta", torch.tensor(0.5))
        self.register_buffer("eps", torch.tensor(-1e-6))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make both slopes 0.8, past softplus and, on the negative side, beta."""
        nn.init.constant_(self.alpha_p, math.log(math.expm1(0.8)))
        nn.init.constant_(self.alpha_n, math.log(math.expm1(0.8 - 0.5)))

    def init_buffers(self, buffer_device: torch.device | str | None = None) -> None:
        """Set the constants, which a module built on ``meta`` does not have."""
        self.beta = torch.tensor(0.5, device=buffer_device)
        self.eps = torch.tensor(-1e-6, device=buffer_device)

    def forward(self, x: Tensor) -> Tensor:
        slope_p = F.softplus(self.alpha_p)
        slope_n = self.beta + F.softplus(self.alpha_n)
        negative = (torch.expm1(torch.minimum(x, self.eps)) - x) * slope_n
        return torch.where(x > 0, slope_p * x * x, negative) + self.beta * x


def _written_gelu(inner: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a GELU that transformers writes out; torch's kernel differs from it by rounding."""
    if x.dtype not in (torch.bfloat16, torch.float16):
        return F.gelu(x, approximate="tanh")
    return 0.5 * x * (1.0 + torch.tanh(inner(x)))


def _cubed(x: Tensor) -> Tensor:
    return math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))


def _factored(x: Tensor) -> Tensor:
    return x * 0.7978845608 * (1.0 + 0.044715 * x * x)


# Names as transformers' ACT2FN has them.
_tanh_gelu = partial(F.gelu, approximate="tanh")

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_10": _clipped_gelu,
    "gelu_accurate": partial(_written_gelu, _cubed),
    "gelu_fast": partial(_written_gelu, _factored),
    "gelu_new": partial(_written_gelu, _cubed),
    "gelu_python": F.gelu,
    "gelu_python_tanh": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "hardswish": F.hardswish,
    "laplace": _laplace,
    "leaky_relu": F.leaky_relu,
    "linear": _identity,
    "mish": F.mish,
    "quick_gelu": _quick_gelu,
    "relu": F.relu,
    "relu2": _relu_squared,
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "sqrtsoftplus": _sqrt_softplus,
    "swish": F.silu,
    "tanh": torch.tanh,
}

# Activations with parameters of their own: each feed-forward has its own.
LEARNED_ACTIVATIONS: dict[str, type[nn.Module]] = {"prelu": nn.PReLU, "xielu": XIELU}


def get_activation(name: str) -> Callable[[Tensor], Tensor]:
    """Return an activation by the name that transformers gives it.

    Raises:
        ConfigError: There is none of that name; the message lists those there are.
    """
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    if name in LEARNED_ACTIVATIONS:
        return LEARNED_ACTIVATIONS[name]()
    known = nearest_names(str(name), {**ACTIVATIONS, **LEARNED_ACTIVATIONS})
    raise ConfigError(f"unknown activation {name!r}{known}")


def _times(factor: float, x: Tensor) -> Tensor:
    return x if factor == 1 else x * factor


class GatedFeedForward(nn.Module):
    """Computes ``w2(act(w1(x)) * w3(x))``: w1 is the gate, w3 goes up, w2 goes down.

    Args:
        dim: Size of the stream.
        hidden_dim: Size between the projections.
        activation: A name that ``get_activation`` knows.
        bias: Whether the projections have biases.
        down_bias: Whether w2 has one; as the others when None.
        inner_norm: What is applied before w2, if anything.
        first_multiplier: Of what goes into the activation.
        down_multiplier: Of what w2 gives.
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        activation: str,
        bias: bool = False,
        down_bias: bool | None = None,
        inner_norm: nn.Module | None = None,
        first_multiplier: float = 1.0,
        down_multiplier: float = 1.0,
    ) -> None:
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=bias)
        self.w2 = nn.Linear(hidden_dim, dim, bias=bias if down_bias is None else down_bias)
        self.w3 = nn.Linear(dim, hidden_dim, bias=bias)
        self.act = get_activation(activation)
        self.inner_norm = inner_norm
        self.first_multiplier = first_multiplier
        self.down_multiplier = down_multiplier

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.act(_times(self.first_multiplier, self.w1(x))) * self.w3(x)
        out = self.w2(hidden if self.inner_norm is None else self.inner_norm(hidden))
        return _times(self.down_multiplier, out)


class FeedForward(nn.Module):
    """Computes ``w2(act(w1(x)))``; takes what ``GatedFeedForward`` takes."""

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        activation: str,
        bias: bool = False,
        down_bias: bool | None = None,
        inner_norm: nn.Module | None = None,
        first_multiplier: float = 1.0,
        down_multiplier: float = 1.0,
    ) -> None:
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=bias)
        self.w2 = nn.Linear(hidden_dim, dim, bias=bias if down_bias is None else down_bias)
        self.act = get_activation(activation)
        self.inner_norm = inner_norm
        self.first_multiplier = first_multiplier
        self.down_multiplier = down_multiplier

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.act(_times(self.first_multiplier, self.w1(x)))
        out = self.w2(hidden if self.inner_norm is None else self.inner_norm(hidden))
        return _times(self.down_multiplier, out)
