from __future__ import annotations

import math
import random

import pytest

from areal.trainer.report.diagnosis import diagnose, reward_collapse

HEALTHY = {
    "reward": 0.5,
    "loss": 0.1,
    "grad_norm": 0.4,
    "truncated_ratio": 0.2,
    "flat_group_ratio": 0.5,
    "logp_abs_diff": 1e-6,
    "rollout/accepted": 16,
    "rollout/failed": 0,
    "reward/failures": 0,
}


def codes(rows: list[dict[str, float | None]]) -> list[str]:
    return [finding.code for finding in diagnose(rows)]


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"truncated_ratio": 1.0}, "all_truncated", "max_new_tokens"),
        ({"flat_group_ratio": 1.0}, "no_learning_signal", "all near 0.5"),
        ({"logp_abs_diff": 0.2}, "logprob_drift", "0.2 nats"),
        ({"reward/failures": 3}, "grader_failures", "3 reward calls"),
        ({"rollout/accepted": 10, "rollout/failed": 6}, "episodes_failed", "38%"),
        (
            {"rollout/failed": 6, "rollout/failed/KeyError": 2, "rollout/failed/ValueError": 4},
            "episodes_failed",
            "(ValueError 12 times, KeyError 6 times)",
        ),
        ({"loss": None}, "not_finite", "loss of this step"),
        ({"loss": None, "grad_norm": None}, "not_finite", "loss and grad_norm"),
        ({"ppo_critic/grad_norm": None}, "not_finite", "lower critic.optimizer.lr"),
    ],
)
def test_each_fault_is_found_and_says_what_to_do(change: dict[str, float], code: str, says: str):
    findings = diagnose([HEALTHY | change] * 3)
    assert [finding.code for finding in findings] == [code]
    assert says in findings[0].text


@pytest.mark.parametrize("length", [0, 1, 3, 64])
def test_a_healthy_run_is_left_alone(length: int):
    assert codes([HEALTHY] * length) == []


def test_statistics_that_are_missing_are_not_judged():
    assert codes([{}] * 64) == []
    assert codes([{"loss": 0.3, "grad_norm": 1.0}] * 64) == []


@pytest.mark.parametrize("name", ["truncated_ratio", "flat_group_ratio", "logp_abs_diff"])
def test_one_bad_step_among_good_ones_is_no_finding(name: str):
    assert codes([HEALTHY, HEALTHY | {name: 1.0}, HEALTHY]) == []
    assert codes([HEALTHY, HEALTHY | {name: 1.0}]) == []


def test_samples_of_older_weights_are_meant_to_differ():
    stale = HEALTHY | {"logp_abs_diff": 0.5, "staleness": 0.4}
    assert codes([stale] * 3) == []
    assert codes([stale, *[stale | {"staleness": 0.0}] * 3]) == ["logprob_drift"]


def test_a_nan_stays_unjudged_by_the_checks_that_need_numbers():
    assert codes([HEALTHY | {"truncated_ratio": None, "logp_abs_diff": None}] * 3) == []


def rising(count: int, noise: float, seed: int = 1) -> list[dict[str, float | None]]:
    rng = random.Random(seed)
    values = [1 - math.exp(-i / 12) + rng.gauss(0, noise) for i in range(count)]
    return [{"reward": value} for value in values]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.2])
def test_a_noisy_rise_is_no_collapse(noise: float, seed: int):
    rows = rising(64, noise, seed)
    assert not any(reward_collapse(rows[: i + 1]) for i in range(64))


@pytest.mark.parametrize("seed", range(20))
def test_pure_noise_around_a_level_is_no_collapse(seed: int):
    rng = random.Random(seed)
    rows = [{"reward": rng.gauss(0.5, 0.1)} for _ in range(64)]
    assert not any(reward_collapse(rows[: i + 1]) for i in range(64))


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_fall_to_the_start_is_a_collapse(noise: float):
    rows = rising(40, noise)
    rows += [{"reward": 0.05}] * 9
    finding = reward_collapse(rows)
    assert finding is not None
    assert "to 0.05" in finding.text


def test_a_plateau_that_falls_long_after_its_rise_is_a_collapse_too():
    assert reward_collapse([{"reward": 0.9}] * 56 + [{"reward": 0.3}] * 8) is not None


def test_steps_without_a_reward_are_passed_over():
    rows = [{"loss": 1.0}, *rising(40, 0.0), {"reward": None}]
    assert reward_collapse(rows) is None
