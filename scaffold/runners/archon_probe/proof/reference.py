"""The reference that proofs compare with: transformers, one sequence at a time in float32.

Its own packing by reset position ids is wrong in eager mode for several models, so nothing is
packed or padded here.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers.core_model_loading import revert_weight_conversion

from archon_probe.measure.tasks import token_logits

LENGTHS = (13, 40, 1, 7)
"""Tokens of each sequence: one longer than any tiny window or trained length, and one of 1."""

# How often the rounding that a second run shows is allowed, and how much of it at most.
ALLOWANCE_FACTOR = 3.0
MOST_ALLOWANCE = 1e-4
# Gradients below this share of what a tensor of their size would have on average are zero up to
# cancellation, such as that of a key's bias, which the softmax does not see.
NEGLIGIBLE = 1e-4
# A gradient whose terms nearly cancel is off by more of its norm. Rounding may explain a difference
# up to this share of what a tensor of its size would have on average: the tolerance of one.
MOST_ROUNDING = 1e-5


@dataclass(frozen=True)
class Batch:
    """Sequences laid end to end, and the gradient of a loss with respect to their logits.

    Attributes:
        tokens: [T] int64.
        lengths: Tokens of each sequence; their sum is T.
        cotangent: [T, width] gradient of the loss; the width is the vocabulary's, or a score's.
    """

    tokens: Tensor
    lengths: tuple[int, ...]
    cotangent: Tensor

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First token of each sequence, and the one after its last."""
        ends = [sum(self.lengths[: n + 1]) for n in range(len(self.lengths))]
        return [(end - length, end) for end, length in zip(ends, self.lengths, strict=True)]

    @property
    def positions(self) -> Tensor:
        """[T] position of each token in its sequence."""
        return torch.cat([torch.arange(n) for n in self.lengths])

    @property
    def cu_seqlens(self) -> Tensor:
        """[B + 1] int32, where each sequence starts, then T."""
        return torch.tensor([0, *(end for _, end in self.spans)], dtype=torch.int32)


@dataclass
class Run:
    """What one implementation computed: logits [T, vocab], and gradients by name on the Hub."""

    logits: Tensor
    gradients: dict[str, Tensor]


@dataclass
class Reference(Run):
    """The reference run, and how far transformers is from itself.

    Attributes:
        average: Norm of the gradients per root of elements, over all parameters.
        rerun: Computes the same in another way, or returns None; called only where needed.
        refine: Computes the same in double precision, or returns None; called only where needed.
    """

    average: float
    rerun: Callable[[], Run | None]
    refine: Callable[[], Run | None] = lambda: None

    @cached_property
    def other(self) -> Run | None:
        """The same computed in another way; None where that differs by more than rounding."""
        run = self.rerun()
        if run is None or self._noise(run) > MOST_ALLOWANCE:
            return None
        return run

    def _noise(self, run: Run) -> float:
        spread = self.logits.std().clamp_min(1e-30)
        return float((run.logits - self.logits).abs().max() / spread)

    @cached_property
    def logits_rounding(self) -> float:
        """How many standard deviations logits may be off for being rounded in float32."""
        own = 0.0 if self.exact is None else self._noise(self.exact)
        return min(ALLOWANCE_FACTOR * own, MOST_ALLOWANCE) if own <= MOST_ALLOWANCE else 0.0

    @cached_property
    def logits_allowance(self) -> float:
        """How many standard deviations logits may be off beyond the tolerance."""
        noise = 0.0 if self.other is None else self._noise(self.other)
        return min(ALLOWANCE_FACTOR * noise, MOST_ALLOWANCE)

    def allowance(self, name: str) -> float:
        """Return what share of its norm a gradient may be off beyond the tolerance."""
        if self.other is None:
            return 0.0
        gradient = self.gradients[name]
        off = (self.other.gradients[name] - gradient).norm() / gradient.norm().clamp_min(1e-30)
        return min(ALLOWANCE_FACTOR * float(off), MOST_ALLOWANCE)

    @cached_property
    def exact(self) -> Run | None:
        """The same in double precision, as far as the model lets it."""
        return self.refine()

    @property
    def is_rounded_away(self) -> bool:
        """Whether a gradient that counts may be off by more than is ever allowed."""
        return any(
            ALLOWANCE_FACTOR * self._own_error(name) > MOST_ALLOWANCE
            for name, gradient in self.gradients.items()
            if float(gradient.norm()) > NEGLIGIBLE * self.average * gradient.numel() ** 0.5
        )

    def _usual_error(self, name: str) -> float:
        """Return the error of a gradient, or that of its like in other layers and experts.

        One draw of rounding may be small by chance, so their root mean square counts where that
        is more.
        """
        own = self._own_error(name)
        like = [self._own_error(n) for n in self.gradients if _place(n) == _place(name)]
        return max(own, (sum(e * e for e in like) / len(like)) ** 0.5)

    def _own_error(self, name: str) -> float:
        """Return by what share of its norm a gradient differs from double precision."""
        if self.exact is None:
            return 0.0
        gradient = self.gradients[name]
        off = float((self.exact.gradients[name] - gradient.double()).norm())
        return off / float(gradient.norm().clamp_min(1e-30))

    def rounding(self, name: str) -> float:
        """Return what share of its norm a gradient may be off for being rounded in float32."""
        gradient, own = self.gradients[name], self._usual_error(name)
        norm = float(gradient.norm().clamp_min(1e-30))
        # A recurrence amplifies what each step rounds. Beyond that, terms cancel.
        most = MOST_ROUNDING * self.average * gradient.numel() ** 0.5 / norm
        most = most if own > MOST_ALLOWANCE else max(most, MOST_ALLOWANCE)
        return min(ALLOWANCE_FACTOR * own, most)


def _place(name: str) -> str:
    """Return the name of a parameter without the numbers of its layer and expert."""
    return re.sub(r"\d+", "", name)


def make_batch(
    vocab: int, lengths: tuple[int, ...] = LENGTHS, seed: int = 0, width: int | None = None
) -> Batch:
    """Return a random batch; every seed gives the same one each time.

    Args:
        vocab: Tokens to draw from.
        lengths: Of the sequences.
        seed: Of the generator.
        width: Numbers that the model gives each token; None for one of each token to draw from.
    """
    generator = torch.Generator().manual_seed(seed)
    total = sum(lengths)
    tokens = torch.randint(0, vocab, (total,), generator=generator)
    # Special tokens have small numbers, and a model may treat one of them apart: all are there.
    tokens[torch.arange(8) * 5] = torch.arange(8)
    # A random gradient of the logits weighs every one of them, as no single loss would.
    cotangent = torch.randn(total, width or vocab, generator=generator) / total
    return Batch(tokens, lengths, cotangent)


def reference(model: Any, batch: Batch) -> Reference:
    """Return logits and gradients of a transformers model, and what they may be off by."""
    first = run_alone(model, batch)
    sizes = [g.numel() for g in first.gradients.values()]
    squares = sum(float(g.square().sum()) for g in first.gradients.values())
    average = (squares / sum(sizes)) ** 0.5
    return Reference(
        first.logits,
        first.gradients,
        average,
        lambda: _second_run(model, batch, first),
        lambda: _double_run(model, batch),
    )


def _second_run(model: Any, batch: Batch, first: Run) -> Run | None:
    """Compute all again with fused attention, or else with weights off by one rounding."""
    try:
        model.set_attn_implementation("sdpa")
        run = run_alone(model, batch)
        if not torch.equal(run.logits, first.logits):
            return run
    except (ValueError, ImportError, NotImplementedError, RuntimeError, TypeError):
        pass  # the model, or this config of it, has no fused attention
    finally:
        model.set_attn_implementation("eager")
    return _rounded_run(model, batch)


def _double_run(model: Any, batch: Batch) -> Run | None:
    """Compute all again in float64; None where a part of the model insists on another type."""
    exact = copy.deepcopy(model).double()
    try:
        if hasattr(exact, "set_experts_implementation"):
            exact.set_experts_implementation("eager")  # the fused ones know no float64
        return run_alone(exact, batch)
    except (ValueError, NotImplementedError, RuntimeError, TypeError):
        return None


def _rounded_run(model: Any, batch: Batch) -> Run:
    """Run a copy each of whose weights is off by about one rounding error."""
    near = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in near.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.mul_(1 + noise * (torch.finfo(torch.float32).eps / 4))
    return run_alone(near, batch)


def run_alone(model: Any, batch: Batch) -> Run:
    """Run a transformers model on each sequence by itself.

    Gradients are summed over the sequences, under the names that `save_pretrained` writes.
    """
    model.zero_grad(set_to_none=True)
    logits: list[Tensor] = []
    for start, end in batch.spans:
        with fresh_state(model):  # a longer sequence changes the frequencies of the next one
            row = token_logits(model, batch.tokens[None, start:end])
        (row * batch.cotangent[start:end].to(row.dtype)).sum().backward()
        logits.append(row.detach())
    return Run(torch.cat(logits), hub_gradients(model))


@contextmanager
def fresh_state(model: nn.Module) -> Iterator[None]:
    """Restore after a block what rotary embeddings remember of the lengths of its sequences."""
    saved = [(m, name, value) for m in model.modules() for name, value in _remembered(m)]
    try:
        yield
    finally:
        for module, name, value in saved:
            setattr(module, name, value)


def _remembered(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, buffer in module._buffers.items():
        if name.endswith("inv_freq") and buffer is not None:
            yield name, buffer
    for name, value in vars(module).items():
        if "seq_len_cached" in name or name.endswith("attention_scaling"):
            yield name, value


def hub_gradients(model: Any) -> dict[str, Tensor]:
    """Return the gradients of a transformers model under their names on the Hub.

    What the loss does not depend on has zeros.
    """
    given = {
        name: torch.zeros_like(p) if p.grad is None else p.grad.detach().clone()
        for name, p in model.named_parameters()
    }
    state = {n: torch.zeros_like(t) for n, t in model.state_dict().items() if n not in given}
    tied = set(model.all_tied_weights_keys) if hasattr(model, "all_tied_weights_keys") else set()
    # A checkpoint leaves tied weights out, and buffers are no gradients.
    state = {n: t for n, t in state.items() if n not in tied}
    names = {n for n, _ in model.named_buffers()}
    found = revert_weight_conversion(model, {**state, **given})
    return {n: t.contiguous() for n, t in found.items() if n not in names}


def replace_weights(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors into a checkpoint, in the place of all that it holds."""
    for path in folder.glob("*.safetensors*"):
        path.unlink()  # nothing of it is left that could be loaded in their place
    # safetensors refuses views, and tensors that share memory.
    copies = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    save_file(copies, folder / "model.safetensors", metadata={"format": "pt"})
