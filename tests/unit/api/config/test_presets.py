"""Presets lie between the dataclass defaults and what the user writes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from areal.api.cli_args import GRPOConfig, NormConfig, SFTConfig, apply_preset, load_expr_config
from areal.api.config.presets import PRESETS, preset_overrides
from areal.api.config.run import RunConfig
from areal.api.errors import ConfigError
from areal.api.registry import import_from_string

BASE = """\
experiment_name: e
trial_name: t
train_dataset: {path: arithmetic, type: rl}
"""
POLICY_PRESETS = sorted(set(PRESETS) - {"dpo", "rw", "sft"})


def load(tmp_path: Path, *overrides: str) -> GRPOConfig:
    path = tmp_path / "x.yaml"
    path.write_text(BASE, encoding="utf-8")
    return load_expr_config(["-c", str(path), *overrides], GRPOConfig)[0]


def at(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = getattr(config, part)
    return config


def test_without_an_algorithm_nothing_is_preset(tmp_path: Path) -> None:
    assert load(tmp_path) == load(tmp_path, "run.algorithm=")
    assert load(tmp_path).actor.reward_norm is None
    assert load(tmp_path).actor.kl_ctl == 0.1


def made(algorithm: str) -> GRPOConfig:
    """Makes in Python, which is quick, what ``load`` makes, as one of the tests shows."""
    config = GRPOConfig(experiment_name="e", trial_name="t", run=RunConfig(algorithm=algorithm))
    config.train_dataset.path, config.train_dataset.type = "arithmetic", "rl"
    apply_preset(config)
    return config


@pytest.mark.parametrize("algorithm", POLICY_PRESETS)
def test_a_preset_fills_what_was_not_written(algorithm: str) -> None:
    config = made(algorithm)
    for key, value in PRESETS[algorithm].items():
        is_link = isinstance(value, str) and value.startswith("${")
        assert at(config, key) == (at(config, value[2:-1]) if is_link else value), key
    assert config.actor.kl_ctl == 0.0
    assert config.eval_gconfig == config.gconfig


@pytest.mark.parametrize("algorithm", POLICY_PRESETS)
def test_python_and_yaml_get_the_same(tmp_path: Path, algorithm: str) -> None:
    assert made(algorithm) == load(tmp_path, f"run.algorithm={algorithm}")


def test_what_is_written_wins(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "run.algorithm=grpo",
        "gconfig.n_samples=4",
        "actor.reward_norm.std_level=batch",
        "actor.eps_clip=0.3",
        "run.loss_aggregation=token_mean",
    )
    assert config.actor.reward_norm == NormConfig("group", std_level="batch", group_size=4)
    assert config.actor.eps_clip == 0.3
    assert config.run.loss_aggregation == "token_mean"


def test_a_section_that_is_written_null_stays_null(tmp_path: Path) -> None:
    assert load(tmp_path, "run.algorithm=grpo", "actor.reward_norm=null").actor.reward_norm is None
    config = GRPOConfig(experiment_name="e", trial_name="t", run=RunConfig(algorithm="grpo"))
    apply_preset(config, ["actor.reward_norm", "gconfig.n_samples"])
    assert config.actor.reward_norm is None
    assert config.gconfig.n_samples == 1


def test_the_critic_starts_from_the_actor_or_from_what_is_written(tmp_path: Path) -> None:
    argv = ["run.algorithm=ppo", "actor.path=a"]
    assert load(tmp_path, *argv).critic.path == "a"
    assert load(tmp_path, *argv, "critic.path=b", "critic.eps_clip=0.3").critic.path == "b"
    assert load(tmp_path, *argv, "critic=null").critic is None


def test_evaluation_of_its_own_is_left_alone() -> None:
    config = GRPOConfig(experiment_name="e", trial_name="t", run=RunConfig(algorithm="grpo"))
    config.eval_gconfig = config.gconfig.new(greedy=True)
    apply_preset(config)
    assert (config.gconfig.n_samples, config.eval_gconfig.n_samples) == (8, 1)


# Each row is the definition in the paper that the table cites, where it differs from the others.
@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("grpo", {"actor.reward_norm.std_level": "group", "run.loss_aggregation": "sequence_mean"}),
        ("dr_grpo", {"actor.reward_norm.std_level": None}),
        ("dapo", {"actor.eps_clip_higher": 0.28, "actor.overlong_reward_penalty": False}),
        ("gspo", {"actor.importance_sampling_level": "sequence", "actor.eps_clip": 3e-4}),
        ("rloo", {"actor.reward_norm.mean_leave1out": True, "actor.reward_norm.std_level": None}),
        ("reinforce", {"actor.reward_norm": None, "actor.adv_norm": None}),
        ("reinforce_pp", {"actor.reward_norm": None, "actor.adv_norm.std_level": "batch"}),
        ("lite_ppo", {"actor.reward_norm.mean_level": "group"}),
        ("lite_ppo", {"actor.reward_norm.std_level": "batch"}),
        ("cispo", {"actor.use_cispo_loss": True, "actor.eps_clip_higher": 4.0}),
        ("sapo", {"actor.use_sapo_loss": True, "actor.sapo_tau_neg": 1.05}),
        ("m2po", {"actor.m2_threshold": 0.04, "actor.eps_clip_higher": math.inf}),
        ("decoupled_ppo", {"actor.use_decoupled_loss": True}),
        ("ppo", {"actor.gae_lambda": 0.95, "critic.eps_clip": 0.2, "actor.reward_norm": None}),
    ],
)
def test_definitions(algorithm: str, expected: dict[str, Any]) -> None:
    config = made(algorithm)
    assert {key: at(config, key) for key in expected} == expected


def test_no_other_preset_switches_a_gate_on() -> None:
    for algorithm in POLICY_PRESETS:
        actor = made(algorithm).actor
        assert actor.use_cispo_loss == (algorithm == "cispo")
        assert actor.use_sapo_loss == (algorithm == "sapo")
        assert (actor.m2_threshold is not None) == (algorithm == "m2po")
        assert actor.use_decoupled_loss == (algorithm == "decoupled_ppo")
        assert (made(algorithm).critic is not None) == (algorithm == "ppo")


def test_functions_named_in_presets_exist() -> None:
    filters = {row["run.dynamic_filter"] for row in PRESETS.values() if "run.dynamic_filter" in row}
    assert filters
    assert all(callable(import_from_string(path)) for path in filters)


def test_loss_aggregations_are_those_of_the_loss() -> None:
    from areal.api.config.run import LOSS_AGGREGATIONS
    from areal.utils.functional import AGGREGATIONS

    assert set(LOSS_AGGREGATIONS) == set(AGGREGATIONS)


@pytest.mark.parametrize("algorithm", ["grop", "GRPO"])
def test_names_without_a_trainer_are_refused(algorithm: str) -> None:
    with pytest.raises(ConfigError, match=algorithm):
        preset_overrides(algorithm)
    with pytest.raises(ConfigError, match=algorithm):
        RunConfig(algorithm=algorithm)


def test_a_preset_for_another_class_is_refused() -> None:
    config = SFTConfig(experiment_name="e", trial_name="t", run=RunConfig(algorithm="grpo"))
    with pytest.raises(ConfigError, match="use PPOConfig"):
        apply_preset(config)
    apply_preset(SFTConfig(experiment_name="e", trial_name="t", run=RunConfig(algorithm="sft")))
