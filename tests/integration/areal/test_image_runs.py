"""The example with images, as a person runs it: from nothing to a model that counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.areal.conftest import ROOT, Areal, command, environment

EXAMPLE = ROOT / "examples" / "shapes" / "grpo.yaml"


def rewards(folder: Path) -> list[float]:
    lines = (folder / "runs" / "shapes" / "grpo" / "stats.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == "train"]
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    return [row["stats"]["reward"] for row in rows]


@pytest.mark.slow
def test_a_model_from_scratch_learns_to_count(areal: Areal, tmp_path: Path) -> None:
    done = areal("train", "-c", EXAMPLE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = rewards(tmp_path)
    assert sum(found[:10]) / 10 < 0.35, "chance is a quarter"
    assert sum(found[-10:]) / 10 > 0.95
    rows = ["valid_dataset.path=shapes", "valid_dataset.type=rl", "valid_dataset.split=test"]
    sizes = ["valid_dataset.batch_size=16", "valid_dataset.dataset_kwargs={size: 64}"]
    scored = areal("eval", "-c", EXAMPLE, *rows, *sizes, cwd=tmp_path)
    assert scored.returncode == 0, scored.stderr
    (scores,) = (tmp_path / "runs" / "shapes" / "grpo" / "eval").glob("*/scores.json")
    assert json.loads(scores.read_text())["scores"]["reward"] > 0.9


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_same_losses(areal: Areal, tmp_path: Path) -> None:
    argv = ["train", "-c", EXAMPLE, "total_train_steps=8", "recover.freq_steps=1"]
    argv += ["rollout.deterministic_sampling=true"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    assert areal(*argv, cwd=whole).returncode == 0
    process = subprocess.Popen(
        command(*argv), cwd=killed, env=environment(), stderr=subprocess.DEVNULL
    )
    checkpoints = killed / "runs" / "shapes" / "grpo" / "recover"
    deadline = time.monotonic() + 100
    while not list(checkpoints.glob("step_0000000[3-7]")):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    done = areal(*argv, cwd=killed)
    assert done.returncode == 0, done.stderr
    assert rewards(killed) == rewards(whole)
    names = ["runs", "shapes", "grpo", "model", "model.safetensors"]
    assert killed.joinpath(*names).read_bytes() == whole.joinpath(*names).read_bytes()
