"""From the actor's configuration to the loss that a train engine minimises.

Tensors in a loss function are packed, [T] tokens of several sequences with ``cu_seqlens``, and
aligned to the prediction of the next token (see ``advantages``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from areal.api.constants import ProxApproxMethod, ProxLogpMethod
from areal.trainer.ppo.stats import Gather, TokenStatistics
from areal.utils.data import TensorDict
from areal.utils.functional import (
    PolicyLossOptions,
    aggregation_weight,
    approximate_proximal_logprobs,
    policy_loss,
)

if TYPE_CHECKING:
    from areal.api.cli_args import PPOActorConfig, RunConfig

logger = logging.getLogger("PolicyLoss")

# Per-token statistics under the names that they are reported by, where these differ.
_RENAMED = {
    "clip_mask": "clip_ratio",
    "dual_clip_mask": "dual_clip_ratio",
    "m2_mask": "m2_kept_ratio",
    "loss": "token_loss",
    "mean_loss": "actor_loss",
}
_WITH_MAXIMUM = ("importance_weight", "logp_abs_diff")

LossWeightFn = Callable[[TensorDict], torch.Tensor]


def needs_prox_logp(actor: PPOActorConfig) -> bool:
    """Return whether the trainer has to run the model over the batch before the update.

    Its next-token log-probabilities [B, L] go into the batch as ``prox_logp`` before advantages
    are computed.
    """
    return actor.should_compute_prox_logp() or actor.m2_threshold is not None


def policy_loss_options(
    actor: PPOActorConfig, run: RunConfig, max_new_tokens: int | None = None
) -> PolicyLossOptions:
    """Translate the configuration into the options of the policy loss.

    Args:
        actor: Gate, ratio level, filter.
        run: Aggregation, and where the KL penalty goes.
        max_new_tokens: Longest answer, which norms "sequence_mean_token_sum_norm" unless
            ``run.loss_norm_length`` does; None takes the actor's.
    """
    gate = "sapo" if actor.use_sapo_loss else "cispo" if actor.use_cispo_loss else "clip"
    return PolicyLossOptions(
        gate=gate,
        eps_clip=actor.eps_clip,
        eps_clip_higher=actor.eps_clip_higher,
        c_clip=actor.c_clip,
        sapo_tau_pos=actor.sapo_tau_pos,
        sapo_tau_neg=actor.sapo_tau_neg,
        importance_sampling_level=actor.importance_sampling_level,
        rejection_sampling=actor.rejection_sampling,
        aggregation=run.loss_aggregation,
        norm_length=run.loss_norm_length or max_new_tokens or actor.max_new_tokens,
        kl_coef=actor.kl_ctl if run.kl_placement == "loss" else 0.0,
        kl_estimator=actor.kl_estimator,
    )


def build_policy_loss(
    actor: PPOActorConfig, run: RunConfig, max_new_tokens: int | None = None
) -> tuple[PolicyLoss, LossWeightFn]:
    """Make the two functions that ``TrainEngine.train_batch`` takes.

    Args:
        actor: The actor's configuration.
        run: The block ``run`` of the configuration.
        max_new_tokens: Longest answer in tokens; None takes the actor's.

    Returns:
        ``loss_fn(logprobs, entropy, input_data)`` and ``loss_weight_fn(input_data)``. The first
        collects statistics; take them with ``pop_stats``.
    """
    options = policy_loss_options(actor, run, max_new_tokens)
    if actor.rejection_sampling is not None and not actor.use_decoupled_loss:
        logger.warning("rejection_sampling has no effect without use_decoupled_loss")
    loss_fn = PolicyLoss(
        options,
        ProxLogpMethod(actor.prox_logp_method),
        actor.use_decoupled_loss,
        actor.recompute_logprob,
    )
    return loss_fn, loss_fn.weight


class PolicyLoss:
    """Computes the policy loss of micro-batches and adds up what there is to report about them."""

    def __init__(
        self,
        options: PolicyLossOptions,
        prox_logp_method: ProxLogpMethod,
        use_decoupled_loss: bool = False,
        recompute_logprob: bool = False,
    ) -> None:
        self.options = options
        self.prox_logp_method = prox_logp_method
        self.use_decoupled_loss = use_decoupled_loss
        self.recompute_logprob = recompute_logprob
        self._statistics = TokenStatistics(_WITH_MAXIMUM)

    def __call__(
        self,
        logprobs: torch.Tensor,
        entropy: torch.Tensor | None,
        input_data: TensorDict,
    ) -> torch.Tensor:
        """Return the 0-dim loss, a mean over the unit that ``weight`` counts.

        Args:
            logprobs: Of the next tokens, with gradient, [T].
            entropy: Of the next-token distributions, or None; reported only.
            input_data: The packed micro-batch that ``compute_advantages`` prepared.

        Raises:
            ValueError: The micro-batch lacks something that the options need.
        """
        proximal, old = self._reference_logprobs(logprobs, input_data)
        keep_mask = input_data.get("m2_mask")
        loss, stats = policy_loss(
            logprobs,
            proximal,
            old,
            input_data["advantages"],
            input_data["loss_mask"],
            self.options,
            cu_seqlens=input_data.get("cu_seqlens"),
            keep_mask=keep_mask,
            ref_logprobs=_require(input_data, "ref_logp") if self.options.kl_coef else None,
        )
        with torch.no_grad():
            stats |= self._extra_stats(logprobs, entropy, input_data)
            weight = self.weight(input_data)
            self._statistics.note(loss, weight, stats, input_data["loss_mask"])
        return loss

    def weight(self, input_data: TensorDict) -> torch.Tensor:
        """Return how much a micro-batch counts: its kept tokens, or sequences that have any."""
        return aggregation_weight(
            input_data["loss_mask"], self.options.aggregation, input_data.get("cu_seqlens")
        )

    def pop_stats(
        self, gather: Gather | None = None, keep: bool = False
    ) -> dict[str, torch.Tensor]:
        """Return the statistics of the micro-batches since the last call, as 0-dim tensors.

        Args:
            gather: Returns what the processes with other rows collected, in the one that reports,
                and None in the others; None reports what this process collected.
            keep: Whether these micro-batches count in the next call, too.

        Names say what is averaged over kept tokens, ``*_max`` is the largest, ``actor_loss`` is the
        loss of the whole, ``n_valid_tokens`` counts kept tokens. ``logp_abs_diff`` compares with
        the policy that sampled: in the first update on fresh samples it is the drift between
        trainer and rollout engine. Nothing collected gives an empty dict.
        """
        found = self._statistics.pop(gather, keep)
        found.pop("n_tokens", None)  # batch_statistics counts them
        return {_RENAMED.get(name, name): value for name, value in found.items()}

    def _reference_logprobs(
        self, logprobs: torch.Tensor, input_data: TensorDict
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return proximal and behaviour log-probabilities; the same tensor means no correction."""
        behaviour = input_data["logprobs"]
        if not self.use_decoupled_loss:
            proximal = _require(input_data, "prox_logp") if self.recompute_logprob else behaviour
            return proximal, proximal
        if self.prox_logp_method is ProxLogpMethod.REUSE_TRAIN_LOGP:
            return logprobs.detach(), behaviour
        if self.prox_logp_method is ProxLogpMethod.LOGLINEAR:
            alpha = _require(input_data, "prox_alpha")
            return approximate_proximal_logprobs(logprobs, behaviour, alpha), behaviour
        return _require(input_data, "prox_logp"), behaviour

    def _extra_stats(
        self, logprobs: torch.Tensor, entropy: torch.Tensor | None, input_data: TensorDict
    ) -> dict[str, torch.Tensor]:
        behaviour = input_data["logprobs"]
        stats = {
            "new_logp": logprobs,
            "old_logp": behaviour,
            "logp_abs_diff": (logprobs - behaviour).abs(),
            "advantages": input_data["advantages"],
        }
        if entropy is not None:
            stats["entropy"] = entropy
        if "m2_mask" in input_data:
            stats["m2_mask"] = input_data["m2_mask"]
        if self.use_decoupled_loss and self.prox_logp_method is ProxLogpMethod.METRICS:
            alpha, truth = input_data["prox_alpha"], input_data["prox_logp"]
            for method in ProxApproxMethod:
                guess = approximate_proximal_logprobs(logprobs, behaviour, alpha, method.value)
                stats[f"prox_{method.value}_abs_error"] = (guess - truth).abs()
        return stats


def _require(input_data: TensorDict, key: str) -> torch.Tensor:
    if key not in input_data:
        raise ValueError(
            f"the loss needs {key!r}, which the batch lacks: found {sorted(input_data)}"
        )
    return input_data[key]
