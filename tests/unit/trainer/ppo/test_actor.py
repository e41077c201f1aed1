"""The actor as a script uses it, without a trainer: lists of trajectories in, lists out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from areal.api.cli_args import MicroBatchSpec, OptimizerConfig, PPOActorConfig
from areal.api.io_struct import FinetuneSpec
from areal.engine.loading.huggingface import prepare_model
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.engine import HFTrainEngine
from areal.trainer.ppo.actor import PPOActor, grpo_loss_fn
from areal.utils import stats_tracker
from areal.utils.functional import ppo_actor_loss_fn
from tests.tiny_models import random_prompts, tiny_model

PROMPT = 3
LENGTHS = [[8, 6], [5, 9]]


def trajectories() -> list[dict[str, Any]]:
    """Makes two groups of two answers, as a workflow returns them."""
    found = []
    for seed, lengths in enumerate(LENGTHS):
        width = max(lengths)
        group = {
            "input_ids": torch.zeros(2, width, dtype=torch.int64),
            "attention_mask": torch.zeros(2, width, dtype=torch.bool),
            "loss_mask": torch.zeros(2, width, dtype=torch.int32),
            "logprobs": torch.zeros(2, width),
            "rewards": torch.tensor([1.0, 0.0]),
        }
        for row, tokens in enumerate(random_prompts(lengths, seed)):
            group["input_ids"][row, : len(tokens)] = torch.tensor(tokens)
            group["attention_mask"][row, : len(tokens)] = True
            group["loss_mask"][row, PROMPT : len(tokens)] = 1
        found.append(group)
    return found


def make_actor(**settings: Any) -> PPOActor:
    config = PPOActorConfig(
        kl_ctl=0.0, optimizer=OptimizerConfig(lr=1e-2, warmup_steps=0), **settings
    )
    weights = SharedWeights(prepare_model(tiny_model(), torch.device("cpu")))
    engine = HFTrainEngine(config, weights)
    engine.initialize(None, FinetuneSpec(1, 4, 1))
    return PPOActor(config, engine)


def test_log_probabilities_come_back_in_the_shapes_of_the_trajectories() -> None:
    actor, data = make_actor(), trajectories()
    found = actor.compute_logp(data)
    assert [tuple(x.shape) for x in found] == [(2, 8), (2, 9)]
    ids = data[1]["input_ids"][1:]
    logits = actor.engine.lm.logits(ids[0], torch.arange(9), [9])
    expected = logits.log_softmax(-1)[:-1].gather(1, ids[0, 1:, None]).squeeze(1)
    expected[: PROMPT - 1] = 0.0
    assert torch.allclose(found[1][1, :-1], expected, atol=1e-5)
    assert float(found[1][1, -1]) == 0.0


def test_an_update_raises_what_was_rewarded_and_records_statistics() -> None:
    actor, data = make_actor(ppo_n_minibatches=2, mb_spec=MicroBatchSpec(n_mbs=2)), trajectories()
    for group, logprobs in zip(data, actor.compute_logp(data), strict=True):
        group["logprobs"] = logprobs.roll(1, 1) * group["loss_mask"]
        group["prox_logp"] = logprobs
    before = [x.sum(1) for x in actor.compute_logp(data)]
    stats_tracker.export_all()
    actor.ppo_update(actor.compute_advantages(data))
    after = [x.sum(1) for x in actor.compute_logp(data)]
    assert all(float(a[0]) > float(b[0]) for a, b in zip(after, before, strict=True))
    found = stats_tracker.export_all()
    assert found["ppo_actor/skipped_updates"] == 0.0
    assert found["ppo_actor/grad_norm"] > 0.0
    # Trainer and rollout are compared before the first step, all else is of the whole batch.
    assert found["ppo_actor/logp_abs_diff_max"] < 1e-5
    assert found["ppo_actor/n_valid_tokens"] == sum(int(group["loss_mask"].sum()) for group in data)


def test_the_loss_takes_its_settings_by_their_names() -> None:
    generator = torch.Generator().manual_seed(0)
    new, old, advantages = torch.randn(3, 7, generator=generator)
    data = {"logprobs": old, "advantages": advantages, "loss_mask": torch.ones(7).bool()}
    found = grpo_loss_fn(new, None, data, eps_clip=0.1, c_clip=3.0)
    expected, _ = ppo_actor_loss_fn(
        new, old, old, advantages, 0.1, data["loss_mask"], None, c_clip=3.0
    )
    assert torch.equal(found, expected)
    with pytest.raises(ValueError, match="c_clip"):
        grpo_loss_fn(new, None, data, c_clip=0.5)
