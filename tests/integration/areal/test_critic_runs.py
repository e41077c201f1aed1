"""Runs with a critic by the command: killed without warning, and on two processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from areal.api.cli_args import PPOConfig, load_expr_config
from areal.trainer.ppo import PPOTrainer
from tests.integration.areal.conftest import Areal, command
from tests.integration.areal.test_launch import has_step, running, start, start_nothing, wait_until
from tests.integration.areal.test_train_command import kill_during
from tests.tiny_runs import MODEL, rl_yaml, train_stats

STEPS = 8
SECTIONS: dict[str, Any] = {
    "total_train_steps": STEPS,
    "run": {"model": {**MODEL, "num_key_value_heads": 2}},  # that two processes can share
    "actor": {"optimizer": {"lr": 0.01, "lr_scheduler_type": "cosine", "warmup_steps": 0}},
    "critic": {
        "ppo_n_minibatches": 2,
        "optimizer": {"lr": 0.02, "lr_scheduler_type": "linear", "warmup_steps": 2},
    },
    "rollout": {"deterministic_sampling": True},
    "recover": {"freq_steps": 2},
    "valid_dataset": None,
}
ACTOR = ("actor_loss", "reward", "grad_norm", "n_valid_tokens", "lr")
CRITIC = ("critic_loss", "old_value", "new_value", "target_value", "clipped_tokens", "grad_norm")
CRITIC += ("n_valid_tokens", "n_tokens", "lr")
NAMES = (*ACTOR, *(f"ppo_critic/{name}" for name in CRITIC))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the run in one process, without a break."""
    folder = tmp_path_factory.mktemp("one")
    argv = ["--config", str(rl_yaml(folder, "ppo", **SECTIONS))]
    with PPOTrainer(load_expr_config(argv, PPOConfig)[0]) as trainer:
        trainer.train()
    return folder


def numbers(folder: Path) -> list[list[float]]:
    return [[stats[name] for name in NAMES] for stats in train_stats(folder)]


@pytest.mark.slow  # within one process, tests/unit/trainer/test_recover.py does it in every run
def test_a_killed_run_goes_on_bit_for_bit(areal: Areal, undisturbed: Path, tmp_path: Path) -> None:
    rl_yaml(tmp_path, "ppo", **SECTIONS)
    kill_during(command("train", "-c", "config.yaml"), tmp_path, step=5)
    done = areal("train", "-c", "config.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "resuming from step" in done.stderr
    assert numbers(tmp_path) == numbers(undisturbed)
    for name in ("model", "model_critic"):
        found, expected = (
            (folder / "e/t" / name / "model.safetensors").read_bytes()
            for folder in (tmp_path, undisturbed)
        )
        assert found == expected


@pytest.mark.slow  # tests/integration/ranks compares a critic on several processes in every run
@pytest.mark.parametrize(
    "overrides",
    [("actor.backend=fsdp:d2",), ("actor.backend=fsdp:d2", "critic.backend=fsdp:t2")],
)
def test_two_processes_train_as_one_which_can_go_on(
    areal: Areal, undisturbed: Path, tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    rl_yaml(tmp_path, "ppo", **SECTIONS)
    launcher = start(tmp_path, *overrides)
    try:
        wait_until(lambda: has_step(tmp_path, 5), launcher, "five steps")
    finally:
        launcher.kill()
        launcher.communicate()
    wait_until(lambda: not running(tmp_path), start_nothing(), "all its processes are gone")
    done = areal("train", "-c", "config.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "resuming from step" in done.stderr
    for found, expected in zip(numbers(tmp_path), numbers(undisturbed), strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)
