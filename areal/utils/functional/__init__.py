"""The mathematics of the algorithms: pure functions of tensors."""

from areal.utils.functional.aggregation import AGGREGATIONS, aggregate_loss, aggregation_weight
from areal.utils.functional.critic import ppo_critic_loss_fn
from areal.utils.functional.gae import generalized_advantages, turn_advantages
from areal.utils.functional.gates import (
    GATES,
    GatedLoss,
    cispo_gate,
    clip_gate,
    m2_mask,
    sapo_gate,
)
from areal.utils.functional.kl import KL_ESTIMATORS, KLEstimator
from areal.utils.functional.logprobs import (
    gather_logprobs,
    gather_logprobs_entropy,
    head_logprobs_entropy,
)
from areal.utils.functional.normalization import (
    masked_group_mean,
    masked_group_std,
    masked_normalization,
    row_group_ids,
)
from areal.utils.functional.policy import (
    PolicyLossOptions,
    cispo_loss_fn,
    policy_loss,
    ppo_actor_loss_fn,
    sapo_loss_fn,
)
from areal.utils.functional.preference import (
    dpo_logits,
    dpo_pair_logratios,
    dpo_preference_loss,
)
from areal.utils.functional.proximal import approximate_proximal_logprobs, proximal_alpha
from areal.utils.functional.ratio import SequenceLayout, importance_ratio, safe_exp
from areal.utils.functional.rejection import RejectionSamplingResult, apply_rejection_sampling
from areal.utils.functional.reward import overlong_penalty, reward_overlong_penalty

__all__ = [
    "AGGREGATIONS",
    "GATES",
    "KL_ESTIMATORS",
    "GatedLoss",
    "KLEstimator",
    "PolicyLossOptions",
    "RejectionSamplingResult",
    "SequenceLayout",
    "aggregate_loss",
    "aggregation_weight",
    "apply_rejection_sampling",
    "approximate_proximal_logprobs",
    "cispo_gate",
    "cispo_loss_fn",
    "clip_gate",
    "dpo_logits",
    "dpo_pair_logratios",
    "dpo_preference_loss",
    "gather_logprobs",
    "gather_logprobs_entropy",
    "generalized_advantages",
    "head_logprobs_entropy",
    "importance_ratio",
    "m2_mask",
    "masked_group_mean",
    "masked_group_std",
    "masked_normalization",
    "overlong_penalty",
    "policy_loss",
    "ppo_actor_loss_fn",
    "ppo_critic_loss_fn",
    "proximal_alpha",
    "reward_overlong_penalty",
    "row_group_ids",
    "safe_exp",
    "sapo_gate",
    "sapo_loss_fn",
    "turn_advantages",
]
