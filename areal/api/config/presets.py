"""Algorithms as configuration: what each published one sets in the common policy loss.

``run.algorithm`` chooses a row. Its values lie between the dataclass defaults and the YAML file: a
key that the file or the command line sets wins. Without ``run.algorithm`` nothing is preset.

No preset asks for a reference model: where a paper adds a Kullback-Leibler penalty, set
``actor.kl_ctl`` and ``ref``. An infinite bound, and a lower one of 1 - 1 = 0, clip nothing.

Source:
    grpo: Shao et al. 2024, arXiv:2402.03300, eq. 3.
    dr_grpo: Liu et al. 2025, arXiv:2503.20783: no division by the deviation or the answer's length.
    dapo: Yu et al. 2025, arXiv:2503.14476, eq. 8: bounds 0.2 and 0.28, mean over tokens, no group
        without variance. Its overlong penalty is off until ``actor.overlong_*`` are set.
    gspo: Zheng et al. 2025, arXiv:2507.18071: sequence ratio, bounds 3e-4 and 4e-4.
    rloo: Ahmadian et al. 2024, arXiv:2402.14740: the other samples' mean is the baseline.
    ppo: Schulman et al. 2017, arXiv:1707.06347, eq. 7 and 11, table 3: bound 0.2, lambda 0.95;
        values clipped by as much, as in its reference code.
    reinforce: Williams 1992, Machine Learning 8.
    reinforce_pp: Hu 2025, arXiv:2501.03262: advantages normalised over the whole batch.
    lite_ppo: Liu et al. 2025, arXiv:2508.08221: mean of the group, deviation of the batch.
    cispo: MiniMax 2025, arXiv:2506.13585; weights up to 5 as in Khatri et al. 2025,
        arXiv:2510.13786.
    sapo: Gao et al. 2025, arXiv:2511.20347: temperatures 1.0 and 1.05.
    m2po: Zheng et al. 2025, arXiv:2510.01161: second-moment threshold 0.04, no ratio clip.
    decoupled_ppo: Hilton et al. 2021, arXiv:2110.00641; without critic as in Fu et al. 2025,
        arXiv:2505.24298.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from areal.api.errors import ConfigError
from areal.api.registry import nearest_names

_REFERENCE_FREE = {"actor.kl_ctl": 0.0}
_GROUP = {
    **_REFERENCE_FREE,
    "gconfig.n_samples": 8,
    "actor.reward_norm.group_size": "${gconfig.n_samples}",
    "actor.reward_norm.mean_level": "group",
}
_GROUP_MEAN = {**_GROUP, "actor.reward_norm.std_level": None}
_GROUP_MEAN_STD = {**_GROUP, "actor.reward_norm.std_level": "group"}
_BATCH_ADVANTAGES = {"actor.adv_norm.mean_level": "batch", "actor.adv_norm.std_level": "batch"}
_NO_CLIP = {"actor.eps_clip": 1.0, "actor.eps_clip_higher": math.inf}
_ONE_UPDATE = {"actor.ppo_n_minibatches": 1}

PRESETS: dict[str, dict[str, Any]] = {
    "cispo": {
        **_GROUP_MEAN_STD,
        "actor.eps_clip": 1.0,
        "actor.eps_clip_higher": 4.0,
        "actor.use_cispo_loss": True,
        "run.loss_aggregation": "token_mean",
    },
    "dapo": {
        **_GROUP_MEAN_STD,
        "actor.eps_clip": 0.2,
        "actor.eps_clip_higher": 0.28,
        "run.dynamic_filter": "areal.trainer.filters:has_reward_variance",
        "run.loss_aggregation": "token_mean",
    },
    "decoupled_ppo": {
        **_REFERENCE_FREE,
        **_BATCH_ADVANTAGES,
        "actor.eps_clip": 0.2,
        "actor.recompute_logprob": True,
        "actor.use_decoupled_loss": True,
        "run.loss_aggregation": "token_mean",
    },
    "dpo": {},
    "dr_grpo": {
        **_GROUP_MEAN,
        "actor.eps_clip": 0.2,
        "run.loss_aggregation": "sequence_mean_token_sum_norm",
    },
    "grpo": {
        **_GROUP_MEAN_STD,
        "actor.eps_clip": 0.2,
        "actor.kl_estimator": "k3",
        "run.kl_placement": "loss",
        "run.loss_aggregation": "sequence_mean",
    },
    "gspo": {
        **_GROUP_MEAN_STD,
        "actor.eps_clip": 3e-4,
        "actor.eps_clip_higher": 4e-4,
        "actor.importance_sampling_level": "sequence",
        "run.loss_aggregation": "sequence_mean",
    },
    "lite_ppo": {
        **_GROUP,
        "actor.eps_clip": 0.2,
        "actor.reward_norm.std_level": "batch",
        "run.loss_aggregation": "token_mean",
    },
    "m2po": {
        **_GROUP_MEAN_STD,
        **_NO_CLIP,
        "actor.m2_threshold": 0.04,
        "run.loss_aggregation": "token_mean",
    },
    "ppo": {
        **_REFERENCE_FREE,
        **_BATCH_ADVANTAGES,
        "actor.eps_clip": 0.2,
        "actor.gae_lambda": 0.95,
        "critic.eps_clip": 0.2,
        "critic.path": "${actor.path}",
        "run.loss_aggregation": "token_mean",
    },
    "reinforce": {
        **_REFERENCE_FREE,
        **_NO_CLIP,
        **_ONE_UPDATE,
        "run.loss_aggregation": "sequence_mean_token_sum",
    },
    "reinforce_pp": {
        **_REFERENCE_FREE,
        **_BATCH_ADVANTAGES,
        "actor.eps_clip": 0.2,
        "run.loss_aggregation": "token_mean",
    },
    "rloo": {
        **_GROUP_MEAN,
        **_NO_CLIP,
        **_ONE_UPDATE,
        "actor.reward_norm.mean_leave1out": True,
        "run.loss_aggregation": "sequence_mean_token_sum",
    },
    "rw": {},
    "sapo": {
        **_GROUP_MEAN_STD,
        "actor.sapo_tau_neg": 1.05,
        "actor.sapo_tau_pos": 1.0,
        "actor.use_sapo_loss": True,
        "run.loss_aggregation": "sequence_mean",
    },
    "sft": {},
}

# Which have a use for a value model; with "" nothing is preset, and the section alone decides.
CRITIC_ALGORITHMS = ("", "decoupled_ppo", "ppo")


def check_algorithm(algorithm: str) -> None:
    """Raise unless the name is empty or that of an algorithm.

    Raises:
        ConfigError: It is unknown.
    """
    if algorithm and algorithm not in PRESETS:
        raise ConfigError(f"unknown run.algorithm {algorithm!r}{nearest_names(algorithm, PRESETS)}")


def preset_overrides(algorithm: str, explicit_keys: Iterable[str] = ()) -> dict[str, Any]:
    """Return what an algorithm sets, but for what is set explicitly.

    Args:
        algorithm: A name of the table, or "" for nothing.
        explicit_keys: Dotted keys that were set. A key covers all below it: an explicit
            ``actor.reward_norm`` (null, say) keeps the preset from making one.

    Returns:
        Dotted key to value; a value may be an interpolation such as ``${gconfig.n_samples}``.

    Raises:
        ConfigError: The algorithm is unknown.
    """
    check_algorithm(algorithm)
    explicit = set(explicit_keys)
    return {
        key: value
        for key, value in PRESETS.get(algorithm, {}).items()
        if not explicit & set(_key_and_parents(key))
    }


def _key_and_parents(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
