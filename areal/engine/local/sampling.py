"""Next tokens and their log-probabilities from logits, for rows that each sample in their own way.

Shape letters: R rows, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from areal.api.cli_args import GenerationHyperparameters
from areal.api.errors import ConfigError


def check_generation(gconfig: GenerationHyperparameters) -> None:
    """Refuse sampling options that the embedded engine cannot keep.

    Raises:
        ConfigError: An option is out of range or not supported here.
    """
    problems = [
        (gconfig.use_beam_search, "use_beam_search is not available in the embedded engine"),
        (
            not gconfig.greedy and not SMALLEST <= gconfig.temperature < math.inf,
            f"temperature must be at least {SMALLEST:g}; set greedy=true instead of 0",
        ),
        (
            not SMALLEST <= gconfig.top_p <= 1,
            f"top_p is {gconfig.top_p}; it must lie in [{SMALLEST:g}, 1]",
        ),
        (
            gconfig.top_k < 1 and gconfig.top_k != -1,
            f"top_k is {gconfig.top_k}; it must be at least 1, or -1 for all",
        ),
        (
            gconfig.max_new_tokens < 1,
            f"max_new_tokens is {gconfig.max_new_tokens}; it must be at least 1",
        ),
        (
            gconfig.seed is not None and not 0 <= gconfig.seed < 2**63,
            f"seed is {gconfig.seed}; it must not be negative, and fit into 63 bits",
        ),
        (
            not abs(gconfig.frequency_penalty) <= LARGEST_PENALTY,
            f"frequency_penalty is {gconfig.frequency_penalty}; it must lie within "
            f"{LARGEST_PENALTY:g} of 0",
        ),
        (
            not all(type(i) is int and 0 <= i < 2**63 for i in gconfig.stop_token_ids),
            f"stop_token_ids is {gconfig.stop_token_ids!r:.200}; it must be a list of token ids",
        ),
        (
            not all(isinstance(each, str) for each in gconfig.stop or ()),
            f"stop is {gconfig.stop!r:.200}; it must be a list of strings",
        ),
        (isinstance(gconfig.stop, str), f"stop is {gconfig.stop!r}; it must be a list of strings"),
        (
            "" in list(gconfig.stop or ()),
            "stop contains an empty string, which every answer contains",
        ),
    ]
    for is_bad, message in problems:
        if is_bad:
            raise ConfigError(message)


# Below these a distribution in fp32 has no mass left, and a step of all rows would fail.
SMALLEST = 1e-5
LARGEST_PENALTY = 1e4


@dataclass
class SamplingBatch:
    """The sampling options of all running rows as tensors; rebuilt when rows come or go.

    An option that no row uses is None, so that a plain batch pays for nothing.
    """

    temperature_R1: Tensor | None
    greedy_R: Tensor | None
    top_k_R1: Tensor | None
    top_p_R1: Tensor | None

    @classmethod
    def of(
        cls, gconfigs: list[GenerationHyperparameters], vocab_size: int, device: torch.device
    ) -> SamplingBatch:
        """Collect the options of rows in their order."""

        def column(values: list[float], plain: float) -> Tensor | None:
            if all(value == plain for value in values):
                return None
            return torch.tensor(values, device=device)[:, None]

        top_k = [vocab_size if g.top_k == -1 else min(g.top_k, vocab_size) for g in gconfigs]
        greedy = [g.greedy for g in gconfigs]
        return cls(
            temperature_R1=column(
                [1.0 if g.greedy else float(g.temperature) for g in gconfigs], 1.0
            ),
            greedy_R=torch.tensor(greedy, device=device) if any(greedy) else None,
            top_k_R1=column(top_k, vocab_size),
            top_p_R1=column([float(g.top_p) for g in gconfigs], 1.0),
        )

    def of_rows(self, rows: slice | Tensor) -> SamplingBatch:
        """Return the options of some rows."""
        return SamplingBatch(*(x if x is None else x[rows] for x in vars(self).values()))


def sample_tokens(
    logits_RV: Tensor, options: SamplingBatch, uniforms_R: Tensor, adjusted_RV: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Draw one token a row by inverting the cumulative distribution.

    One uniform number a row decides, so a row whose numbers come from its own stream samples the
    same whatever else is in the batch.

    Args:
        logits_RV: Raw logits, any float type.
        uniforms_R: Numbers in [0, 1), fp32.
        adjusted_RV: Logits to draw from where they differ from the raw ones (penalties, stop tokens
            that come too early).

    Returns:
        Tokens [R] (int64) and their log-softmax(logits / temperature) over the whole vocabulary [R]
        (fp32); truncation and penalties change what is drawn, never the log-probability that is
        reported.
    """
    raw_RV = logits_RV.float()
    scaled_RV = raw_RV if options.temperature_R1 is None else raw_RV / options.temperature_R1
    logprobs_RV = scaled_RV.log_softmax(-1)
    drawn_RV = logprobs_RV
    if adjusted_RV is not None:
        drawn_RV = adjusted_RV.float()
        if options.temperature_R1 is not None:
            drawn_RV = drawn_RV / options.temperature_R1
        drawn_RV = drawn_RV.log_softmax(-1)
    weights_RV = drawn_RV.exp()
    if options.top_k_R1 is not None or options.top_p_R1 is not None:
        weights_RV = _truncate(weights_RV, options)
    tokens_R = _invert(weights_RV, uniforms_R)
    if options.greedy_R is not None:
        tokens_R = torch.where(options.greedy_R, drawn_RV.argmax(-1), tokens_R)
    return tokens_R, logprobs_RV.gather(-1, tokens_R[:, None]).squeeze(-1)


def _invert(weights_RV: Tensor, uniforms_R: Tensor) -> Tensor:
    """Return for each row the first token whose cumulative weight passes a share of the total."""
    cumulative_RV = weights_RV.cumsum(-1)
    total_R1 = cumulative_RV[:, -1:]
    # The product may round up to the total, which no token passes; some token passes the float
    # below.
    below_R1 = torch.nextafter(total_R1, torch.zeros_like(total_R1))
    target_R1 = torch.minimum(uniforms_R[:, None] * total_R1, below_R1)
    tokens_R = torch.searchsorted(cumulative_RV, target_R1, right=True).squeeze(-1)
    # Weights of NaN pass nothing; the log-probability of whatever token shows it.
    return tokens_R.clamp_(max=weights_RV.shape[-1] - 1)


def _truncate(weights_RV: Tensor, options: SamplingBatch) -> Tensor:
    """Zero what top-k and top-p leave out; the most likely token always stays."""
    sorted_RV, order_RV = weights_RV.sort(dim=-1, descending=True, stable=True)
    rank_V = torch.arange(weights_RV.shape[-1], device=weights_RV.device)
    keep_RV = torch.ones_like(sorted_RV, dtype=torch.bool)
    if options.top_k_R1 is not None:
        keep_RV &= rank_V < options.top_k_R1
    if options.top_p_R1 is not None:
        kept_RV = sorted_RV * keep_RV
        before_RV = kept_RV.cumsum(-1) - kept_RV
        keep_RV &= before_RV < options.top_p_R1 * kept_RV.sum(-1, keepdim=True)
    return weights_RV * torch.zeros_like(keep_RV).scatter(-1, order_RV, keep_RV)
