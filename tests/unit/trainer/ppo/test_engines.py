"""Actor and critic under AReaL's names: one step of PPO written with nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from areal.api.errors import ConfigError
from areal.api.io_struct import FinetuneSpec
from areal.engine import fsdp_engine
from areal.experimental.engine import archon_engine
from areal.utils import stats_tracker
from tests.tiny_models import random_prompts, tiny_model

ENGINES = [
    (fsdp_engine.FSDPPPOActor, fsdp_engine.FSDPPPOCritic),
    (archon_engine.ArchonPPOActor, archon_engine.ArchonPPOCritic),
]
PROMPT, LENGTH = 3, 8


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(path)
    return str(path)


def group() -> dict[str, Any]:
    ids = torch.tensor(random_prompts([LENGTH] * 4))
    sampled = (torch.arange(LENGTH) >= PROMPT).expand(4, LENGTH)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids).bool(),
        "loss_mask": sampled.int(),
        "logprobs": torch.zeros(ids.shape),
        "rewards": torch.tensor([1.0, 0.0, 0.0, 1.0]),
    }


@pytest.mark.parametrize(("actor_class", "critic_class"), ENGINES)
def test_a_step_in_the_order_of_the_contract(
    checkpoint: str, actor_class: Any, critic_class: Any
) -> None:
    names = (checkpoint, "e", "t")
    actor = actor_class.from_pretrained(*names, learning_rate=1e-2, kl_ctl=0.0, gae_lambda=0.9)
    critic = critic_class.from_pretrained(*names, learning_rate=1e-2, is_critic=True)
    for engine in (actor, critic):
        engine.initialize(None, FinetuneSpec(1, 4, 1))
    data = [group()]
    for each, logprobs, values in zip(
        data, actor.compute_logp(data), critic.compute_values(data), strict=True
    ):
        each["logprobs"] = logprobs.roll(1, 1) * each["loss_mask"]
        each["values"] = values
    ready = actor.compute_advantages(data)
    mask = ready[0]["loss_mask"]
    assert torch.allclose(
        ready[0]["returns"][mask], (ready[0]["advantages"] + data[0]["values"])[mask]
    )
    stats_tracker.export_all()
    actor.ppo_update(ready)
    critic.ppo_update(ready)
    stats = stats_tracker.export_all()
    assert stats["ppo_actor/grad_norm"] > 0
    assert stats["ppo_critic/target_value"] == pytest.approx(
        float(ready[0]["returns"][mask].mean())
    )
    moved = critic.compute_values(data)[0] - data[0]["values"]
    assert float(moved.abs().max()) > 0


def test_a_critic_has_to_be_one(checkpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"critic\.is_critic is false"):
        fsdp_engine.FSDPPPOCritic.from_pretrained(checkpoint, "e", "t", is_critic=False)
