"""Runs with images: text beside them, broken ones, a kill in the middle, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2VLConfig

from areal.api.cli_args import GRPOConfig, SFTConfig, TrainEngineConfig, load_expr_config
from areal.api.errors import ConfigError, DatasetError
from areal.engine.fsdp_engine import FSDPEngine
from areal.trainer.ppo import PPOTrainer
from areal.trainer.ppo.checks import check_ppo_config
from areal.trainer.sft import SFTTrainer
from areal.trainer.supervised import check_supervised_config
from areal.utils.hf_utils import load_hf_processor_and_tokenizer
from tests.tiny_images import MODEL
from tests.tiny_runs import MODEL as TEXT_MODEL
from tests.tiny_runs import rl_yaml, sft_yaml, train_stats

pytestmark = pytest.mark.usefixtures("short_runs")


class Killed(BaseException):
    """Takes the place of the end of the process."""


def images_yaml(folder: Path, **sections: Any) -> Path:
    run = {
        "algorithm": "grpo",
        "workflow": "vision_rlvr",
        "workflow_kwargs": {"enable_thinking": False},
        "reward_fn": "tests.tiny_images.sevens",
        "model": MODEL,
        **sections.pop("run", {}),
    }
    rows = {"path": "tests.tiny_images.get_pictures_rl_dataset", **sections.pop("rows", {})}
    return rl_yaml(folder, run=run, train_dataset=rows, **sections)


def trained(path: Path, *overrides: str, dies_at: int | None = None) -> PPOTrainer:
    config, _ = load_expr_config(["--config", str(path), *overrides], GRPOConfig)
    trainer = PPOTrainer(config)
    step = trainer._train_step

    def mortal_step() -> Any:
        if trainer.step == dies_at:
            raise Killed
        return step()

    trainer._train_step = mortal_step  # type: ignore[method-assign]
    try:
        with trainer:
            trainer.train()
    except Killed:
        assert dies_at is not None
    return trainer


def weights(trainer: PPOTrainer) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in trainer.weights.module.named_parameters()}


@pytest.mark.heavy
def test_a_run_with_rows_of_no_one_and_two_images_resumes_bit_for_bit(tmp_path: Path) -> None:
    # A reference, recomputed log-probabilities, minibatches and micro-batches see the images too.
    sections: dict[str, Any] = {
        "actor": {
            "optimizer": {"lr": 0.01, "warmup_steps": 0},
            "ppo_n_minibatches": 2,
            "use_decoupled_loss": True,
            "recompute_logprob": True,
            "kl_ctl": 0.1,
            "mb_spec": {"max_tokens_per_mb": 64},
        },
        "ref": {"path": ""},
        "rollout": {"deterministic_sampling": True},
        "recover": {"freq_steps": 1},
        "total_train_steps": 4,
    }
    whole = trained(images_yaml(tmp_path / "whole", **sections))
    path = images_yaml(tmp_path / "killed", **sections)
    trained(path, dies_at=2)
    resumed = trained(path)
    before, after = weights(whole), weights(resumed)
    assert all(torch.equal(before[name], after[name]) for name in before)
    losses = [[s["loss"] for s in train_stats(tmp_path / name)] for name in ("whole", "killed")]
    assert losses[0] == losses[1]
    for stats in train_stats(tmp_path / "whole"):
        # Trainer and rollout: the bound of text.
        assert stats["logp_abs_diff_max"] < 1e-5
        assert stats["skipped_updates"] == 0
    seen = [name for name in before if ".visual." in name]
    start = PPOTrainer(load_expr_config(["--config", str(path), "trial_name=n"], GRPOConfig)[0])
    assert any(not torch.equal(weights(start)[name], before[name]) for name in seen)


def test_broken_images_cost_their_episodes_and_not_the_run(tmp_path: Path) -> None:
    path = images_yaml(tmp_path, rows={"dataset_kwargs": {"broken": True}})
    trained(path)
    assert len(train_stats(tmp_path)) == 3
    warned = [
        json.loads(line)
        for line in (tmp_path / "e" / "t" / "stats.jsonl").read_text().splitlines()
        if '"warning"' in line
    ]
    assert [row["code"] for row in warned if row["code"] == "episodes_failed"]


def test_the_model_that_is_left_sees_and_trains_on(tmp_path: Path) -> None:
    trained(images_yaml(tmp_path, total_train_steps=1))
    folder = tmp_path / "e" / "t" / "model"
    processor, tokenizer = load_hf_processor_and_tokenizer(str(folder))
    assert processor is not None
    assert processor.chat_template == tokenizer.chat_template
    assert "attn_implementation" not in (folder / "config.json").read_text()
    next_one = images_yaml(tmp_path / "next", run={"model": None}, total_train_steps=1)
    trained(next_one, f"actor.path={folder}", "actor.init_from_scratch=false")
    assert train_stats(tmp_path / "next")


def test_supervised_rows_may_have_images(tmp_path: Path) -> None:
    path = sft_yaml(
        tmp_path,
        run={"model": {**MODEL, "characters": "0123456789?"}},
        train_dataset={"path": "shapes", "dataset_kwargs": {"size": 8}},
        total_train_steps=8,
    )
    config, _ = load_expr_config(["--config", str(path)], SFTConfig)
    with SFTTrainer(config) as trainer:
        trainer.train()
    losses = [stats["loss"] for stats in train_stats(tmp_path)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("images_first", [True, False])
def test_supervised_rows_with_and_without_images_mix(tmp_path: Path, images_first: bool) -> None:
    path = sft_yaml(
        tmp_path,
        run={"model": {**MODEL, "characters": "0123456789?"}},
        train_dataset={"path": "shapes", "dataset_kwargs": {"size": 4}, "shuffle": False},
        total_train_steps=2,
    )
    config, _ = load_expr_config(["--config", str(path)], SFTConfig)
    with SFTTrainer(config) as first:
        seen = [dict(first.train_dataset[i]) for i in range(4)]
        text = {"input_ids": first.tokenizer.encode("12"), "loss_mask": [0, 1]}
    rows = [each for row in seen for each in ((row, text) if images_first else (text, row))]
    with SFTTrainer(config, train_dataset=rows) as trainer:
        trainer.train()
    assert len(train_stats(tmp_path)) == 2
    blind = ["run.model.vision=null", "run.model.architecture=qwen3"]
    config, _ = load_expr_config(["--config", str(path), *blind], SFTConfig)
    with pytest.raises(DatasetError, match=r"row [01] has images .* takes text alone"):
        SFTTrainer(config, train_dataset=rows)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["run.model.vision=null"], r"or describe one in run\.model\.vision"),
        (["run.model.architecture=qwen3"], r"takes no images; set run\.model\.vision=null"),
        (["run.model.architecture=llava"], "cannot be made from scratch"),
        (["actor.backend=archon:d1"], "no Archon model for model_type 'qwen2_vl'"),
    ],
)
def test_what_images_do_not_go_with_is_refused_at_the_start(
    tmp_path: Path, overrides: list[str], message: str
) -> None:
    path = images_yaml(tmp_path)
    config, _ = load_expr_config(["--config", str(path), *overrides], GRPOConfig)
    with pytest.raises((ConfigError, DatasetError), match=message):
        PPOTrainer(config)


@pytest.mark.parametrize("has_path", [False, True])
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["run.algorithm=ppo", "gconfig.n_samples=1"], "critic is not available beside a model"),
        (["rollout.backend=local:d2"], "this package's own servers, which take no images"),
        (["actor.backend=fsdp:t2"], r"'fsdp:t2' shares the model among processes"),
    ],
)
def test_it_is_refused_before_anything_is_loaded_or_started(
    tmp_path: Path, overrides: list[str], message: str, has_path: bool
) -> None:
    if has_path:
        folder = without_weights(tmp_path)
        overrides = [*overrides, f"actor.path={folder}", "run.model=null"]
    config, _ = load_expr_config(["--config", str(images_yaml(tmp_path)), *overrides], GRPOConfig)
    with pytest.raises(ConfigError, match=message):
        check_ppo_config(config)


def test_several_processes_are_refused_for_rows_that_are_given(tmp_path: Path) -> None:
    model = {**MODEL, "characters": "0123456789?"}
    path = sft_yaml(tmp_path, run={"model": model}, actor={"backend": "fsdp:d2"})
    config, _ = load_expr_config(["--config", str(path)], SFTConfig)
    with pytest.raises(ConfigError, match="'fsdp:d2' shares the model among processes"):
        check_supervised_config(config)


def without_weights(folder: Path) -> Path:
    """Writes the configuration of an image model, whose weights nobody can load."""
    path = folder / "checkpoint"
    Qwen2VLConfig().save_pretrained(path)
    return path


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use_lora": True}, r"takes images; set actor\.use_lora=false"),
        ({"is_critic": True}, "name a model of text alone"),
    ],
)
def test_an_adapter_and_a_reward_model_are_refused_by_the_configuration(
    tmp_path: Path, settings: dict[str, bool], message: str
) -> None:
    pytest.importorskip("peft")
    path = str(without_weights(tmp_path))
    config = TrainEngineConfig(path=path, backend="fsdp:d1", **settings)
    with pytest.raises(ConfigError, match=message):
        FSDPEngine.load_model(config, torch.float32, torch.device("cpu"))


def test_a_model_of_text_alone_is_refused_for_rows_with_images(tmp_path: Path) -> None:
    path = images_yaml(tmp_path, run={"model": TEXT_MODEL})
    config, _ = load_expr_config(["--config", str(path)], GRPOConfig)
    with pytest.raises(
        DatasetError, match=r"needs a processor; name an image model in actor\.path"
    ):
        PPOTrainer(config)
    rows = [{"row": i, "messages": "7=", "images": []} for i in range(4)]
    with PPOTrainer(config, rows) as trainer, pytest.raises(ConfigError, match="has no processor"):
        trainer.train()
