"""Estimates of the KL divergence from log-probabilities of sampled tokens."""

from __future__ import annotations

import torch

from areal.utils.functional.ratio import safe_exp

KL_ESTIMATORS = ("k1", "k2", "k3")


class KLEstimator:
    """Estimates KL(policy || reference) per token from log-probabilities of sampled tokens.

    "k1" is unbiased and may be negative, "k2" is half the squared log-ratio, "k3" is unbiased and
    never negative.

    Args:
        kl_estimator: "k1", "k2" or "k3".
        apply_clamp: Hold the log-ratio within +-20 where it goes through ``exp``, so that "k3"
            stays finite.

    Source:
        Schulman, "Approximating KL Divergence" (2020), http://joschu.net/blog/kl-approx.html.
    """

    def __init__(self, kl_estimator: str = "k1", apply_clamp: bool = True) -> None:
        if kl_estimator not in KL_ESTIMATORS:
            raise ValueError(
                f"unknown kl_estimator {kl_estimator!r}; known: {', '.join(KL_ESTIMATORS)}"
            )
        self.kl_estimator = kl_estimator
        self.apply_clamp = apply_clamp

    def __call__(
        self, log_probs: torch.Tensor, log_probs_base: torch.Tensor | float
    ) -> torch.Tensor:
        """Return the estimate for tokens sampled from the policy, same shape, differentiable."""
        log_ratio = log_probs - log_probs_base
        if self.kl_estimator == "k1":
            return log_ratio
        if self.kl_estimator == "k2":
            return 0.5 * log_ratio.square()
        inverse = safe_exp(-log_ratio) if self.apply_clamp else (-log_ratio).exp()
        return inverse - 1 + log_ratio
