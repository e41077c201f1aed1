"""Run a mixture-of-experts module by itself, with weights of our choice, and record the run.

Shape letters: T tokens, D features, K experts per token.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from archon_probe.measure.algebra import rounded
from archon_probe.measure.hooks import Call, Function, Recorder, Trace
from archon_probe.measure.moe_memory import WatchedConfig, tensors_of

WATCHED = {"topk", "softmax", "sigmoid", "tanh", "linear", "matmul", "mm"}


@dataclass
class Run:
    """One recorded forward.

    Args:
        x: [T, D], what went in.
        y: [T, D], what came out.
        calls: Of the modules inside, in the order of their ends.
        steps: Watched functions, in order.
    """

    x: Tensor
    y: Tensor
    calls: list[Call]
    steps: list[Function]


class Bench:
    """A copy of a module whose weights may be overwritten.

    Args:
        module: Stays as it is.
        dim: Features of a token.
        config: The model's; one that a part keeps, if None.
        read: Gets the names of the config's fields that the module reads while it runs.
    """

    def __init__(
        self, module: nn.Module, dim: int, config: Any = None, read: set[str] | None = None
    ) -> None:
        # Measured in fp32: tolerances are those of its rounding, and dropout would drown them.
        self.module = copy.deepcopy(module).float().eval()
        self.dim = dim
        kept = [getattr(part, "config", None) for part in module.modules()]
        self.config = config or next((c for c in kept if hasattr(c, "to_dict")), _NoConfig())
        for part in self.module.modules():
            config = getattr(part, "config", None)
            if hasattr(config, "_experts_implementation"):
                # The grouped kernels ask for alignments that a tiny config need not have.
                plain = copy.copy(config)
                plain._experts_implementation = "eager"
                part.config = WatchedConfig(plain, set() if read is None else read)

    def tensors(self) -> list[tuple[str, Tensor]]:
        """Return parameters and buffers of real numbers."""
        return list(tensors_of(self.module).items())

    @torch.no_grad()
    def randomise(self) -> None:
        """Give every tensor values under which all of them matter and logits are of order one."""
        generator = torch.Generator().manual_seed(3)
        for name, tensor in self.tensors():
            noise = torch.randn(tensor.shape, generator=generator)
            # Norms stay near one and biases near zero, so that logits are of order one.
            vector = tensor.numel() == max(tensor.shape, default=1)
            if vector and "norm" in name:
                tensor.copy_(1 + noise * 0.2)
            elif vector and (tensor.ndim < 2 or tensor.shape[1] != self.dim):
                tensor.copy_(noise * 0.1)
            else:
                tensor.copy_(noise / self.dim**0.5)

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Keep what is written into weights from outlasting the block."""
        kept = [t.detach().clone() for _, t in self.tensors()]
        try:
            yield
        finally:
            with torch.no_grad():
                for (_, tensor), value in zip(self.tensors(), kept, strict=True):
                    tensor.copy_(value)

    def tokens(self, count: int, seed: int = 5) -> Tensor:
        """Draw random tokens, [T, D]."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(count, self.dim, generator=generator)

    @torch.no_grad()
    def run(self, x: Tensor) -> Run:
        """Run tokens [T, D] as one sequence."""
        trace = Trace(x)
        with Recorder(self.module, trace, WATCHED):
            out = self.module(x.clone().unsqueeze(0))
        # Some modules return their router's logits beside the output.
        flat = out if isinstance(out, (tuple, list)) else (out,)
        # The output is known by its size, that of the input.
        sized = (o for o in flat if isinstance(o, Tensor) and o.numel() == x.numel())
        y = next(sized).detach().reshape(x.shape)
        return Run(x, y, trace.calls[:-1], trace.functions)  # its own call ends last

    def run_in_bf16(self) -> Run | None:
        """Run a few tokens through a bfloat16 copy; None where some part runs in fp32 only."""
        other = Bench(self.module, self.dim)
        other.module.to(torch.bfloat16)  # a copy: what is measured stays in float32
        try:
            return other.run(self.tokens(8).to(torch.bfloat16))
        except RuntimeError:
            return None


class _NoConfig:
    def to_dict(self) -> dict[str, Any]:
        return {}


def declared(module: nn.Module, measured: float, tolerance: float = 1e-4) -> float:
    """Return the number that a measured one is meant to be.

    Args:
        module: Its parts' numeric attributes are tried first.
        measured: With rounding noise.
        tolerance: Relative.
    """
    numbers = map(float, attributes(module, int, float))
    close = [n for n in numbers if abs(n - measured) <= tolerance * abs(measured)]
    # People write constants with few digits: the shortest number within the tolerance is meant.
    return min(close, key=lambda n: abs(n - measured), default=rounded(measured, tolerance))


def attributes(module: nn.Module, *kinds: type) -> list[Any]:
    """Return the values of some kinds that a module and its parts keep; switches are no numbers."""
    values = [value for part in module.modules() for value in vars(part).values()]
    return [v for v in values if isinstance(v, kinds) and not isinstance(v, bool)]
