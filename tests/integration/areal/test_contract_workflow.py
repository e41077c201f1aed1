"""Code and a configuration that were written for AReaL run unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from areal.api import ModelRequest
from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.engine.loading.huggingface import load_model, resolve_dtype
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.model.shared_weights import SharedWeights
from areal.utils import stats_tracker
from areal.utils.character_tokenizer import character_tokenizer
from tests.integration.areal import written_for_areal
from tests.tiny_models import tiny_model
from tests.tiny_runs import CHARACTERS, train_stats

# As AReaL's own single-node examples are written, interpolations and all.
YAML = """
experiment_name: e
trial_name: t
seed: 1
enable_offload: false
total_train_epochs: 10
total_train_steps: 3
tokenizer_path: ${actor.path}
cluster:
  n_nodes: 1
  n_gpus_per_node: 8
  fileroot: FOLDER
  name_resolve:
    type: nfs
    nfs_record_root: FOLDER/name_resolve
scheduler:
  type: null
rollout:
  backend: "sglang:d4p1t1"
  experiment_name: ${experiment_name}
  trial_name: ${trial_name}
  max_concurrent_rollouts: 256
  queue_size: null
  consumer_batch_size: ${train_dataset.batch_size}
  max_head_offpolicyness: 2
  enable_rollout_tracing: false
  check_trajectory_format: true
  scheduling_spec: ${actor.scheduling_spec}
gconfig:
  n_samples: 4
  min_new_tokens: 0
  max_new_tokens: 6
  greedy: false
  temperature: 1.0
actor:
  backend: "fsdp:d4p1t1"
  experiment_name: ${experiment_name}
  trial_name: ${trial_name}
  path: FOLDER/model
  init_from_scratch: false
  disable_dropout: true
  gradient_checkpointing: true
  dtype: float32
  mb_spec:
    max_tokens_per_mb: 10240
  optimizer:
    type: adam
    lr: 1.70e-3
    weight_decay: 0.017
    beta1: 0.9
    beta2: 0.999
    eps: 1e-8
    lr_scheduler_type: constant
    gradient_clipping: 1.0
    warmup_steps_proportion: 0.001
  eps_clip: 0.4
  temperature: ${gconfig.temperature}
  reward_scaling: 10.0
  reward_bias: -0.5
  kl_ctl: 0.0
  ppo_n_minibatches: 1
  recompute_logprob: true
  use_decoupled_loss: true
  reward_norm:
    mean_level: group
    std_level: group
    group_size: ${gconfig.n_samples}
  adv_norm:
    mean_level: batch
    std_level: batch
  max_new_tokens: ${gconfig.max_new_tokens}
  scheduling_spec:
    - task_type: worker
      port_count: 2
      gpu: 1
      mem: 32
      cmd: python3 -m areal.infra.rpc.rpc_server
      env_vars: {}
ref:
  backend: ${actor.backend}
  experiment_name: ${experiment_name}
  trial_name: ${trial_name}
  path: ${actor.path}
  dtype: ${actor.dtype}
  mb_spec:
    max_tokens_per_mb: 10240
  optimizer: null
sglang:
  model_path: ${actor.path}
  random_seed: ${seed}
  dtype: ${actor.dtype}
  max_running_requests: null
  context_length: 32768
  mem_fraction_static: 0.8
train_dataset:
  batch_size: 4
  shuffle: true
  pin_memory: true
  num_workers: 0
  path: LOADER
  type: rl
  max_length: 1024
valid_dataset:
  batch_size: 4
  pin_memory: true
  num_workers: 0
  path: LOADER
  type: rl
saver:
  experiment_name: ${experiment_name}
  trial_name: ${trial_name}
  fileroot: ${cluster.fileroot}
  freq_epochs: 1
  freq_steps: null
  freq_secs: null
recover:
  mode: disabled
  experiment_name: ${experiment_name}
  trial_name: ${trial_name}
  fileroot: ${cluster.fileroot}
  freq_epochs: 1
  freq_steps: null
  freq_secs: 3600
evaluator:
  experiment_name: ${experiment_name}
  trial_name: ${trial_name}
  fileroot: ${cluster.fileroot}
  freq_epochs: null
  freq_steps: 3
  freq_secs: null
stats_logger:
  experiment_name: ${experiment_name}
  trial_name: ${trial_name}
  fileroot: ${cluster.fileroot}
  wandb:
    mode: disabled
"""
# What one says on a machine without a cluster.
LOCAL = ["scheduler.type=local", "rollout.backend=local:d1", "actor.backend=fsdp:d1"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    tokenizer = character_tokenizer(CHARACTERS)
    model = tiny_model("qwen3", vocab_size=len(tokenizer))
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    loader = f"{written_for_areal.__name__}.get_digits_rl_dataset"
    path = tmp_path / "gsm8k_grpo.yaml"
    path.write_text(YAML.replace("FOLDER", str(tmp_path)).replace("LOADER", loader))
    return path


def test_a_training_script_for_areal_runs_unchanged(config: Path, tmp_path: Path) -> None:
    stats_tracker.get("rollout").export()
    written_for_areal.main(["--config", str(config), *LOCAL])
    steps = train_stats(tmp_path)
    assert len(steps) == 3
    for stats in steps:
        assert stats["n_seqs"] == 16
        assert stats["rollout/failed"] == 0
        assert stats["staleness_max"] <= 2
    # An episode may end while the step before its own goes on, and counts there.
    turns = [stats["rollout/num_turns"] for stats in steps if "rollout/num_turns" in stats]
    assert turns
    assert all(1 <= mean <= 2 for mean in turns)
    lines = (tmp_path / "e" / "t" / "stats.jsonl").read_text().splitlines()
    evals = [row for row in map(json.loads, lines) if row["kind"] == "eval"]
    assert [(row["step"], row["stats"]["n_seqs"]) for row in evals] == [(3, 12)]
    assert 1 <= evals[0]["stats"]["eval-rollout/num_turns"] <= 2


def test_the_workflow_runs_on_an_engine_without_a_trainer(config: Path, tmp_path: Path) -> None:
    cpu = torch.device("cpu")
    weights = SharedWeights(load_model(str(tmp_path / "model"), resolve_dtype("auto", cpu), cpu))
    engine = LocalInferenceEngine(
        InferenceEngineConfig(consumer_batch_size=8, max_head_offpolicyness=4), weights
    )
    engine.initialize()
    try:
        kwargs = {
            "reward_fn": written_for_areal.count_sevens_reward_fn,
            "gconfig": GenerationHyperparameters(max_new_tokens=4),
            "tokenizer": str(tmp_path / "model"),
            "max_turns": 1,
        }
        row = {"messages": [{"role": "user", "content": "3="}], "answer": "7"}
        cls = written_for_areal.CountSevensWorkflow
        one = engine.submit(row, workflow=cls, workflow_kwargs=kwargs)
        other = engine.submit(row, workflow=cls(**kwargs), group_size=3)
        assert engine.wait_for_task(other, timeout=60)["input_ids"].shape[0] == 3
        assert engine.wait_for_task(one, timeout=60)["rewards"].shape == (1,)
        batch = engine.rollout_batch([row] * 4, workflow=cls, workflow_kwargs=kwargs, group_size=2)
        assert [t["versions"].shape[0] for t in batch] == [2] * 4
        assert ModelRequest().gconfig == GenerationHyperparameters()
    finally:
        engine.destroy()
