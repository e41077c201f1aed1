"""Measure the ways to split a model over processes against the whole model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# Two show every kind of communication between ranks.
PROCESSES = 2
TIME_LIMIT_S = 240


def measure_split(request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Split a tiny model over two processes in every way, and compare it with the whole one.

    Args:
        request: As for a proof: ``model_type`` and ``spec``; optionally ``config``, ``package`` and
            ``overlay``.

    Returns:
        For each way ("fsdp", "tp", "cp", "pp", "ep"; the last only for models with experts):
        ``status``: "equal"; "refused", where the model's sizes do not divide; "failed". ``message``
        is the reason; ``logits`` and ``gradient`` are errors.
    """
    with tempfile.TemporaryDirectory() as folder:
        request_path, result_path = Path(folder) / "request.json", Path(folder) / "result.json"
        request_path.write_text(json.dumps(request, default=str), encoding="utf-8")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(PROCESSES), "-m", "archon_probe.proof.parallel_worker"]
        done = _run([*command, str(request_path), str(result_path)])
        if result_path.exists():
            return json.loads(result_path.read_text(encoding="utf-8"))
    return {"fsdp": {"status": "failed", "message": done}}


def _run(command: list[str]) -> str:
    """Run the processes; return the first error that they wrote."""
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        # torchrun starts new interpreters, which have to find the probe and the target.
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no result within {TIME_LIMIT_S} s"
    lines = [line for line in done.stderr.splitlines() if "Error: " in line]
    return (lines or done.stderr.splitlines() or ["the processes wrote no result"])[0][:500]


def verdict(ranks: list[dict[str, Any]], tolerance: float) -> dict[str, Any]:
    """Return the verdict on one way to split, from the findings of all processes."""
    failures = [found["failure"].strip().splitlines()[-1] for found in ranks if "failure" in found]
    if failures:
        # Sizes that two do not divide are refused by the model itself.
        refused = all("ConfigError" in failure for failure in failures)
        return {"status": "refused" if refused else "failed", "message": failures[0][:500]}
    logits = max(found["logits"] for found in ranks)
    worst = max(ranks, key=lambda found: found["excess"])
    is_equal = logits <= tolerance and worst["excess"] <= 1
    message = "" if is_equal else f"logits differ by {logits:.1e}, {worst['worst']} most"
    return {
        "status": "equal" if is_equal else "failed",
        "message": message,
        "logits": logits,
        "gradient": worst["gradient"],
    }
