"""`areal train` on pairs as a person runs it: on two processes, and killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.integration.areal.conftest import Areal, command
from tests.integration.areal.test_train_command import kill_during
from tests.tiny_runs import MODEL, pairs_yaml, train_stats

KINDS = ("dpo", "rw")
# Heads that two processes can share, and the ends of a pipeline.
SIZES = {**MODEL, "num_hidden_layers": 2, "num_key_value_heads": 2, "tie_word_embeddings": False}


def run(areal: Areal, folder: Path, kind: str, *overrides: str, **sections: Any) -> Path:
    pairs_yaml(folder, kind, run={"model": SIZES}, **sections)
    done = areal("train", "-c", "config.yaml", *overrides, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def evaluating(kind: str) -> dict[str, Any]:
    path = f"tests.tiny_runs.get_digits_{kind}_dataset"
    valid = {"path": path, "type": kind, "batch_size": 8, "dataset_kwargs": {"size": 16}}
    return {"valid_dataset": valid, "evaluator": {"freq_steps": 2}, "total_train_steps": 4}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["fsdp:d2", "archon:d2", "archon:t2", "archon:p2"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_train_as_one(areal: Areal, tmp_path: Path, kind: str, backend: str) -> None:
    engine = backend.partition(":")[0]
    one, two = (
        run(areal, tmp_path / name, kind, f"actor.backend={each}", **evaluating(kind))
        for name, each in (("one", f"{engine}:d1"), ("two", backend))
    )
    expected, found = train_stats(one), train_stats(two)
    assert expected[0].keys() == found[0].keys()
    for a, b in zip(expected, found, strict=True):
        timed = {"step_time_s", "tokens_per_s"}
        for name in a.keys() - timed:
            assert b[name] == pytest.approx(a[name], rel=1e-4, abs=1e-6), name
    weights = [load_file(folder / "e/t/model/model.safetensors") for folder in (two, one)]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        # AdamW divides by the root of what may be rounding alone.
        torch.testing.assert_close(tensor, weights[1][name], rtol=1e-3, atol=2e-4)
    evals = [
        [line for line in (f / "e/t/stats.jsonl").read_text().splitlines() if '"eval"' in line]
        for f in (one, two)
    ]
    assert len(evals[0]) == len(evals[1]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_goes_on_bit_for_bit(areal: Areal, tmp_path: Path, kind: str) -> None:
    sections = {"total_train_steps": 30, "recover": {"freq_steps": 4}}
    whole = run(areal, tmp_path / "whole", kind, **sections)
    killed = tmp_path / "killed"
    pairs_yaml(killed, kind, run={"model": SIZES}, **sections)
    kill_during(command("train", "-c", "config.yaml"), killed, 10)
    done = areal("train", "-c", "config.yaml", cwd=killed)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "resuming from step" in done.stderr
    expected, found = (
        [{k: v for k, v in step.items() if not k.endswith("_s")} for step in train_stats(folder)]
        for folder in (whole, killed)
    )
    assert found == expected
    models = [(f / "e/t/model/model.safetensors").read_bytes() for f in (whole, killed)]
    assert models[0] == models[1]
