"""Values, returns and both losses of PPO with a critic beside those of TRL.

TRL 1.16 has no critic, so what an earlier one finds is on file: ``trl_critic.json`` has what
``PPOTrainer.compute_advantages`` and ``PPOTrainer.loss`` of TRL 0.11.4 were given, drawn from a
normal distribution, and what they returned.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from areal.api.cli_args import PPOActorConfig
from areal.trainer.advantages import compute_advantages
from areal.utils.functional import ppo_actor_loss_fn, ppo_critic_loss_fn

TRL: dict[str, Any] = json.loads((Path(__file__).parent / "trl_critic.json").read_text())
BOUND = 1e-6


@pytest.fixture
def given() -> dict[str, torch.Tensor]:
    tensors = {name: torch.tensor(rows) for name, rows in TRL["given"].items()}
    return {**tensors, "mask": tensors["mask"].bool()}


def test_returns_are_those_of_trl(given: dict[str, torch.Tensor]) -> None:
    mask = given["mask"]
    # A trajectory has a column more: its first token, which nothing predicts.
    at_tokens = {
        name: torch.nn.functional.pad(given[name], (1, 0))
        for name in ("mask", "rewards", "old_logprobs")
    }
    batch = {
        "input_ids": torch.ones_like(at_tokens["mask"], dtype=torch.int64),
        "attention_mask": torch.ones_like(at_tokens["mask"]),
        "loss_mask": at_tokens["mask"],
        "logprobs": at_tokens["old_logprobs"],
        "token_rewards": at_tokens["rewards"],
        "rewards": at_tokens["rewards"].sum(1),
        "values": torch.nn.functional.pad(given["values"], (0, 1)),
    }
    settings = TRL["settings"]
    config = PPOActorConfig(
        experiment_name="e",
        trial_name="t",
        backend="fsdp:d1",
        kl_ctl=0.0,
        discount=settings["gamma"],
        gae_lambda=settings["lam"],
    )
    out = compute_advantages(batch, config)
    found, expected = out["returns"][:, :-1][mask], torch.tensor(TRL["found"]["returns"])[mask]
    torch.testing.assert_close(found, expected, rtol=0, atol=BOUND)


def test_losses_are_those_of_trl(given: dict[str, torch.Tensor]) -> None:
    mask, expected = given["mask"], TRL["found"]
    loss, stats = ppo_critic_loss_fn(
        given["vpreds"],
        given["values"] * mask,
        torch.tensor(expected["returns"]),
        TRL["settings"]["cliprange_value"],
        mask,
    )
    assert float(loss) == pytest.approx(expected["value_loss"], abs=BOUND)
    clipped = float(stats["clip_mask"].sum() / mask.sum())
    assert clipped == pytest.approx(expected["value_clipfrac"], abs=BOUND)
    old = given["old_logprobs"]
    loss, stats = ppo_actor_loss_fn(
        given["logprobs"], old, old, given["advantages"], TRL["settings"]["cliprange"], mask
    )
    assert float(loss) == pytest.approx(expected["policy_loss"], abs=BOUND)
    clipped = float(stats["clip_mask"].sum() / mask.sum())
    assert clipped == pytest.approx(expected["policy_clipfrac"], abs=BOUND)
