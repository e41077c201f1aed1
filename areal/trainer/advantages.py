"""From a batch of trajectories to what the policy loss needs: shaped rewards, advantages, returns.

Shapes: B sequences, L columns. A trajectory has for token t with what probability *it* was sampled;
a model has at place t with what probability the *next* token follows. From here on everything is
aligned to the model: ``logprobs``, ``loss_mask`` and ``turn_ids`` are moved one column to the left,
while ``prox_logp``, ``ref_logp`` and ``values`` come from the model and are there already.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch

from areal.api.constants import ProxLogpMethod
from areal.api.registry import import_from_string
from areal.utils.data import Normalization, TensorDict
from areal.utils.functional import (
    KLEstimator,
    generalized_advantages,
    m2_mask,
    overlong_penalty,
    proximal_alpha,
    turn_advantages,
)
from areal.utils.functional.ratio import masked_log_ratio

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from areal.api.cli_args import PPOActorConfig

# What a column holds that no token moves into: the last one, and prompts for turns.
_ALIGNED_KEYS = {"logprobs": 0.0, "turn_ids": -1}


@torch.no_grad()
def compute_advantages(
    batch: TensorDict,
    config: PPOActorConfig,
    *,
    group_sizes: Sequence[int] | None = None,
    current_version: int | None = None,
    eos_token_ids: Collection[int] | None = None,
    kl_in_reward: bool = True,
    reduce_group: ProcessGroup | None = None,
) -> TensorDict:
    """Return a copy of the batch with advantages, aligned to the prediction of the next token.

    The reward of an answer is shaped (penalty for length, bias, scale, clip), normalised, set to 0
    where the answer was cut off and ``mask_no_eos_with_zero`` asks for that, and paid at its last
    sampled token. A KL penalty is paid at every token. Without ``values`` there is no critic.

    Args:
        batch: ``input_ids``, ``attention_mask``, ``loss_mask``, ``logprobs`` [B, L] and ``rewards``
            [B]; where needed ``versions``, ``turn_ids``, ``token_rewards`` (whose sums are the
            rewards), ``prox_logp``, ``ref_logp``, ``values`` [B, L] and ``seq_no_eos_mask`` [B]
            (True = cut off).
        config: How rewards and advantages are made.
        group_sizes: Rows of each group of samples of one prompt, in order; None for groups of the
            ``group_size`` of the normalisations.
        current_version: Version of the weights before the update; needed to approximate the
            proximal policy.
        eos_token_ids: Tokens that end an answer; None takes an answer of ``max_new_tokens`` for one
            that was cut off.
        kl_in_reward: Whether ``config.kl_ctl`` is a penalty in the reward; else it is left to the
            loss.
        reduce_group: Ranks whose values count in batch-level statistics.

    Returns:
        The batch with ``loss_mask`` (bool), ``logprobs`` and ``turn_ids`` moved to the left, and
        ``advantages``, ``returns``, ``kl_rewards``, ``tot_rewards`` [B, L], ``seq_no_eos_mask``
        [B]; ``prox_alpha`` where the proximal policy is approximated and ``m2_mask`` where the
        second moment is bounded.

    Raises:
        ValueError: Groups do not make up the batch, or something needed is missing.
    """
    out = {**batch, **_aligned(batch)}
    mask = out["loss_mask"]
    is_truncated = truncated_rows(batch, config, eos_token_ids)
    rewards = _shaped_rewards(batch, config, group_sizes, reduce_group)
    if config.mask_no_eos_with_zero:
        rewards = torch.where(is_truncated, 0.0, rewards)
    kl_rewards = _kl_rewards(out, config, kl_in_reward)
    tot_rewards = kl_rewards + _paid(rewards, out, config)
    advantages = _estimate(out, tot_rewards, config)
    returns = advantages + torch.where(mask, out["values"], 0.0) if "values" in out else advantages
    if config.adv_norm is not None:
        advantages = Normalization(config.adv_norm)(
            advantages, mask, reduce_group=reduce_group, group_sizes=group_sizes
        )
    out |= {
        "advantages": advantages,
        "returns": returns,
        "kl_rewards": kl_rewards,
        "tot_rewards": tot_rewards,
        "seq_no_eos_mask": is_truncated,
    }
    return out | _proximal_extras(out, config, current_version)


def shift_to_next_token(x: torch.Tensor, fill: float = 0.0) -> torch.Tensor:
    """Move [B, L] one column to the left; the last column gets ``fill``, never the first token."""
    shifted = torch.full_like(x, fill)
    shifted[:, :-1] = x[:, 1:]
    return shifted


def truncated_rows(
    batch: TensorDict, config: PPOActorConfig, eos_token_ids: Collection[int] | None = None
) -> torch.Tensor:
    """Return for each row whether its answer was cut off: bool [B].

    Args:
        batch: Not aligned yet. ``seq_no_eos_mask`` [B] is taken where a workflow knows better.
        config: For ``max_new_tokens``, where no token is known to end an answer.
        eos_token_ids: Tokens that end an answer.
    """
    if "seq_no_eos_mask" in batch:
        return batch["seq_no_eos_mask"].bool()
    sampled = batch["loss_mask"].bool()
    if eos_token_ids is None:
        return sampled.sum(1) >= config.max_new_tokens
    last_token = batch["input_ids"].gather(1, _last_place(sampled)[:, None]).squeeze(1)
    enders = torch.tensor(sorted(eos_token_ids), dtype=last_token.dtype, device=last_token.device)
    return sampled.any(1) & ~torch.isin(last_token, enders)


def _aligned(batch: TensorDict) -> TensorDict:
    aligned = {
        key: shift_to_next_token(batch[key], fill)
        for key, fill in _ALIGNED_KEYS.items()
        if key in batch
    }
    aligned["loss_mask"] = shift_to_next_token(batch["loss_mask"].bool())
    # Prompts carry logprobs 0.0 by convention; whatever they carry must not reach a sum.
    aligned["logprobs"] = torch.where(aligned["loss_mask"], aligned["logprobs"], 0.0)
    return aligned


def _shaped_rewards(
    batch: TensorDict,
    config: PPOActorConfig,
    group_sizes: Sequence[int] | None,
    reduce_group: ProcessGroup | None,
) -> torch.Tensor:
    """Return the reward of each answer [B] as the advantages see it."""
    rewards = batch["rewards"].to(batch["logprobs"].dtype)
    if config.overlong_reward_penalty:
        lengths = batch["loss_mask"].bool().sum(1)
        rewards = rewards + overlong_penalty(
            lengths,
            config.overlong_tokens or 0,
            config.overlong_penalty_factor or 0.0,
            config.max_new_tokens,
        )
    rewards = (rewards + config.reward_bias) * config.reward_scaling
    rewards = rewards.clamp(-config.reward_clip, config.reward_clip)
    if config.reward_norm is None:
        return rewards
    normalize = Normalization(config.reward_norm)
    return normalize(rewards, reduce_group=reduce_group, group_sizes=group_sizes)


def _kl_rewards(batch: TensorDict, config: PPOActorConfig, kl_in_reward: bool) -> torch.Tensor:
    """Return ``-kl_ctl * KL`` per token [B, L]; 0 without a reference model.

    The KL is that of the policy that sampled, which the trainer may recompute instead of taking
    the rollout's word, but not under the decoupled loss: there it computes the proximal policy.
    """
    logprobs, mask = batch["logprobs"], batch["loss_mask"]
    if not kl_in_reward or config.kl_ctl == 0 or "ref_logp" not in batch:
        return torch.zeros_like(logprobs)
    if "prox_logp" in batch and config.recompute_logprob and not config.use_decoupled_loss:
        logprobs = batch["prox_logp"].to(logprobs.dtype)
    kl = KLEstimator(config.kl_estimator)(logprobs, batch["ref_logp"])
    return torch.where(mask, -config.kl_ctl * kl, 0.0)


def _paid(rewards: torch.Tensor, batch: TensorDict, config: PPOActorConfig) -> torch.Tensor:
    """Return what is paid at each token [B, L].

    Rewards of tokens are paid where they were earned, and what shaping makes of their sum at the
    end. A normalised reward compares whole answers, and is paid at the end.
    """
    mask = batch["loss_mask"]
    if "token_rewards" not in batch or config.reward_norm is not None:
        return _paid_at_last_token(rewards, mask)
    earned = torch.where(mask, shift_to_next_token(batch["token_rewards"]), 0.0)
    return earned + _paid_at_last_token(rewards - earned.sum(1), mask)


def _paid_at_last_token(rewards: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    paid = rewards.new_zeros(mask.shape)
    paid.scatter_(1, _last_place(mask)[:, None], rewards[:, None])
    return paid * mask  # a row without a sampled token is paid nothing


def _last_place(mask: torch.Tensor) -> torch.Tensor:
    """Return the column of the last True of each row, 0 where there is none."""
    return (mask * torch.arange(mask.shape[1], device=mask.device)).amax(1)


def _estimate(batch: TensorDict, tot_rewards: torch.Tensor, config: PPOActorConfig) -> torch.Tensor:
    gae_lambda = config.gae_lambda
    if isinstance(gae_lambda, str):
        gae_lambda = import_from_string(gae_lambda)(batch, **config.gae_lambda_kwargs)
    settings = (config.discount, gae_lambda)
    values, mask = batch.get("values"), batch["loss_mask"]
    if config.gae_timestep_unit == "token":
        return generalized_advantages(tot_rewards, values, mask, *settings)
    if "turn_ids" not in batch:
        raise ValueError("gae_timestep_unit 'turn' needs turn_ids; this workflow returns none")
    return turn_advantages(tot_rewards, values, mask, batch["turn_ids"], *settings)


def _proximal_extras(
    batch: TensorDict, config: PPOActorConfig, current_version: int | None
) -> TensorDict:
    """Return what the loss needs besides: weights of the approximation, the second-moment mask."""
    extras: TensorDict = {}
    method = ProxLogpMethod(config.prox_logp_method)
    approximates = method in (ProxLogpMethod.LOGLINEAR, ProxLogpMethod.METRICS)
    if config.use_decoupled_loss and approximates:
        if current_version is None or "versions" not in batch:
            raise ValueError(
                f"prox_logp_method {method.value!r} needs versions in the batch and current_version"
            )
        versions = shift_to_next_token(batch["versions"], -1)
        extras["prox_alpha"] = proximal_alpha(versions, current_version)
    if config.m2_threshold is not None:
        if "prox_logp" not in batch:
            raise ValueError("m2_threshold needs prox_logp; see policy_loss.needs_prox_logp")
        mask = batch["loss_mask"]
        log_ratio = masked_log_ratio(batch["prox_logp"], batch["logprobs"], mask)
        extras["m2_mask"] = m2_mask(log_ratio, batch["advantages"], mask, config.m2_threshold)
    return extras
