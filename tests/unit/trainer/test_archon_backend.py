"""actor.backend=archon:d1 beside fsdp:d1: the same file trains the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from areal.api.cli_args import GRPOConfig, SFTConfig, load_expr_config
from areal.api.errors import ConfigError
from areal.engine.model.archon import ArchonCausalLM
from areal.trainer.ppo import PPOTrainer
from areal.trainer.sft import SFTTrainer
from tests.tiny_archon import BACKENDS
from tests.tiny_runs import rl_yaml, sft_yaml, train_stats

pytestmark = pytest.mark.usefixtures("short_runs")
STEPS = 5
# Ten times what fp32 sums in another order give after a few steps of AdamW.
TOLERANCE = 1e-4


def sft(folder: Path, *overrides: str) -> SFTTrainer:
    path = sft_yaml(folder, total_train_steps=STEPS)
    with SFTTrainer(load_expr_config(["--config", str(path), *overrides], SFTConfig)[0]) as trainer:
        trainer.train()
    return trainer


def rl(folder: Path, *overrides: str) -> PPOTrainer:
    path = rl_yaml(folder, total_train_steps=STEPS)
    given = ["rollout.deterministic_sampling=true", *overrides]
    with PPOTrainer(load_expr_config(["--config", str(path), *given], GRPOConfig)[0]) as trainer:
        trainer.train()
    return trainer


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trains a model for a moment, so that its logits are not all but equal."""
    folder = tmp_path_factory.mktemp("start")
    sft(folder)
    return folder / "e" / "t" / "model"


@pytest.mark.parametrize("train", [sft, rl])
def test_both_backends_train_alike_from_one_checkpoint(
    tmp_path: Path, checkpoint: Path, train: Any
) -> None:
    found = {}
    for backend in BACKENDS:
        folder = tmp_path / backend[:4]
        train(folder, f"actor.backend={backend}", f"actor.path={checkpoint}", "run.model=null")
        found[backend] = train_stats(folder)
    hf, archon = (found[backend] for backend in BACKENDS)
    for name in ("loss", "grad_norm"):
        expected = [stats[name] for stats in hf]
        assert [stats[name] for stats in archon] == pytest.approx(expected, abs=TOLERANCE)
        assert len(set(expected)) == STEPS
    if train is rl:
        assert [s["reward"] for s in archon] == [s["reward"] for s in hf]
        assert max(stats["logp_abs_diff_max"] for stats in archon) < 1e-5


def test_the_engine_that_generates_holds_the_trained_weights(tmp_path: Path) -> None:
    trainer = rl(tmp_path, "actor.backend=archon:d1", "actor.kl_ctl=0.1", "ref.backend=archon:d1")
    assert isinstance(trainer.weights.lm, ArchonCausalLM)
    assert trainer.rollout._decoder.lm is trainer.actor.lm is trainer.weights.lm
    assert not (tmp_path / "e/t/weight_update").exists()
    assert trainer.ref is not None
    assert trainer.ref.lm is not trainer.actor.lm


def test_transformers_reads_what_was_trained(tmp_path: Path) -> None:
    trainer = sft(tmp_path, "actor.backend=archon:d1")
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "e/t/model")
    ids = torch.tensor([3, 5, 4, 7])
    with torch.no_grad():
        expected = model(input_ids=ids[None], use_cache=False).logits[0]
        found = trainer.weights.lm.logits(ids, torch.arange(4), [4])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert model.config.eos_token_id == trainer.tokenizer.eos_token_id


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["run.model.architecture=no_such_thing"], "not a transformers model type"),
        (["run.model.architecture=helium"], r"scaffold add-archon-model helium.*known: .*qwen3"),
        (["actor.backend=archon:d2t2"], "torchrun --nproc-per-node 4"),
        (["actor.backend=archon:p2", "actor.archon.pp_schedule=DualPipeV"], "cannot run forward"),
        (["actor.archon.attn_type=tree"], "no tree attention"),
        (["actor.enable_tree_training=true"], "no tree attention"),
        (["actor.archon.offload_params=true"], "offload_params"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path: Path, options: list[str], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        sft(tmp_path, "actor.backend=archon:d1", *options)


@pytest.mark.parametrize(
    "option",
    [
        "actor.archon.attn_type=sdpa",
        "actor.archon.ac_mode=full",
        "actor.archon.selective_ac_option='2'",
    ],
)
def test_settings_of_the_engine_change_no_loss(tmp_path: Path, option: str) -> None:
    options = ["actor.backend=archon:d1", "actor.gradient_checkpointing=true"]
    sft(tmp_path / "plain", "actor.backend=archon:d1")
    trainer = sft(tmp_path / "set", *options, option)
    plain, found = ([s["loss"] for s in train_stats(tmp_path / name)] for name in ("plain", "set"))
    assert found == pytest.approx(plain, abs=1e-5)
    name = option.partition("=")[0].rpartition(".")[2]
    assert getattr(trainer.weights.lm.options, name) in option
