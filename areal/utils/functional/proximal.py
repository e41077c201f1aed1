"""Approximations of the proximal policy's log-probabilities, which spare a forward pass.

The proximal policy is the one before the update. Its log-probability of a token lies between that
of the (older) behaviour policy and that of the policy in training, and is taken to lie at the place
that the versions of the weights have between them.
"""

from __future__ import annotations

import torch

METHODS = ("linear", "loglinear", "rollout")


@torch.no_grad()
def proximal_alpha(versions: torch.Tensor, proximal_version: int) -> torch.Tensor:
    """Return how far the proximal policy lies on the way from behaviour to trained policy.

    It is ``d / (d + 1)`` for a token that is ``d`` versions older than the proximal policy: 0 for a
    token sampled by it, and also where there is no version (-1) or a newer one.

    Args:
        versions: Version of the weights that sampled each token.
        proximal_version: Version of the weights before the update; training makes the next one.

    Source:
        A-3PO (arXiv 2512.06547): weight 1 / d for the behaviour policy, d counted from the version
        in training.
    """
    staleness = torch.where(versions >= 0, proximal_version - versions, 0).clamp(min=0).float()
    return staleness / (staleness + 1.0)


@torch.no_grad()
def approximate_proximal_logprobs(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    alpha: torch.Tensor,
    method: str = "loglinear",
) -> torch.Tensor:
    """Return approximate log-probabilities under the proximal policy.

    Args:
        logprobs: Under the policy in training.
        old_logprobs: Under the behaviour policy.
        alpha: Of ``proximal_alpha``, same shape.
        method: "loglinear" interpolates log-probabilities, "linear" probabilities; "rollout" takes
            the behaviour policy itself.

    Raises:
        ValueError: The method is unknown.
    """
    if method == "loglinear":
        return torch.lerp(old_logprobs, logprobs, alpha.to(logprobs.dtype))
    if method == "linear":
        alpha = alpha.to(logprobs.dtype)
        return torch.logaddexp(old_logprobs + (1 - alpha).log(), logprobs + alpha.log())
    if method == "rollout":
        return old_logprobs.clone()
    raise ValueError(f"unknown approximation {method!r}; known: {', '.join(METHODS)}")
