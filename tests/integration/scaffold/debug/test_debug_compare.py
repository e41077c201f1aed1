"""Two runs of a model: where do they part, and what memory does it take?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reports import REPORTS

ROOT = Path(__file__).parents[4]
TRAINING = Path(__file__).parent / "training.py"
TORCHRUN = str(Path(sys.executable).parent / "torchrun")


def scaffold(folder: Path, *argv: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "scaffold", "debug", *argv],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr or "huge" in argv, done.stderr
    report = json.loads(done.stdout)
    REPORTS.validate(report)
    return done.returncode, report["debug"]


def record(folder: Path, how: str, *launcher: str) -> tuple[int, dict[str, Any]]:
    command = [*(launcher or (sys.executable,)), str(TRAINING), how]
    options = ["--checksums", "--memory", "--json", "--report", how]
    status, report = scaffold(folder, "run", *options, "--", *command)
    assert not list(report["ranks"]) or not any(rank["faults"] for rank in report["ranks"])
    return status, report


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("how", "kind", "ranks", "words"),
    [
        ("nan", "nan", [1], "Net.head, gradient of its output, step 0; rank 0 had none there"),
        ("seeds", "replicas", [0, 1], "parameter Net.embed.weight at the start"),
    ],
)
def test_wrong_numbers_of_a_job_that_ends_well_have_a_verdict(
    how: str, kind: str, ranks: list[int], words: str, tmp_path: Path
) -> None:
    status, report = record(tmp_path, how, TORCHRUN, "--nproc-per-node", "2")
    verdict = report["verdict"]
    assert (status, verdict["kind"], verdict["ranks"]) == (1, kind, ranks)
    assert words in verdict["text"]


@pytest.mark.heavy
def test_the_module_that_computes_something_else_is_named(tmp_path: Path) -> None:
    for how in ("plain", "wrong"):
        status, report = record(tmp_path, how)
        assert status == 0, report
        modules = report["memory"]["0"]["modules"]
        linear = modules["Net.up"]
        assert linear["parameters"] == linear["gradients"] == 4 * (32 * 64 + 64)
        # Two moments of AdamW, and its count of steps for each of two parameters.
        assert linear["optimizer"] == 2 * linear["parameters"] + 2 * 4
        # What autograd keeps for it: its input, which is what the embedding returned.
        assert linear["saved"] == 4 * (4 * 8 * 32)
        phases = report["memory"]["0"]["phases"]
        assert phases["meter"] == "process"
        # The record is written in the first of two steps, so later passes are not in it.
        assert {name: row["times"] for name, row in phases["rows"].items()} == {
            "forward of Net": 1,
            "loss and backward": 1,
            "optimizer step": 1,
        }
    status, report = scaffold(tmp_path, "compare", "--json", "plain", "wrong")
    assert status == 1
    first = report["first"]
    assert (first["name"], first["phase"], first["step"]) == ("Net.down", "forward", 0)
    assert report["agree"] == 7 + 2, "all parameters at the start, and two modules before it"
    status, report = scaffold(tmp_path, "compare", "--json", "plain", "plain")
    assert (status, report["first"]) == (0, None)


@pytest.mark.slow
def test_a_sharded_run_agrees_with_a_plain_one_bit_by_bit(tmp_path: Path) -> None:
    record(tmp_path, "plain")
    status, report = record(tmp_path, "sharded", TORCHRUN, "--nproc-per-node", "2")
    assert status == 0, report
    assert list(report["memory"]["1"]["unsharded"]) == ["Net.embed.weight", "Net.head.weight"]
    status, report = scaffold(tmp_path, "compare", "--json", "plain", "sharded")
    assert (status, report["first"], report["undecided"]) == (0, None, 0)
    assert report["agree"] == 31
    status, report = scaffold(tmp_path, "compare", "--json", "sharded", "--ranks", "0,1")
    assert (status, report["agree"]) == (0, 31)


def test_the_environment_is_told_for_machines(tmp_path: Path) -> None:
    """The interpreter is one without torch, which is in the way of any job."""
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\necho \'{"python": "3.12.1", "packages": {}}\'\n')
    bare.chmod(0o755)
    options = ["--json", "--python", str(bare), "--mesh", "d2t2"]
    status, report = scaffold(tmp_path, "env", *options, "--", "torchrun", "--nproc-per-node", "2")
    assert status == 1
    bad = [row["about"] for row in report["findings"] if row["state"] == "bad"]
    assert bad == ["torch", "mesh"]
    assert report["world"] == 2


@pytest.mark.slow
def test_who_runs_out_of_memory_is_told_with_the_module(tmp_path: Path) -> None:
    status, report = record(tmp_path, "huge")
    assert status == 1
    assert report["memory"]["0"]["moment"].startswith("out of memory")
