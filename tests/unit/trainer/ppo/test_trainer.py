"""Policy optimisation in one process: presets run, rewards rise, odd episodes are survived."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from areal.api.cli_args import GRPOConfig, load_expr_config
from areal.api.config.presets import PRESETS
from areal.api.errors import ConfigError, EpisodeFailureError
from areal.engine.training.engine import PackedTrainEngine
from areal.trainer.ppo import PPOTrainer
from areal.trainer.run import run_training
from areal.utils.character_tokenizer import character_tokenizer
from tests.tiny_models import tiny_model
from tests.tiny_runs import (
    CHARACTERS,
    DigitWorkflow,
    get_digits_rl_dataset,
    rl_yaml,
    train_stats,
)

pytestmark = pytest.mark.usefixtures("short_runs")
ALGORITHMS = sorted(set(PRESETS) - {"dpo", "rw", "sft"})


def trained(path: Path, *overrides: str, workflow: Any = None, **kwargs: Any) -> PPOTrainer:
    config, _ = load_expr_config(["--config", str(path), *overrides], GRPOConfig)
    with PPOTrainer(config, **kwargs) as trainer:
        trainer.train(workflow)
    return trainer


def weights(trainer: PPOTrainer) -> list[torch.Tensor]:
    return [p.detach().clone() for p in trainer.weights.module.parameters()]


@pytest.mark.heavy
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_preset_takes_finite_steps_that_change_the_model(
    tmp_path: Path, algorithm: str
) -> None:
    path = rl_yaml(tmp_path, algorithm)
    config, _ = load_expr_config(["--config", str(path)], GRPOConfig)
    with PPOTrainer(config) as trainer:
        before = weights(trainer)
        trainer.train()
    after = weights(trainer)
    assert any(not torch.equal(a, b) for a, b in zip(after, before, strict=True))
    assert all(bool(torch.isfinite(p).all()) for p in after)
    steps = train_stats(tmp_path)
    assert len(steps) == 3
    for stats in steps:
        assert math.isfinite(stats["loss"])
        assert math.isfinite(stats["grad_norm"])
        assert stats["skipped_updates"] == 0
        assert stats["rollout/accepted"] >= 4 * config.gconfig.n_samples
        # Rollout and trainer have one model: the log-probabilities agree to rounding.
        assert stats["logp_abs_diff"] < 1e-5
        assert stats["staleness"] == 0
    assert trainer.num_sequences == 3 * 4 * config.gconfig.n_samples
    assert (tmp_path / "e" / "t" / "model" / "model.safetensors").is_file()


def learn(folder: Path, algorithm: str, steps: int) -> list[float]:
    path = rl_yaml(
        folder,
        algorithm,
        total_train_steps=steps,
        gconfig={"n_samples": 8, "max_new_tokens": 4},
        train_dataset={
            "path": "tests.tiny_runs.get_digits_rl_dataset",
            "type": "rl",
            "batch_size": 8,
        },
    )
    trained(path, "actor.ppo_n_minibatches=1")
    return [stats["reward"] for stats in train_stats(folder)]


def test_grpo_learns_to_say_a_digit(tmp_path: Path) -> None:
    rewards = learn(tmp_path, "grpo", 25)
    assert sum(rewards[:2]) / 2 < 0.3
    assert sum(rewards[-3:]) / 3 > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_preset_learns_to_say_a_digit(tmp_path: Path, algorithm: str) -> None:
    # Dynamic sampling finds no group to learn from once all is learned.
    steps = 12 if algorithm == "dapo" else 60
    rewards = learn(tmp_path, algorithm, steps)
    assert sum(rewards[-5:]) / 5 > (0.6 if algorithm == "dapo" else 0.9)


@pytest.mark.parametrize("method", ["recompute", "loglinear", "metrics"])
def test_rollouts_may_run_ahead(tmp_path: Path, method: str) -> None:
    path = rl_yaml(tmp_path, "decoupled_ppo", total_train_steps=6)
    trained(path, "rollout.max_head_offpolicyness=2", f"actor.prox_logp_method={method}")
    steps = train_stats(tmp_path)
    assert len(steps) == 6
    assert max(stats["staleness_max"] for stats in steps) >= 1
    assert all(stats["staleness_max"] <= 2 for stats in steps)
    assert all(math.isfinite(stats["grad_norm"]) for stats in steps)


def test_a_reference_model_holds_the_policy_back(tmp_path: Path) -> None:
    drift = []
    for kl_ctl in (0.0, 50.0):
        folder = tmp_path / str(kl_ctl)
        path = rl_yaml(folder, total_train_steps=6)
        overrides = [f"actor.kl_ctl={kl_ctl}", "ref={path: ''}"]
        config, _ = load_expr_config(["--config", str(path), *overrides], GRPOConfig)
        with PPOTrainer(config) as trainer:
            before = weights(trainer)
            trainer.train()
        moved = sum(
            (a - b).square().sum().item() for a, b in zip(weights(trainer), before, strict=True)
        )
        drift.append(moved)
        assert (trainer.ref is not None) == (kl_ctl > 0)
    assert drift[0] != drift[1]


def test_minibatches_are_optimiser_steps(tmp_path: Path) -> None:
    path = rl_yaml(tmp_path, total_train_steps=2)
    trainer = trained(path, "actor.ppo_n_minibatches=3")
    assert trainer.weights.num_updates == 6
    assert trainer.actor.get_version() == 2
    for stats in train_stats(tmp_path):
        assert stats["n_valid_tokens"] == stats["n_gen_tokens"]


def test_the_seed_decides_rows_and_samples(tmp_path: Path) -> None:
    def run(name: str, seed: int) -> list[str]:
        path = rl_yaml(tmp_path / name, total_train_steps=2)
        trained(path, f"seed={seed}", "rollout.deterministic_sampling=true")
        episodes = (tmp_path / name / "e" / "t" / "episodes.jsonl").read_text().splitlines()
        return [json.loads(line)["prompt"] + json.loads(line)["completion"] for line in episodes]

    assert run("a", 1) == run("b", 1)
    first, other = run("c", 1), run("d", 2)
    assert first != other
    assert [text[:2] for text in first] != [text[:2] for text in other]


def get_answered_rl_dataset(path: str, **_: Any) -> list[dict[str, Any]]:
    rows = get_digits_rl_dataset(path)
    return [{**row, "answer": f"gold of {row['row']}"} for row in rows]


def test_sampled_episodes_are_read_turn_by_turn_beside_the_gold_answer(tmp_path: Path) -> None:
    kwargs = {"max_turns": 2, "turn_discount": 0.9, "feedback": "9=9="}
    path = rl_yaml(
        tmp_path,
        run={"workflow": "multi_turn", "workflow_kwargs": kwargs},
        train_dataset={"path": f"{__name__}.get_answered_rl_dataset"},
    )
    trained(path)
    lines = (tmp_path / "e" / "t" / "episodes.jsonl").read_text().splitlines()
    episodes = [json.loads(line) for line in lines]
    # A prompt is the row's number in its last digit, as the gold answer has it.
    assert all(each["prompt"] == each["answer"][-1] + "=" for each in episodes)
    retried = [each for each in episodes if each["turns"]]
    assert retried
    for each in retried:
        assert [turn["sampled"] for turn in each["turns"]] == [True, False, True]
        assert "9=9=" in each["turns"][1]["text"]
        assert "".join(turn["text"] for turn in each["turns"]) == each["completion"]


def test_dropout_is_off_in_rollouts_and_updates(tmp_path: Path) -> None:
    model = tiny_model("gpt2", resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5, vocab_size=14)
    model.save_pretrained(tmp_path / "model")
    character_tokenizer(CHARACTERS).save_pretrained(tmp_path / "model")
    path = rl_yaml(tmp_path)
    trained(path, f"actor.path={tmp_path / 'model'}", "run.model=null")
    assert all(stats["logp_abs_diff"] < 1e-5 for stats in train_stats(tmp_path))


# --- episodes that are not as they should be ----------------------------------------------------


class Silent(DigitWorkflow):
    """Returns episodes of which no token is trained on."""

    def finish(self, data: dict[str, Any], trajectory: dict[str, Any]) -> Any:
        trajectory["loss_mask"] *= 0
        return trajectory


def test_a_batch_without_a_trained_token_is_a_step_that_changes_nothing(tmp_path: Path) -> None:
    trainer = trained(rl_yaml(tmp_path), workflow=Silent)
    assert [stats["n_gen_tokens"] for stats in train_stats(tmp_path)] == [0, 0, 0]
    assert trainer.weights.num_updates == 0


def nan_logprob(t: dict[str, Any]) -> Any:
    t["logprobs"][0, -1] = math.nan
    return t


SPOILED: dict[str, Any] = {
    "raises": lambda t: t["nothing"],
    "nan_reward": lambda t: t | {"rewards": torch.tensor([math.nan])},
    "inf_reward": lambda t: t | {"rewards": torch.tensor([math.inf])},
    "nan_logprob": nan_logprob,
    "no_rewards": lambda t: {k: v for k, v in t.items() if k != "rewards"},
    "short_mask": lambda t: t | {"loss_mask": t["loss_mask"][:, 1:]},
    "flat_ids": lambda t: t | {"input_ids": t["input_ids"][0]},
    "float_ids": lambda t: t | {"input_ids": t["input_ids"].float()},
    "int_reward": lambda t: t | {"rewards": torch.tensor([1])},
    "list_reward": lambda t: t | {"rewards": [1.0]},
    "a_list": lambda t: [t],
    "a_word": lambda t: "done",
    "versions": lambda t: t | {"versions": t["versions"].float()},
    "negative_ids": lambda t: t | {"input_ids": t["input_ids"] - 10},
    "unknown_ids": lambda t: t | {"input_ids": t["input_ids"] + 1000},
    "one_key_more": lambda t: t | {"turn_ids": torch.zeros_like(t["versions"])},
    "one_key_less": lambda t: {k: v for k, v in t.items() if k != "versions"},
}


class Spoiled(DigitWorkflow):
    """Spoils a few episodes in every way of the table."""

    def __init__(self, gconfig: Any, tokenizer: Any, way: str = "raises", share: int = 4) -> None:
        super().__init__(gconfig, tokenizer)
        self.way = way
        self.share = share

    def finish(self, data: dict[str, Any], trajectory: dict[str, Any]) -> Any:
        spoils = data["row"] % self.share == 0
        return SPOILED[self.way](trajectory) if spoils else trajectory


def failures(folder: Path) -> dict[str, float]:
    """Returns the failures of all steps by name, and how many episodes were accepted."""
    total: dict[str, float] = {}
    for stats in train_stats(folder):
        for name, count in stats.items():
            if name.startswith("rollout/failed") or name == "rollout/accepted":
                total[name] = total.get(name, 0) + count
    return total


@pytest.mark.heavy
@pytest.mark.parametrize("way", SPOILED)
def test_a_spoiled_episode_is_rejected_counted_and_named(tmp_path: Path, way: str) -> None:
    path = rl_yaml(tmp_path)
    config, _ = load_expr_config(["--config", str(path)], GRPOConfig)
    with PPOTrainer(config) as trainer:
        trainer.train(Spoiled, workflow_kwargs={"way": way})
    found = failures(tmp_path)
    kind = "KeyError" if way == "raises" else "TrajectoryError"
    assert found["rollout/failed"] > 0
    assert found[f"rollout/failed/{kind}"] == found["rollout/failed"]
    # Rows whose episodes failed were replaced: each step trained on full batches.
    assert found["rollout/accepted"] >= 3 * 16
    assert [stats["n_seqs"] for stats in train_stats(tmp_path)] == [16] * 3


def test_when_most_episodes_fail_training_stops_with_the_cause(tmp_path: Path) -> None:
    config, _ = load_expr_config(["--config", str(rl_yaml(tmp_path))], GRPOConfig)
    with pytest.raises(EpisodeFailureError, match=r"rewards.*not finite"), PPOTrainer(config) as t:
        t.train(Spoiled, workflow_kwargs={"way": "nan_reward", "share": 1})
    record = json.loads((tmp_path / "e" / "t" / "run.json").read_text())
    assert "not finite" in record["status"]


class Choosy(DigitWorkflow):
    """Rejects most of its own episodes on purpose, which is no failure."""

    def finish(self, data: dict[str, Any], trajectory: dict[str, Any]) -> Any:
        return trajectory if data["row"] % 8 == 0 else None


def test_deliberate_rejections_never_stop_a_run(tmp_path: Path) -> None:
    trained(rl_yaml(tmp_path), workflow=Choosy)
    steps = train_stats(tmp_path)
    assert [stats["n_seqs"] for stats in steps] == [16] * 3
    assert sum(stats["rollout/rejected"] for stats in steps) > 64
    assert failures(tmp_path)["rollout/failed"] == 0


class Solved(DigitWorkflow):
    """Gives every answer the same reward."""

    def finish(self, data: dict[str, Any], trajectory: dict[str, Any]) -> Any:
        trajectory["rewards"][:] = 1.0
        return trajectory


@pytest.mark.parametrize(
    ("algorithm", "filter_fn"),
    [("dapo", None), ("grpo", "areal.trainer.filters.has_reward_variance")],
)
def test_a_filter_that_lets_nothing_pass_stops_the_run_and_keeps_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, filter_fn: str | None
) -> None:
    monkeypatch.setattr("areal.infra.workflow_executor._MAX_BARREN_ROWS", 40)
    path = rl_yaml(tmp_path, algorithm)
    config, _ = load_expr_config(["--config", str(path)], GRPOConfig)
    with (
        pytest.raises(EpisodeFailureError, match=r"rows.*dynamic_filter"),
        PPOTrainer(config) as trainer,
    ):
        trainer.train(Solved, dynamic_filter_fn=filter_fn)
    assert (tmp_path / "e" / "t" / "model" / "model.safetensors").is_file()


@pytest.mark.parametrize("dynamic_bs", [False, True])
def test_a_filter_makes_room_for_other_rows_or_a_smaller_batch(
    tmp_path: Path, dynamic_bs: bool
) -> None:
    path = rl_yaml(tmp_path, "dapo", total_train_steps=4, dynamic_bs=dynamic_bs)
    trained(path, "gconfig.n_samples=2")
    sizes = [stats["n_seqs"] for stats in train_stats(tmp_path)]
    assert all(stats["flat_group_ratio"] == 0 for stats in train_stats(tmp_path))
    if dynamic_bs:
        assert all(0 < size <= 8 for size in sizes)
        assert min(sizes) < 8
    else:
        assert sizes == [8] * 4


# --- evaluation and the end -----------------------------------------------------------------------


def test_evaluation_uses_its_own_settings_and_rows(tmp_path: Path) -> None:
    path = rl_yaml(
        tmp_path,
        total_train_steps=4,
        evaluator={"freq_steps": 2, "eval_before_train": True},
        eval_gconfig={"n_samples": 1, "greedy": True, "max_new_tokens": 4},
        valid_dataset={
            "path": "tests.tiny_runs.get_digits_rl_dataset",
            "type": "rl",
            "dataset_kwargs": {"size": 7},
        },
    )
    run_training(["--config", str(path)])
    rows = evaluations(tmp_path)
    assert [row["step"] for row in rows] == [0, 2, 4]
    assert all(row["stats"]["n_seqs"] == 7 for row in rows)


def test_a_trainer_evaluates_on_the_rows_it_is_given_alone(tmp_path: Path) -> None:
    named = {"path": "tests.tiny_runs.get_digits_rl_dataset", "type": "rl"}
    without, given = tmp_path / "without", tmp_path / "given"
    sections = {"evaluator": {"freq_steps": 1}, "valid_dataset": named}
    assert trained(rl_yaml(without, **sections), valid_dataset=None).valid_dataset is None
    assert not evaluations(without)
    trained(rl_yaml(given, **sections), valid_dataset=get_digits_rl_dataset("", size=3))
    assert [row["stats"]["n_seqs"] for row in evaluations(given)] == [12] * 3


def test_subclasses_find_the_engines_by_their_names(tmp_path: Path) -> None:
    overrides = ["run.algorithm=ppo", "actor.kl_ctl=0.1", "ref={}"]
    path = rl_yaml(tmp_path)
    config, _ = load_expr_config(["--config", str(path), *overrides], GRPOConfig)
    with PPOTrainer(config) as trainer:
        assert trainer.actor.inference_engine is trainer.rollout
        assert trainer.eval_rollout is trainer.rollout is not None
        engines = [trainer.actor, trainer.critic, trainer.ref]
        assert [isinstance(engine, PackedTrainEngine) for engine in engines] == [True] * 3


def evaluations(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "e" / "t" / "stats.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == "eval"]


@pytest.mark.parametrize("bound", ["nan", ".inf", "-.inf"])
def test_an_aim_that_is_never_or_always_reached_is_refused(tmp_path: Path, bound: str) -> None:
    with pytest.raises(ConfigError, match="stop_at_reward must be a finite number, found"):
        trained(rl_yaml(tmp_path), f"run.stop_at_reward={bound}")


def test_a_run_ends_when_its_aim_is_reached(tmp_path: Path) -> None:
    path = rl_yaml(
        tmp_path,
        total_train_steps=200,
        gconfig={"n_samples": 8, "max_new_tokens": 4},
    )
    trainer = trained(path, "run.stop_at_reward=0.6", "actor.ppo_n_minibatches=1")
    rewards = [stats["reward"] for stats in train_stats(tmp_path)]
    assert len(rewards) < 200
    assert sum(rewards[-10:]) / 10 > 0.6
    assert trainer.report is not None


def test_limits_of_a_run(tmp_path: Path) -> None:
    for name, limits, steps in (
        ("epochs", {"total_train_epochs": 1, "total_train_steps": None}, 10),
        ("steps", {"total_train_epochs": 9, "total_train_steps": 2}, 2),
        ("seqs", {"total_train_steps": None, "total_train_n_seqs": 50}, 3),
    ):
        folder = tmp_path / name
        trained(rl_yaml(folder, **limits))
        assert len(train_stats(folder)) == steps


class Forwarding(DigitWorkflow):
    """Takes what the base class takes, by keyword, as subclasses often do."""

    def __init__(self, mode: str = "plain", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode = mode


def test_a_workflow_that_forwards_keywords_gets_what_its_base_class_needs(tmp_path: Path) -> None:
    path = rl_yaml(tmp_path, "grpo")
    trainer = trained(path, workflow=Forwarding)
    assert len(train_stats(tmp_path)) == trainer.step


def test_another_model_over_an_old_trial_says_how_to_go_on(tmp_path: Path) -> None:
    path = rl_yaml(tmp_path, "grpo")
    trained(path, "recover.mode=auto", "total_train_steps=1")
    with pytest.raises(ConfigError, match=r"another trial_name, or recover\.mode=disabled"):
        trained(path, "recover.mode=auto", "run.model.hidden_size=48", "total_train_steps=2")
