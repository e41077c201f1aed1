"""Log-probabilities and entropies from logits, in chunks and without keeping a softmax.

Shapes: T tokens, V vocabulary. A plain ``log_softmax`` would keep a [T, V] tensor in float32 for
the backward pass; here that pass computes the softmax again from the logits, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

DEFAULT_CHUNK_SIZE = 1024


def gather_logprobs(
    logits: torch.Tensor,
    labels: torch.Tensor,
    temperature: float = 1.0,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> torch.Tensor:
    """Return the log-probabilities of the labels under ``softmax(logits / temperature)``.

    Args:
        logits: [..., V], any floating type.
        labels: Token ids [...], 0 <= id < V.
        temperature: Positive.
        chunk_size: Tokens whose probabilities are in memory at once.

    Returns:
        [...] in float32 (float64 for float64 logits), differentiable.
    """
    return _gather(logits, labels, temperature, chunk_size, with_entropy=False)[0]


def gather_logprobs_entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    temperature: float = 1.0,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what ``gather_logprobs`` does, and the entropy (in nats) of each distribution."""
    logprobs, entropy = _gather(logits, labels, temperature, chunk_size, with_entropy=True)
    assert entropy is not None
    return logprobs, entropy


def _gather(
    logits: torch.Tensor,
    labels: torch.Tensor,
    temperature: float,
    chunk_size: int,
    with_entropy: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    shape = logits.shape[:-1]
    if labels.shape != shape:
        raise ValueError(f"labels {tuple(labels.shape)} do not fit logits {tuple(logits.shape)}")
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, found {temperature}")
    logprobs, entropy = _GatherLogprobs.apply(
        logits.reshape(-1, logits.shape[-1]),
        labels.reshape(-1).long(),
        temperature,
        chunk_size,
        with_entropy,
    )
    return logprobs.view(shape), entropy.view(shape) if with_entropy else None


def head_logprobs_entropy(
    hidden: torch.Tensor,
    head: Callable[[torch.Tensor], torch.Tensor],
    parameters: Sequence[torch.Tensor],
    labels: torch.Tensor,
    temperature: float = 1.0,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what ``gather_logprobs_entropy`` does of a head's logits, of which few ever exist.

    Forward and backward compute the logits of ``chunk_size`` tokens at a time. Gradients of the
    head's parameters are summed in float32 at least.

    Args:
        hidden: [T, D] what the head takes.
        head: Gives logits [t, V] of hidden states [t, D], each by its own.
        parameters: What it reads and gradients are wanted of.
        labels: Token ids [T], 0 <= id < V.
        temperature: Positive.
        chunk_size: Tokens whose logits are in memory at once.
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, found {temperature}")
    return _HeadLogprobs.apply(hidden, head, labels, temperature, chunk_size, *parameters)


class _HeadLogprobs(torch.autograd.Function):
    """Saves the hidden states and one log-normaliser per token; logits are made again."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_TD: torch.Tensor,
        head: Callable[[torch.Tensor], torch.Tensor],
        labels_T: torch.Tensor,
        temperature: float,
        chunk_size: int,
        *parameters: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [
            _gathered(head(hidden), labels, temperature)
            for hidden, labels in zip(
                hidden_TD.split(chunk_size), labels_T.split(chunk_size), strict=True
            )
        ]
        logprobs_T, normaliser_T, entropy_T = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.save_for_backward(hidden_TD, labels_T, normaliser_T, entropy_T, *parameters)
        ctx.head, ctx.temperature, ctx.chunk_size = head, temperature, chunk_size
        ctx.set_materialize_grads(False)
        return logprobs_T, entropy_T

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad_logprobs_T: torch.Tensor | None, grad_entropy_T: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        hidden_TD, labels_T, normaliser_T, entropy_T, *parameters = ctx.saved_tensors
        none = (None,) * (5 + len(parameters))
        if grad_logprobs_T is None and grad_entropy_T is None:
            return none
        wanted = [p for p in parameters if p.requires_grad]
        sums = [torch.zeros(p.shape, dtype=_wide_dtype(p), device=p.device) for p in wanted]
        grad_TD = torch.empty_like(hidden_TD)
        for start in range(0, len(hidden_TD), ctx.chunk_size):
            part = slice(start, start + ctx.chunk_size)
            hidden = hidden_TD[part].detach().requires_grad_()
            with torch.enable_grad():
                logits = ctx.head(hidden)
            grad = _grad_logits(
                _scaled(logits.detach(), ctx.temperature) - normaliser_T[part, None],
                labels_T[part],
                entropy_T[part],
                None if grad_logprobs_T is None else grad_logprobs_T[part],
                None if grad_entropy_T is None else grad_entropy_T[part],
            )
            grad = grad.div_(ctx.temperature).to(logits.dtype)
            grad_TD[part], *found = torch.autograd.grad(logits, [hidden, *wanted], grad)
            for total, each in zip(sums, found, strict=True):
                total.add_(each)
        each = iter(sums)
        return (
            grad_TD,
            *none[:4],
            *(next(each).to(p.dtype) if p.requires_grad else None for p in parameters),
        )


def _wide_dtype(tensor: torch.Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def _gathered(
    logits: torch.Tensor, labels: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return log-probabilities, log-normalisers and entropies [t] of logits [t, V]."""
    scaled = _scaled(logits, temperature)
    normaliser = scaled.logsumexp(-1)
    logprobs = scaled.gather(1, labels[:, None]).squeeze(1) - normaliser
    return logprobs, normaliser, _entropy(scaled, normaliser)


def _grad_logits(
    logp: torch.Tensor,
    labels: torch.Tensor,
    entropy: torch.Tensor | None,
    grad_logprobs: torch.Tensor | None,
    grad_entropy: torch.Tensor | None,
) -> torch.Tensor:
    """Return the gradient of scaled logits [t, V], given their log-probabilities."""
    p = logp.exp()
    grad = torch.zeros_like(p)
    if grad_entropy is not None:
        assert entropy is not None
        # dH/dz_j = -p_j (log p_j + H); logits of -inf have p = 0 and no gradient.
        tilt = torch.where(p > 0, logp + entropy[:, None], 0.0)
        grad = grad - p * tilt * grad_entropy[:, None]
    if grad_logprobs is not None:
        g, index = grad_logprobs[:, None], labels[:, None]
        grad = grad - p * g
        grad.scatter_(1, index, grad.gather(1, index) + g)
    return grad


class _GatherLogprobs(torch.autograd.Function):
    """Saves the logits and one log-normaliser per token; everything else is made again."""

    @staticmethod
    def forward(
        ctx: Any,
        logits_TV: torch.Tensor,
        labels_T: torch.Tensor,
        temperature: float,
        chunk_size: int,
        with_entropy: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        logprobs, normalisers, entropies = [], [], []
        for logits, labels in zip(
            logits_TV.split(chunk_size), labels_T.split(chunk_size), strict=True
        ):
            scaled = _scaled(logits, temperature)
            normaliser = scaled.logsumexp(-1)
            logprobs.append(scaled.gather(1, labels[:, None]).squeeze(1) - normaliser)
            normalisers.append(normaliser)
            if with_entropy:
                entropies.append(_entropy(scaled, normaliser))
        normaliser_T = torch.cat(normalisers)
        entropy_T = torch.cat(entropies) if with_entropy else None
        ctx.save_for_backward(logits_TV, labels_T, normaliser_T, entropy_T)
        ctx.temperature, ctx.chunk_size = temperature, chunk_size
        ctx.set_materialize_grads(False)
        return torch.cat(logprobs), entropy_T

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad_logprobs_T: torch.Tensor | None, grad_entropy_T: torch.Tensor | None = None
    ) -> tuple[torch.Tensor | None, ...]:
        logits_TV, labels_T, normaliser_T, entropy_T = ctx.saved_tensors
        if grad_logprobs_T is None and grad_entropy_T is None:
            return None, None, None, None, None
        grad_TV = torch.empty_like(logits_TV)
        for start in range(0, len(logits_TV), ctx.chunk_size):
            part = slice(start, start + ctx.chunk_size)
            grad = _grad_logits(
                _scaled(logits_TV[part], ctx.temperature) - normaliser_T[part, None],
                labels_T[part],
                None if entropy_T is None else entropy_T[part],
                None if grad_logprobs_T is None else grad_logprobs_T[part],
                None if grad_entropy_T is None else grad_entropy_T[part],
            )
            grad_TV[part] = grad.div_(ctx.temperature)
        return grad_TV, None, None, None, None


def _scaled(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return wide if temperature == 1.0 else wide / temperature


def _entropy(scaled: torch.Tensor, normaliser: torch.Tensor) -> torch.Tensor:
    p = (scaled - normaliser[:, None]).exp()
    # 0 * -inf would be NaN for logits that a sampler has masked out.
    return normaliser - torch.where(p > 0, p * scaled, 0.0).sum(-1)
