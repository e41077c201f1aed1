from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from areal.api.cli_args import NormConfig, PPOActorConfig, RejectionSamplingConfig

ACTOR = {"experiment_name": "e", "trial_name": "t", "backend": "fsdp:d1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"upper": 1.0}, "upper must be greater than 1, found 1.0"),
        ({"lower": 0.0}, "lower must be greater than 0, found 0.0"),
        ({"lower": -0.5}, "lower must be greater than 0, found -0.5"),
        ({"action": "clamp", "lower": -0.5}, "lower must be at least 0, found -0.5"),
        ({"metric": "kl_k1", "upper": 0.0}, "upper must be greater than 0, found 0.0"),
        ({"metric": "binary_kl", "upper": -1.0}, "upper must be greater than 0, found -1.0"),
        ({"metric": "binary_kl", "action": "clamp"}, "action must be mask"),
        ({"metric": "kl_k2", "action": "clamp"}, "action must be mask"),
        ({"metric": "odds"}, "metric is 'odds'"),
        ({"lower": 9.0}, "lower must not exceed upper=5.0"),
    ],
)
def test_impossible_filters_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RejectionSamplingConfig(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "kl_k1", "upper": 0.1, "lower": -0.1},
        {"metric": "kl_k3", "upper": 0.001},
        {"metric": "binary_kl", "upper": 0.5},
        {"level": "sequence", "agg": "sum", "upper": 1.01, "lower": 0.1},
    ],
)
def test_possible_filters_stay_as_they_are(options: dict[str, Any]) -> None:
    config = RejectionSamplingConfig(**options)
    assert {name: getattr(config, name) for name in options} == options


def test_a_clamp_has_a_lower_bound() -> None:
    config = RejectionSamplingConfig(action="clamp")
    assert config.lower == 0.0
    assert RejectionSamplingConfig(**vars(config)) == config, "as a saved configuration is read"
    assert RejectionSamplingConfig(action="mask").lower is None


@pytest.mark.parametrize("agg", ["sum", "max"])
def test_an_aggregation_of_single_tokens_warns(agg: str) -> None:
    with pytest.warns(UserWarning, match=f"agg '{agg}' has no effect at level 'token'"):
        RejectionSamplingConfig(level="token", agg=agg)


@pytest.mark.parametrize("make", [lambda norm: NormConfig(**norm), dict, OmegaConf.create])
def test_a_group_of_one_reward_warns(make: Any) -> None:
    norm = {"mean_level": "group", "std_level": None, "group_size": 1}
    with pytest.warns(UserWarning, match=r"group_size 1 leaves no reward.*gconfig\.n_samples"):
        config = PPOActorConfig(**ACTOR, reward_norm=make(norm))
    assert config.reward_norm == NormConfig("group", std_level=None)


@pytest.mark.parametrize("make", [lambda norm: NormConfig(**norm), dict, OmegaConf.create])
@pytest.mark.parametrize(
    "norm", [{"mean_level": "group", "group_size": 4}, {"mean_level": "batch", "group_size": 1}]
)
def test_other_norms_do_not(make: Any, norm: dict[str, Any]) -> None:
    assert PPOActorConfig(**ACTOR, reward_norm=make(norm)).reward_norm == NormConfig(**norm)
