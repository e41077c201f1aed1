"""A reward that raises, hangs, dies or returns no number, in a real run with real workers."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from areal.api import AsyncRewardWrapper
from areal.api.cli_args import GRPOConfig, load_expr_config
from areal.api.errors import EpisodeFailureError
from areal.trainer.ppo import PPOTrainer
from areal.workflow import RLVRWorkflow
from tests import tiny_runs
from tests.tiny_runs import rl_yaml, train_stats

pytestmark = pytest.mark.heavy


def run(folder: Path, reward: Any, timeout_seconds: float = 60.0) -> list[dict[str, Any]]:
    config, _ = load_expr_config(["--config", str(rl_yaml(folder))], GRPOConfig)
    wrapper = AsyncRewardWrapper(
        reward, timeout_seconds=timeout_seconds, max_workers=2, max_retries=0
    )
    with PPOTrainer(config) as trainer:
        trainer.train(RLVRWorkflow, workflow_kwargs={"reward_fn": wrapper})
    return train_stats(folder)


@pytest.mark.parametrize("name", ["raising", "exiting", "nan"])
def test_a_reward_that_gives_none_costs_its_episodes_only(tmp_path: Path, name: str) -> None:
    steps = run(tmp_path, getattr(tiny_runs, f"{name}_reward"))
    *earlier, failures = accumulate(stats["reward/failures"] for stats in steps)
    assert failures > 0
    # Episodes go on while a step is counted, so a last call may fail before its episode ends.
    assert earlier[-1] <= sum(stats["rollout/rejected"] for stats in steps) <= failures
    assert sum(stats["reward/timeouts"] for stats in steps) == 0
    # Rows without a reward were replaced by others; no failure became a reward of 0.
    assert [stats["n_seqs"] for stats in steps] == [16] * 3


def test_a_reward_that_hangs_is_counted_and_holds_up_nothing_else(tmp_path: Path) -> None:
    steps = run(tmp_path, tiny_runs.hanging_reward, timeout_seconds=0.3)
    assert sum(stats["reward/timeouts"] for stats in steps) > 0
    assert [stats["n_seqs"] for stats in steps] == [16] * 3


def always_raising(*_: Any, **__: Any) -> float:
    raise LookupError("no gold answer")


def test_a_reward_that_always_fails_stops_the_run_with_its_cause(tmp_path: Path) -> None:
    with pytest.raises(EpisodeFailureError, match=r"reward.*LookupError.*no gold answer"):
        run(tmp_path, always_raising)
    assert "no gold answer" in (tmp_path / "e" / "t" / "report.html").read_text()
