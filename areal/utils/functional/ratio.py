"""Importance ratios between policies, per token or per sequence, safe from overflow.

Per-token tensors come packed, [T] with ``cu_seqlens`` [N + 1], or padded, [N, L] without; a
``SequenceLayout`` hides which.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

# exp(20) is 4.9e8: far beyond any ratio that a gate or a filter lets through, and far from the
# largest float32 (e^88), so that products with advantages stay finite.
MAX_ABS_LOG_RATIO = 20.0

LEVELS = ("token", "sequence")


def safe_exp(log_ratio: torch.Tensor) -> torch.Tensor:
    """Return ``exp`` of the log-ratio held within +-20, where its gradient is 0."""
    return log_ratio.clamp(-MAX_ABS_LOG_RATIO, MAX_ABS_LOG_RATIO).exp()


@dataclass(frozen=True)
class SequenceLayout:
    """Knows which tokens belong to which sequence.

    Attributes:
        num_sequences: N.
        ids: Sequence of each packed token, int64 [T]; None for padded tensors [N, L].
    """

    num_sequences: int
    ids: torch.Tensor | None

    @classmethod
    def of(cls, tokens: torch.Tensor, cu_seqlens: torch.Tensor | None = None) -> SequenceLayout:
        """Read the layout of per-token tensors.

        Raises:
            ValueError: A packed tensor comes without offsets, or they do not end at its length.
        """
        if cu_seqlens is None:
            if tokens.ndim != 2:
                raise ValueError(
                    f"need cu_seqlens for packed tokens of shape {tuple(tokens.shape)}; "
                    "without them tokens must be [sequences, length]"
                )
            return cls(tokens.shape[0], None)
        lens = cu_seqlens.diff()
        ids = torch.arange(len(lens), device=tokens.device).repeat_interleave(lens)
        if len(ids) != len(tokens):
            raise ValueError(f"cu_seqlens end at {len(ids)}, but there are {len(tokens)} tokens")
        return cls(len(lens), ids)

    def sum(self, tokens: torch.Tensor) -> torch.Tensor:
        """Sums over each sequence: [N]."""
        if self.ids is None:
            return tokens.sum(1)
        return tokens.new_zeros(self.num_sequences).index_add(0, self.ids, tokens)

    def amax(self, tokens: torch.Tensor, empty: float) -> torch.Tensor:
        """Take the maximum over each sequence: [N]; ``empty`` is a lower bound."""
        if self.ids is None:
            return tokens.amax(1)
        out = tokens.new_full((self.num_sequences,), empty)
        return out.scatter_reduce(0, self.ids, tokens, "amax")

    def spread(self, sequences: torch.Tensor) -> torch.Tensor:
        """Give each token its sequence's value: [T], or [N, 1], which broadcasts."""
        return sequences[:, None] if self.ids is None else sequences[self.ids]


def masked_log_ratio(
    logprobs: torch.Tensor, base: torch.Tensor, loss_mask: torch.Tensor
) -> torch.Tensor:
    """Return ``logprobs - base`` where the mask is, 0 elsewhere, whatever is there."""
    return torch.where(loss_mask, logprobs - base, 0.0)


def importance_ratio(
    logprobs: torch.Tensor,
    base: torch.Tensor,
    loss_mask: torch.Tensor,
    level: str = "token",
    layout: SequenceLayout | None = None,
) -> torch.Tensor:
    """Return the ratio of a policy to another for every token; 1 where the mask is not.

    Args:
        logprobs: Log-probabilities under the numerator, [T] or [N, L].
        base: Log-probabilities under the denominator, same shape.
        loss_mask: True = keep, bool, same shape.
        level: "token"; or "sequence", which gives all tokens of a sequence the geometric mean
            of their ratios.
        layout: Needed at the sequence level.

    Raises:
        ValueError: The level is unknown, or the sequence level comes without a layout.

    Source:
        Sequence level: GSPO (arXiv 2507.18071), equation 7.
    """
    log_ratio = masked_log_ratio(logprobs, base, loss_mask)
    if level == "token":
        return safe_exp(log_ratio)
    if level != "sequence":
        raise ValueError(f"unknown importance_sampling_level {level!r}; known: {', '.join(LEVELS)}")
    if layout is None:
        raise ValueError("importance_sampling_level 'sequence' needs a layout")
    lengths = layout.sum(loss_mask.to(log_ratio.dtype)).clamp(min=1)
    mean = layout.spread(layout.sum(log_ratio) / lengths)
    return safe_exp(torch.where(loss_mask, mean, 0.0))
