"""A wrong configuration is one line that names the key, before anything is written or trained."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from areal.api.errors import ArealError
from areal.trainer.run import run_training
from areal.utils.character_tokenizer import character_tokenizer
from tests.fakes import tiny_tokenizer
from tests.tiny_models import tiny_model
from tests.tiny_runs import MODEL, pairs_yaml, rl_yaml, sft_yaml


def get_odd_sft_dataset(path: str, **_: Any) -> list[dict[str, Any]]:
    return [{"input_ids": [3, 4]}] * 40


def get_odd_rl_dataset(path: str, **_: Any) -> list[dict[str, Any]]:
    return [{"question": "1="}] * 40


def get_odd_rw_dataset(path: str, **_: Any) -> list[dict[str, Any]]:
    return [{"chosen_ids": [3, 4]}] * 40


def get_odd_dpo_dataset(path: str, **_: Any) -> list[dict[str, Any]]:
    return [{"chosen_ids": [3, 4], "rejected_ids": [3, 5]}] * 40


def get_empty_rw_dataset(path: str, **_: Any) -> list[dict[str, Any]]:
    good = {"chosen_ids": [3, 4], "rejected_ids": [3, 5]}
    return [good, good | {"rejected_ids": []}] * 20


def get_empty_dpo_dataset(path: str, **_: Any) -> list[dict[str, Any]]:
    rows = get_empty_rw_dataset(path)
    return [
        row | {f"{side[:-4]}_loss_mask": [0, 1][: len(row[side])] for side in row} for row in rows
    ]


def get_equal_rw_dataset(path: str, **_: Any) -> list[dict[str, Any]]:
    return [{"chosen_ids": [3, 4], "rejected_ids": [3, 4]}] * 40


class Agent:
    """Is an agent that needs more than the trainer has."""

    def __init__(self, patience: int) -> None: ...

    async def run(self, data: dict[str, Any], **_: Any) -> float:
        return 1.0


class FussyWorkflow:
    """Is made with words that are not there."""

    def __init__(self, gconfig: Any, mood: str) -> None:
        raise ValueError(f"mood {mood!r} is not supported")

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> None: ...


pytestmark = pytest.mark.usefixtures("short_runs")
HERE = __name__
OVERLONG = [
    f"actor.overlong_{name}" for name in ("reward_penalty=true", "tokens=2", "penalty_factor=1")
]
RL: list[tuple[dict[str, Any] | list[str], str]] = [
    (["run.eval_workflow_kwargs={x: 1}"], "Set the missing ones in run.eval_workflow_kwargs"),
    (["actor.mb_spec.granularity=3"], "not a multiple of mb_spec.granularity=3"),
    (["actor.mb_spec.n_mbs_divisor=40"], "mb_spec.n_mbs_divisor=40"),
    # keys and values of the file
    (["actor.optimiser.lr=1"], "actor.optimizer"),
    (["gconfig.temprature=1"], "gconfig.temperature"),
    (["actor.optimizer.lr=fast"], "actor.optimizer.lr"),
    (["run.algorithm=grop"], "grpo"),
    (["run.algorithm=dpo"], "use DPOConfig"),
    (["train_dataset.type=dpo"], "unknown key 'gconfig'"),
    (["train_dataset.type=ppo"], "train_dataset.type"),
    (["trial_name=../../t"], "trial_name must name a folder inside cluster.fileroot"),
    (["experiment_name=/e"], "experiment_name must name a folder inside cluster.fileroot"),
    (["train_dataset.path=rows/none.jsonl"], "there is no data file 'rows/none.jsonl'"),
    (["cluster.fileroot=/dev/null"], "cannot write to /dev/null/"),
    (["cluster.fileroot=/dev/null", "rollout.backend=local:d2"], "cluster.fileroot"),
    (["seed=99999999999999999999"], "seed"),
    # models
    (["run.model=null"], "actor.path"),
    (["actor.path=./no/model/here"], "./no/model/here"),
    (["run.model.architecture=no_such"], "no_such"),
    (["run.model.architecture=nemotron"], "attention_plan"),
    (["run.model.num_attention_heads=3", "run.model.num_key_value_heads=2"], "num_attention_heads"),
    (["tokenizer_path=./no/tokenizer"], "correct tokenizer_path"),
    (["actor.optimizer=null"], "actor.optimizer"),
    (["actor.optimizer.type=adam_bf16"], "adam_bf16"),
    # what is not there
    (["rollout.backend=sglang:d1"], "rollout.backend"),
    (["rollout.backend=fsdp:d1"], "rollout.backend"),
    (["actor.use_lora=true"], "actor.use_lora"),
    (["actor.weight_update_mode=awex"], "weight_update_mode"),
    (["actor.is_critic=true"], "actor.is_critic"),
    (["scheduler.type=slurm"], "scheduler.type"),
    (["cluster.n_nodes=2"], "cluster.n_nodes 2 is not available here: a run has one machine"),
    (["cluster.n_nodes=2", "rollout.backend=local:d2"], "cluster.n_nodes 2"),
    (["actor.optimizer_dtype=bfloat16"], "actor.optimizer_dtype 'bfloat16'"),
    (["critic.use_lora=true", "run.algorithm=ppo"], "critic.use_lora"),
    (["teacher={path: x}"], "teacher"),
    # value models
    (["critic={path: x}"], "run.algorithm grpo has a baseline of its own and no use for critic"),
    (["run.algorithm=ppo", "critic=null"], "describe it in critic"),
    (["run.algorithm=ppo", "critic.path=./no/such"], "there is no checkpoint folder './no/such'"),
    (["run.algorithm=ppo", "critic.path=./no/such"], "correct critic.path"),
    (["run.algorithm=ppo", "critic.backend=fsdp:d2"], "critic.backend 'fsdp:d2' takes 2 processes"),
    (["run.algorithm=ppo", "run.model.architecture=opt"], "no model for token classification"),
    (["run.algorithm=ppo", "critic.ppo_n_minibatches=0"], "critic.ppo_n_minibatches"),
    (["run.algorithm=ppo", "critic.eps_clip=0"], "critic.eps_clip"),
    (["run.algorithm=ppo", "critic.is_critic=false"], "critic.is_critic is false"),
    (["run.algorithm=ppo", "critic.epsclip=1"], "critic.eps_clip"),
    (["actor.kl_ctl=0.1", "ref={is_critic: true}"], "ref.is_critic"),
    # what does not go together
    (["gconfig.temperature=0.5"], "actor.temperature"),
    (["gconfig.greedy=true", "actor.temperature=0.5"], "actor.temperature"),
    (["actor.kl_ctl=0.1"], "actor.kl_ctl"),
    ([*OVERLONG, "actor.max_new_tokens=1"], "actor.overlong_tokens"),
    (OVERLONG, "actor.max_new_tokens=${gconfig.max_new_tokens}"),
    (["rollout.consumer_batch_size=2"], "consumer_batch_size"),
    (["train_dataset.batch_size=50"], "batch_size"),
    (["train_dataset.dataset_kwargs={size: 0}"], "no rows"),
    # names
    (["run.reward_fn=gsm8"], "gsm8k"),
    (["run.reward_fn=no.such.reward"], "no.such.reward"),
    (["run.reward_fn=''"], "run.reward_fn"),
    (["run.workflow=rlv"], "rlvr"),
    (["run.workflow=tests.tiny_runs.NoSuch"], "NoSuch"),
    (["run.eval_workflow=rlv"], "rlvr"),
    (["run.workflow=tests.tiny_runs.MODEL"], "run.workflow"),
    (["run.workflow=os.getcwd"], "run.workflow"),
    ([f"run.workflow={HERE}.Agent"], "patience"),
    (
        [
            f"run.workflow={HERE}.Agent",
            "run.workflow_kwargs={patience: 1}",
            "rollout.agent.export_style=concat",
        ],
        "chat_template_type",
    ),
    (
        ["rollout.agent.mode=online", "rollout.deterministic_sampling=true"],
        "rollout.deterministic_sampling",
    ),
    (["run.workflow_kwargs={moood: 1}"], "moood"),
    (
        ["run.workflow=multi_turn", "run.workflow_kwargs={max_turns: 0, turn_discount: 1}"],
        "max_turns",
    ),
    ([f"run.workflow={HERE}.FussyWorkflow", "run.workflow_kwargs={mood: odd}"], "mood"),
    (["run.dynamic_filter=no.such.filter"], "run.dynamic_filter"),
    (["run.dynamic_filter=plain"], "run.dynamic_filter"),
    (["run.dynamic_filter=tests.tiny_runs.MODEL"], "run.dynamic_filter"),
    (["actor.gae_lambda=no.such.function"], "actor.gae_lambda"),
    (["train_dataset.path=gsm9k"], "gsm8k"),
    (["train_dataset.path=no.such.loader"], "no.such.loader"),
    (["train_dataset.path=arithmetic", "train_dataset.split=tset"], "tset"),
    (["train_dataset.path=arithmetic", "train_dataset.dataset_kwargs={sise: 1}"], "size"),
    (["valid_dataset={path: gsm9k, type: rl}"], "gsm8k"),
]
SFT: list[tuple[list[str], str]] = [
    ([f"train_dataset.path={HERE}.get_odd_sft_dataset"], "loss_mask"),
    (["actor.optimizer=null"], "actor.optimizer"),
    (["run.algorithm=grpo"], "run.algorithm"),
    (["post_exit_hook=ls"], "post_exit_hook 'ls'"),
    (["actor.enable_tree_training=true", "actor.backend=fsdp:d2"], "actor.enable_tree_training"),
    ([f"valid_dataset={{path: {HERE}.get_odd_sft_dataset, type: sft}}"], "loss_mask"),
    (["actor.is_critic=true"], "actor.is_critic"),
    (["run.workflow=multi_turn"], "run.workflow 'multi_turn' has no effect"),
]
PAIRS: list[tuple[str, list[str], str]] = [
    ("dpo", [f"train_dataset.path={HERE}.get_odd_dpo_dataset"], "no chosen_loss_mask and no"),
    ("rw", [f"train_dataset.path={HERE}.get_odd_rw_dataset"], "have no rejected_ids"),
    ("dpo", [f"train_dataset.path={HERE}.get_empty_dpo_dataset"], "row 1 has an empty rejected"),
    ("rw", [f"train_dataset.path={HERE}.get_empty_rw_dataset"], "row 1 has an empty rejected_ids"),
    ("rw", [f"train_dataset.path={HERE}.get_equal_rw_dataset"], "of all 40 pairs are the same"),
    ("rw", ["run.model.max_position_embeddings=4"], "and the model takes 4; set max_length"),
    (
        "rw",
        [f"valid_dataset={{path: {HERE}.get_equal_rw_dataset, type: rw}}"],
        "valid_dataset: both sides",
    ),
    ("rw", ["actor.is_critic=false"], "actor.is_critic=true"),
    ("rw", ["actor.temperature=0.5"], "actor.temperature 0.5 has no effect"),
    ("rw", ["actor.beta=0.1"], "actor.beta"),
    ("rw", ["run.model.architecture=opt"], "token classification"),
    ("rw", ["run.algorithm=dpo"], "use DPOConfig"),
    ("dpo", ["run.reward_fn=gsm8k"], "run.reward_fn 'gsm8k' has no effect"),
    ("dpo", ["actor.is_critic=true"], "actor.is_critic makes a value model"),
    ("dpo", ["ref.is_critic=true"], "ref.is_critic makes a value model"),
    ("dpo", ["actor.beta=0"], "actor.beta"),
    ("dpo", ["actor.loss_type=hinge"], "hinge"),
    ("dpo", ["ref.beta=0.5"], "ref.beta 0.5 has no effect; set actor.beta"),
    ("dpo", ["ref.optimizer={lr: 1}"], "ref.optimizer"),
    ("dpo", ["ref.temperature=0.5"], "ref.temperature is 0.5 and actor.temperature 1.0"),
    ("dpo", ["ref.path=./no/model/here"], "there is no checkpoint folder './no/model/here'"),
    ("dpo", ["ref.backend=fsdp:d2"], "ref.backend 'fsdp:d2' takes 2 processes and actor.backend"),
    ("dpo", ["ref.backend=archon:d1"], "makes another model of run.model"),
    ("dpo", ["ref.use_lora=true"], "ref.use_lora"),
]


def check(path: Path, overrides: list[str], words: str, folder: Path) -> None:
    with pytest.raises(ArealError) as caught:
        run_training(["--config", str(path), *overrides])
    message = str(caught.value)
    assert words in message
    assert len(message) < 2000
    assert not list(folder.rglob("recover"))


@pytest.mark.parametrize(
    ("overrides", "words"), RL, ids=lambda v: v[0] if isinstance(v, list) else ""
)
def test_a_wrong_rl_configuration(tmp_path: Path, overrides: list[str], words: str) -> None:
    check(rl_yaml(tmp_path), overrides, words, tmp_path)


@pytest.mark.parametrize(
    ("overrides", "words"), SFT, ids=lambda v: v[0] if isinstance(v, list) else ""
)
def test_a_wrong_sft_configuration(tmp_path: Path, overrides: list[str], words: str) -> None:
    check(sft_yaml(tmp_path), overrides, words, tmp_path)


@pytest.mark.parametrize(
    ("kind", "overrides", "words"), PAIRS, ids=lambda v: v[0] if isinstance(v, list) else v[:40]
)
def test_a_wrong_configuration_of_pairs(
    tmp_path: Path, kind: str, overrides: list[str], words: str
) -> None:
    check(pairs_yaml(tmp_path, kind), overrides, words, tmp_path)


def test_a_reference_without_a_path_beside_an_actor_with_one(tmp_path: Path) -> None:
    tiny_model("qwen3").save_pretrained(tmp_path / "model")
    character_tokenizer(MODEL["characters"]).save_pretrained(tmp_path / "model")
    overrides = [f"actor.path={tmp_path / 'model'}", "train_dataset.dataset_kwargs={size: 4}"]
    check(pairs_yaml(tmp_path, "dpo"), overrides, "ref.path is empty; name the model", tmp_path)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda p: None, "config.yaml"),
        (lambda p: p.write_text("a: [1"), "config.yaml:"),
        (lambda p: p.write_text("just text"), "config.yaml"),
        (lambda p: p.write_bytes(b"\xff\xfe\x00"), "config.yaml"),
        (lambda p: p.write_text("{}"), "train_dataset.type"),
        (lambda p: p.write_text("train_dataset: {type: rl, path: arithmetic}"), "experiment_name"),
    ],
)
def test_a_file_that_is_no_configuration(
    tmp_path: Path, write: Callable[[Path], Any], words: str
) -> None:
    write(tmp_path / "config.yaml")
    with pytest.raises(ArealError, match=words):
        run_training(["--config", str(tmp_path / "config.yaml")])


def test_rows_without_the_columns_of_a_registered_dataset(tmp_path: Path) -> None:
    data = tmp_path / "gsm8k"
    data.mkdir()
    (data / "train.jsonl").write_text(json.dumps({"prompt": "1+1", "answer": "2"}) + "\n")
    path = rl_yaml(tmp_path, train_dataset={"path": str(data)})
    check(path, [], "question", tmp_path)


def test_rows_without_what_the_workflow_reads(tmp_path: Path) -> None:
    path = rl_yaml(tmp_path, train_dataset={"path": f"{HERE}.get_odd_rl_dataset"})
    check(path, [], "messages", tmp_path)


def test_a_checkpoint_of_a_model_that_cannot_be_served(tmp_path: Path) -> None:
    tiny_model("lfm2").save_pretrained(tmp_path / "model")
    tiny_tokenizer("ab").save_pretrained(tmp_path / "model")
    check(rl_yaml(tmp_path), [f"actor.path={tmp_path / 'model'}"], "conv", tmp_path / "e")


def test_a_tokenizer_of_another_model(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "tokenizer")
    overrides = [f"actor.path={tmp_path / 'model'}", f"tokenizer_path={tmp_path / 'tokenizer'}"]
    check(sft_yaml(tmp_path), overrides, "do not belong together", tmp_path)


@pytest.mark.parametrize(
    ("vocabulary", "words"),
    [
        ("0123456789=+", "and critic.path"),  # fewer embeddings than the run has tokens
        ("9876543210=", "has another tokenizer than the run"),
    ],
)
def test_a_critic_that_reads_other_tokens(tmp_path: Path, vocabulary: str, words: str) -> None:
    size = 12 if "+" in vocabulary else 20
    tiny_model("qwen3", vocab_size=size).save_pretrained(tmp_path / "critic")
    character_tokenizer(vocabulary).save_pretrained(tmp_path / "critic")
    overrides = ["run.algorithm=ppo", f"critic.path={tmp_path / 'critic'}"]
    check(rl_yaml(tmp_path), overrides, words, tmp_path / "e")


def test_a_critic_without_a_path_beside_an_actor_with_one(tmp_path: Path) -> None:
    tiny_model("qwen3").save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    overrides = [f"actor.path={tmp_path / 'model'}", "run.model=null", "run.algorithm=ppo"]
    words = "critic.path is empty; give a checkpoint folder or a hub id"
    check(rl_yaml(tmp_path), [*overrides, "critic.path=''"], words, tmp_path / "e")


def test_the_working_folder_stays_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    check(rl_yaml(tmp_path / "runs"), ["gconfig.temperature=0.5"], "temperature", tmp_path)
    assert os.listdir(work) == []
    assert MODEL["head_dim"] == 16
