"""Algorithms of Trinity-RFT as presets of ours, with the defaults that they have there.

Source:
    ``default_config()`` and ``default_args()`` of the classes of the installed package 0.6.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from areal.api.errors import ConfigError
from areal.api.registry import nearest_names

AGGREGATIONS = {
    "token-mean": "token_mean",
    "seq-mean-token-mean": "sequence_mean",
    "seq-mean-token-sum": "sequence_mean_token_sum",
    "seq-mean-token-sum-norm": "sequence_mean_token_sum_norm",
}
KL_ESTIMATORS = {"k1": "k1", "k2": "k2", "k3": "k3"}
DEFAULT_KL_COEF = 0.001


@dataclass(frozen=True)
class Algorithm:
    """The meaning of an algorithm type.

    Attributes:
        preset: Of ``areal.api.config.presets``.
        advantage_fn: The only one that the preset has.
        policy_loss_fn: The only one that the preset has.
        loss_args: Defaults of the loss: its argument to the value.
        kl_loss_fn: The default penalty.
        repeat_times: The default.
        overrides: Of the preset: dotted key to value.
    """

    preset: str
    advantage_fn: str = "grpo"
    policy_loss_fn: str = "ppo"
    loss_args: Mapping[str, Any] = field(
        default_factory=lambda: {
            "clip_range": 0.2,
            "clip_ratio_c": 3.0,
            "loss_agg_mode": "token-mean",
        }
    )
    kl_loss_fn: str = "k2"
    repeat_times: int = 2
    overrides: Mapping[str, Any] = field(default_factory=dict)


ALGORITHMS: dict[str, Algorithm] = {
    "cispo": Algorithm(
        "cispo",
        policy_loss_fn="cispo",
        loss_args={
            "clip_range_low": 1.0,
            "clip_range_high": 0.28,
            "loss_agg_mode": "token-mean",
        },
    ),
    "dapo": Algorithm("grpo", kl_loss_fn="none", repeat_times=16),
    "dpo": Algorithm("dpo", "", "dpo", {"beta": 0.1}, repeat_times=1),
    "grpo": Algorithm("grpo"),
    "gspo": Algorithm(
        "gspo",
        policy_loss_fn="gspo",
        loss_args={
            "clip_range_low": 3e-4,
            "clip_range_high": 4e-4,
            "loss_agg_mode": "seq-mean-token-mean",
        },
    ),
    "ppo": Algorithm(
        "ppo", "ppo", repeat_times=1, overrides={"actor.gae_lambda": 1.0, "actor.discount": 1.0}
    ),
    "reinforceplusplus": Algorithm("reinforce_pp", "reinforceplusplus"),
    "rloo": Algorithm("rloo", "rloo"),
    "sapo": Algorithm(
        "sapo",
        policy_loss_fn="sapo",
        loss_args={"tau_pos": 1.0, "tau_neg": 1.05, "loss_agg_mode": "token-mean"},
    ),
    "sft": Algorithm(
        "sft", "", "sft", {"loss_agg_mode": "token-mean"}, kl_loss_fn="none", repeat_times=1
    ),
}

# Others of the package, with what comes nearest.
_LACKING = {
    "asymre": "a baseline that is not the group's mean; rloo comes near",
    "cpt": "texts without a prompt; sft trains on answers",
    "gigpo": "advantages of groups of equal states; grpo compares runs",
    "grpo_verl": "verl; grpo is the same algorithm",
    "jsd": "a teacher",
    "mix": "expert rows beside the rollouts",
    "mix_chord": "expert rows beside the rollouts",
    "multi_step_grpo": "advantages that are spread over the steps of a run; grpo compares steps",
    "on_policy_distill": "a teacher",
    "opmd": "the loss of policy mirror descent; rloo comes near",
    "raft": "a filter of the best answers; run.dynamic_filter of areal comes near",
    "rec": "its own loss",
    "sppo": "its own loss",
    "topr": "its own loss",
}

# Arguments of losses: our key. What is not here is refused unless it is neutral.
LOSS_ARGUMENTS = {
    "beta": "actor.beta",
    "clip_range_high": "actor.eps_clip_higher",
    "clip_range_low": "actor.eps_clip",
    "clip_ratio_c": "actor.c_clip",
    "loss_agg_mode": "run.loss_aggregation",
    "tau_neg": "actor.sapo_tau_neg",
    "tau_pos": "actor.sapo_tau_pos",
}
# Takes the place of any value: what it sets is off.
ANY = object()
NEUTRAL_LOSS_ARGUMENTS: dict[str, Any] = {
    "delta_sequence_masking": ANY,
    "enable_mask_clip": False,
    "enable_sequence_masking": False,
    "fallback_to_policy_gradient": False,
    "label_smoothing": 0.0,
    "mask_clip_range_high": ANY,
    "mask_clip_range_low": ANY,
}
ADVANTAGE_ARGUMENTS = {
    "epsilon": "actor.reward_norm.eps",
    "gamma": "actor.discount",
    "lam": "actor.gae_lambda",
    "std_cal_level": "actor.reward_norm.std_level",
}
NEUTRAL_ADVANTAGE_ARGUMENTS: dict[str, Any] = {
    "duplicate_experiences": False,
    "rank_penalty": None,
    "std_threshold": None,
}


def find_algorithm(name: str) -> Algorithm:
    """Return the meaning of an algorithm type.

    Raises:
        ConfigError: We have no such algorithm; the message names what it needs.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if name in _LACKING:
        raise ConfigError(
            f"algorithm.algorithm_type {name} needs {_LACKING[name]}; areal has "
            f"{', '.join(sorted(ALGORITHMS))}"
        )
    raise ConfigError(
        f"unknown algorithm.algorithm_type {name!r}{nearest_names(name, {*ALGORITHMS, *_LACKING})}"
    )
