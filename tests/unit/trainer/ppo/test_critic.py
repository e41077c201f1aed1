"""The value model: what it learns, what it reports, and what the trainer does with it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForTokenClassification

from areal.api.cli_args import (
    GRPOConfig,
    MicroBatchSpec,
    OptimizerConfig,
    PPOCriticConfig,
    load_expr_config,
)
from areal.api.errors import TrainingError
from areal.api.io_struct import FinetuneSpec
from areal.engine.fsdp_engine import FSDPEngine
from areal.trainer.ppo import PPOTrainer
from areal.trainer.ppo.critic import PPOCritic
from areal.utils import stats_tracker
from tests.tiny_archon import BACKENDS
from tests.tiny_models import tiny_model
from tests.tiny_runs import rl_yaml, train_stats

pytestmark = pytest.mark.usefixtures("short_runs")
PROMPT = 2
# Scale_contract: what a step of a critic reports, with what the optimiser does.
NAMES = {
    *("n_tokens", "n_valid_tokens", "clipped_tokens", "new_value", "old_value", "target_value"),
    *("critic_loss", "clip_ratio", "clipped_new_value", "clipped_old_value", "eps_clip"),
    *("lr", "grad_norm", "update_successful"),
}


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(path)
    return str(path)


def make_critic(path: str, lr: float = 0.01, **settings: Any) -> PPOCritic:
    config = PPOCriticConfig(
        experiment_name="e",
        trial_name="t",
        path=path,
        is_critic=True,
        disable_dropout=True,
        optimizer=OptimizerConfig(lr=lr, warmup_steps=0, weight_decay=0.0),
        **settings,
    )
    engine = FSDPEngine(config)
    engine.initialize(None, FinetuneSpec(1, 100, 1))
    return PPOCritic(config, engine)


def rollouts(seed: int, lengths: list[list[int]]) -> list[dict[str, Tensor]]:
    """Makes groups of answers whose return is 1 where the first token of the prompt is even."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for group in lengths:
        shape = (len(group), max(group))
        mask = torch.arange(shape[1]) < torch.tensor(group)[:, None]
        ids = torch.randint(2, 40, shape, generator=generator) * mask
        found.append(
            {
                "input_ids": ids,
                "attention_mask": mask,
                "loss_mask": mask & (torch.arange(shape[1]) >= PROMPT),
            }
        )
    return found


def aligned(data: list[dict[str, Tensor]], values: list[Tensor]) -> list[dict[str, Tensor]]:
    """Does what is done in front of an update: masks to the predicting token, values, returns."""
    found = []
    for group, old in zip(data, values, strict=True):
        mask = torch.zeros_like(group["loss_mask"])
        mask[:, :-1] = group["loss_mask"][:, 1:]
        returns = (group["input_ids"][:, :1] % 2 == 0).float().expand(mask.shape)
        found.append({**group, "loss_mask": mask, "values": old, "returns": returns})
    return found


def test_values_come_back_in_the_shapes_of_the_trajectories(language_model: str) -> None:
    critic, data = make_critic(language_model), rollouts(0, [[6, 4], [5, 7]])
    values = critic.compute_values(data)
    assert [tuple(each.shape) for each in values] == [(2, 6), (2, 7)]
    # In front of the first sampled token up to that of the last one.
    assert (values[0][1] != 0).tolist() == [False, True, True, False, False, False]


def test_an_update_reports_what_a_direct_formula_finds(language_model: str) -> None:
    critic = make_critic(
        language_model, lr=1e-9, ppo_n_minibatches=1, mb_spec=MicroBatchSpec(n_mbs=2), eps_clip=0.5
    )
    data = rollouts(1, [[9, 4, 6], [5, 7, 8]])
    new = critic.compute_values(data)
    generator = torch.Generator().manual_seed(0)
    old = [each + torch.randn(each.shape, generator=generator) for each in new]
    batch = aligned(data, old)
    stats_tracker.export_all()
    critic.ppo_update(batch)
    exported = stats_tracker.export_all().items()
    found = {name.removeprefix("ppo_critic/"): value for name, value in exported}
    tokens = [
        (float(v), float(o), float(r))
        for group, values in zip(batch, new, strict=True)
        for v, o, r, m in zip(
            values.flatten(),
            group["values"].flatten(),
            group["returns"].flatten(),
            group["loss_mask"].flatten(),
            strict=True,
        )
        if m
    ]
    held = [min(max(v, o - 0.5), o + 0.5) for v, o, _ in tokens]
    losses = [
        max((v - r) ** 2, (h - r) ** 2) / 2 for (v, _, r), h in zip(tokens, held, strict=True)
    ]
    clipped = [
        (v, o) for (v, o, r), h in zip(tokens, held, strict=True) if (h - r) ** 2 > (v - r) ** 2
    ]
    count = len(tokens)
    assert 0 < len(clipped) < count
    expected = {
        "n_tokens": sum(int(group["attention_mask"].sum()) for group in data),
        "n_valid_tokens": count,
        "clipped_tokens": len(clipped),
        "clip_ratio": len(clipped) / count,
        "critic_loss": sum(losses) / count,
        "new_value": sum(v for v, _, _ in tokens) / count,
        "old_value": sum(o for _, o, _ in tokens) / count,
        "target_value": sum(r for _, _, r in tokens) / count,
        "clipped_new_value": sum(v for v, _ in clipped) / len(clipped),
        "clipped_old_value": sum(o for _, o in clipped) / len(clipped),
        "eps_clip": 0.5,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert {name for name in found if not name.endswith("__count")} == NAMES


def test_minibatches_are_optimiser_steps(language_model: str) -> None:
    data = rollouts(2, [[9, 4, 6, 8]])
    moved = []
    for count in (1, 4):
        critic = make_critic(language_model, lr=0.01, ppo_n_minibatches=count)
        before = critic.compute_values(data)
        critic.ppo_update(aligned(data, before))
        moved.append(float((critic.compute_values(data)[0] - before[0]).abs().max()))
        assert critic.engine.optimizer is not None
        steps = {int(state["step"]) for state in critic.engine.optimizer.state.values()}
        assert steps == {count}
    assert moved[1] > moved[0] > 0


@pytest.mark.heavy
def test_a_critic_alone_learns_the_return(language_model: str) -> None:
    critic = make_critic(language_model, lr=5e-3, ppo_n_minibatches=4)
    lengths = [[8] * 32]
    for step in range(60):
        data = rollouts(step, lengths)
        critic.ppo_update(aligned(data, critic.compute_values(data)))
    unseen = rollouts(1000, [[8] * 200])
    (batch,) = aligned(unseen, critic.compute_values(unseen))
    errors = (batch["values"] - batch["returns"])[batch["loss_mask"]]
    returns = batch["returns"][batch["loss_mask"]]
    explained = 1 - float(errors.var() / returns.var())
    assert float(returns.mean()) == pytest.approx(0.5, abs=0.1)
    assert explained > 0.9


# --- beside an actor ------------------------------------------------------------------------------


def trained(path: Path, *overrides: str) -> PPOTrainer:
    config, _ = load_expr_config(["--config", str(path), *overrides], GRPOConfig)
    with PPOTrainer(config) as trainer:
        trainer.train()
    return trainer


@pytest.mark.parametrize("backend", BACKENDS)
def test_actor_and_critic_are_trained_and_saved(tmp_path: Path, backend: str) -> None:
    path = rl_yaml(tmp_path, "ppo", saver={"freq_steps": 2})
    overrides = [f"actor.backend={backend}", "critic.ppo_n_minibatches=2", "critic.eps_clip=0.3"]
    trainer = trained(path, *overrides)
    assert trainer.critic is not None
    steps = train_stats(tmp_path)
    for stats in steps:
        assert {f"ppo_critic/{name}" for name in NAMES} <= stats.keys()
        assert all(math.isfinite(stats[f"ppo_critic/{name}"]) for name in NAMES)
        assert stats["ppo_critic/eps_clip"] == pytest.approx(0.3)
        assert stats["ppo_critic/n_valid_tokens"] == stats["n_gen_tokens"]
        assert stats["ppo_critic/grad_norm"] > 0
        # Actor and critic have the rates of one configuration, and the actor's own statistics.
        assert stats["ppo_critic/lr"] == stats["lr"]
    run = tmp_path / "e/t"
    places = ("model", "checkpoints/step_00000002")
    saved = [f"{place}{of}" for place in places for of in ("", "_critic")]
    assert all((run / name / "model.safetensors").is_file() for name in saved)
    whole, early = (load_file(run / name / "model.safetensors") for name in (saved[1], saved[3]))
    assert any(not torch.equal(whole[name], early[name]) for name in whole)
    model: Any = AutoModelForTokenClassification.from_pretrained(run / "model_critic")
    assert model.config.num_labels == 1


def test_values_of_the_critic_enter_the_advantages(tmp_path: Path) -> None:
    targets = []
    for gae_lambda in (0.0, 1.0):
        folder = tmp_path / str(gae_lambda)
        path = rl_yaml(folder, "ppo", total_train_steps=1, rollout={"deterministic_sampling": True})
        trained(path, f"actor.gae_lambda={gae_lambda}")
        (stats,) = train_stats(folder)
        targets.append(stats["ppo_critic/target_value"])
    # With lambda 1 the targets are the rewards, with 0 mostly the critic's own values.
    assert targets[1] == pytest.approx(stats["reward"], abs=0.1)
    assert abs(targets[0] - targets[1]) > 1e-3


def test_stale_samples_may_have_a_critic_too(tmp_path: Path) -> None:
    path = rl_yaml(tmp_path, "decoupled_ppo", total_train_steps=4)
    trained(path, "critic={}", "rollout.max_head_offpolicyness=2", "actor.kl_ctl=0.1", "ref={}")
    steps = train_stats(tmp_path)
    assert all(math.isfinite(s["ppo_critic/critic_loss"] + s["loss"]) for s in steps)
    assert max(s["staleness_max"] for s in steps) >= 1


def test_a_critic_may_be_another_model_than_the_actor(tmp_path: Path) -> None:
    first = trained(rl_yaml(tmp_path / "one", "ppo"), "total_train_steps=1")
    saved = tmp_path / "one/e/t/model_critic"
    second = trained(
        rl_yaml(tmp_path / "two", "ppo"),
        f"critic.path={saved}",
        "critic.optimizer.lr=1e-9",
        "run.model.hidden_size=16",
        "total_train_steps=1",
    )
    assert first.critic is not None
    assert second.critic is not None
    pairs = zip(first.critic.module.parameters(), second.critic.module.parameters(), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_values_that_are_no_numbers_end_the_run(tmp_path: Path) -> None:
    trained(rl_yaml(tmp_path / "one", "ppo"), "total_train_steps=1")
    saved = tmp_path / "one/e/t/model_critic"
    weights = load_file(saved / "model.safetensors")
    weights["score.weight"][0, 0] = float("nan")
    save_file(weights, saved / "model.safetensors", metadata={"format": "pt"})
    path = rl_yaml(tmp_path / "two", "ppo")
    with pytest.raises(TrainingError, match=r"values of the critic are NaN.*critic\.path"):
        trained(path, f"critic.path={saved}")
    assert not (tmp_path / "two/e/t/model").exists()


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_with_a_critic_one_sample_a_prompt_is_enough_to_learn(tmp_path: Path, seed: int) -> None:
    path = rl_yaml(
        tmp_path,
        "ppo",
        seed=seed,
        total_train_steps=20,
        gconfig={"n_samples": 1, "max_new_tokens": 4},
    )
    trained(path, "train_dataset.batch_size=32")
    steps = train_stats(tmp_path)
    assert steps[0]["reward"] < 0.3
    assert sum(stats["reward"] for stats in steps[-3:]) / 3 > 0.95
    assert steps[-1]["ppo_critic/new_value"] == pytest.approx(1.0, abs=0.1)
