"""Trains a tiny model that calls tools, with the reviewed workflow of the style tools."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]
PROJECT = ROOT / "tests" / "golden" / "trees" / "project"
RUNNERS = ROOT / "scaffold" / "runners"
MAKE_MODEL = """
from unit_probe.tools_setting import ToolsSetting
setting = ToolsSetting()
setting.model.save_pretrained("model")
setting.tokenizer.save_pretrained("model")
"""
ROWS = """
from datasets import Dataset
def get_digits_rl_dataset(path, split, **kwargs):
    chats = [[{"role": "user", "content": f"{i}?"}] for i in range(8)]
    return Dataset.from_list([{"messages": chat} for chat in chats])
def length_reward(prompt, completions, prompt_ids, completion_ids, **kwargs):
    return len(completion_ids) / 12
"""
RUN = """
experiment_name: e
trial_name: t
cluster: {fileroot: runs}
total_train_epochs: 100
total_train_steps: 2
run:
  algorithm: grpo
  workflow: my_rl.workflow.plain_calls.PlainCallsWorkflow
  reward_fn: my_rl.rows.length_reward
gconfig: {n_samples: 4, max_new_tokens: 12}
actor: {path: model, optimizer: {lr: 0.01, warmup_steps: 0}}
train_dataset: {path: my_rl.rows.get_digits_rl_dataset, type: rl, batch_size: 2}
stats_logger: {tensorboard: {path: null}}
"""


@pytest.mark.slow  # two processes import torch
def test_two_steps_train_on_episodes_with_results_of_tools(tmp_path: Path) -> None:
    package = shutil.copytree(PROJECT / "my_rl", tmp_path / "my_rl")
    # The tools that the tiny model calls, in the place of the author's.
    tools = (RUNNERS / "unit_probe" / "probe_tools.py").read_text(encoding="utf-8")
    calls = package / "workflow" / "plain_calls_tools.py"
    calls.write_text(f"{tools}\n\nTOOLS = [probe_double, probe_fail]\n", encoding="utf-8")
    (package / "rows.py").write_text(ROWS, encoding="utf-8")
    (tmp_path / "run.yaml").write_text(RUN, encoding="utf-8")
    paths = os.pathsep.join(map(str, (tmp_path, RUNNERS, ROOT)))
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    for argv in (["-c", MAKE_MODEL], ["-m", "areal.trainer.cli", "train", "-c", "run.yaml"]):
        done = subprocess.run(
            [sys.executable, *argv],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs" / "e" / "t"
    steps = [json.loads(line)["stats"] for line in (run / "stats.jsonl").read_text().splitlines()]
    assert len(steps) == 2
    for stats in steps:
        assert stats["rollout/num_calls"] > 0
        assert stats["rollout/failed"] == stats["reward/failures"] == 0
        # The trained tokens are those that were generated, at their places: both engines compute
        # in 32 bits, over differently shaped batches.
        assert stats["logp_abs_diff_max"] < 1e-4
    assert "<eos><tool>" in (run / "episodes.jsonl").read_text()
