"""Log-probabilities and entropies from logits, in chunks and without keeping a softmax.

Shapes: T tokens, V vocabulary. A plain ``log_softmax`` would keep a [T, V] tensor in float32 for
the backward pass; here that pass computes the softmax again from the logits, chunk by chunk.
"""

from __future__ import annotations

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
        chunk_size: Tokens whose probabilities stand in memory at once.

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
            logp = _scaled(logits_TV[part], ctx.temperature) - normaliser_T[part, None]
            p = logp.exp()
            grad = torch.zeros_like(p)
            if grad_entropy_T is not None:
                # dH/dz_j = -p_j (log p_j + H); logits of -inf have p = 0 and no gradient.
                tilt = torch.where(p > 0, logp + entropy_T[part, None], 0.0)
                grad = grad - p * tilt * grad_entropy_T[part, None]
            if grad_logprobs_T is not None:
                g, index = grad_logprobs_T[part, None], labels_T[part, None]
                grad = grad - p * g
                grad.scatter_(1, index, grad.gather(1, index) + g)
            grad_TV[part] = grad.div_(ctx.temperature)
        return grad_TV, None, None, None, None


def _scaled(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return wide if temperature == 1.0 else wide / temperature


def _entropy(scaled: torch.Tensor, normaliser: torch.Tensor) -> torch.Tensor:
    p = (scaled - normaliser[:, None]).exp()
    # 0 * -inf would be NaN for logits that a sampler has masked out.
    return normaliser - torch.where(p > 0, p * scaled, 0.0).sum(-1)
