"""Each benchmark runs with tiny counts and reports what it has to; speed does not matter."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import GROUPS
from benchmarks.targets import TARGETS

ROOT = Path(__file__).resolve().parents[3]
needs_trl = pytest.mark.skipif(
    importlib.util.find_spec("trl") is None,
    reason="TRL is not installed; the extra bench of areal-lite has it",
)


def run_group(name: str, folder: Path) -> list[dict[str, Any]]:
    """Runs a group as a person does and returns its rows."""
    out = folder / "numbers.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--no-fail"]
    done = subprocess.run(
        [*command, "--only", name, "--json", str(out)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(out.read_text())["groups"][name]
    assert all(row["what"] in done.stdout for row in rows)
    assert all(row["ours"] is None or math.isfinite(row["ours"]) for row in rows)
    return rows


def verdicts(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["key"]: row["verdict"] for row in rows}


@pytest.mark.heavy
def test_decode_gives_the_right_tokens(tmp_path: Path) -> None:
    rows = run_group("decode", tmp_path)
    found = verdicts(rows)
    assert found["decode.greedy"] == found["decode.drift"] == "pass"
    speeds = [row for row in rows if row["unit"] == "tok/CPU-s"]
    assert len(speeds) == 4
    assert all(row["ratio"] > 0 for row in speeds)


@pytest.mark.slow
def test_learning_reports_every_bound(tmp_path: Path) -> None:
    assert verdicts(run_group("learning", tmp_path)).keys() == {
        key for key in TARGETS if key.startswith("learning.")
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["archon", "packing", "cold_start", "overhead"])
def test_a_group_measures_something(name: str, tmp_path: Path) -> None:
    rows = run_group(name, tmp_path)
    assert rows
    assert all(row["ours"] > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="os.wait4 is not there")
def test_the_command_line_is_measured_without_torch(tmp_path: Path) -> None:
    rows = run_group("cli", tmp_path)
    assert {key for key in TARGETS if key.startswith("cli.")} <= {row["key"] for row in rows}
    assert all(row["ours"] > 0 for row in rows)
    assert {row["reference"] for row in rows if row["key"].startswith("cli.add.")} == {None}
    script = "import sys, benchmarks.cli.table; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


@pytest.mark.slow
def test_servers_agree_with_the_trainer_and_lose_no_row(tmp_path: Path) -> None:
    found = verdicts(run_group("scale", tmp_path))
    assert {key for key in TARGETS if key.startswith("scale.")} <= found.keys()
    exact = ("scale.bytes.", "scale.drift", "scale.lost", "scale.repeated", "scale.simulation.")
    assert {found[key] for key in TARGETS if key.startswith(exact)} == {"pass"}


@needs_trl
@pytest.mark.slow
def test_a_grpo_step_is_measured_on_both_sides(tmp_path: Path) -> None:
    rows = run_group("grpo_step", tmp_path)
    keys = {key for key in TARGETS if key.startswith("grpo_step.")}
    keys |= {f"grpo_step.{side}_{x}" for side in ("critic", "images") for x in ("cpu", "memory")}
    assert {row["key"] for row in rows} == keys
    assert all(row["ratio"] > 0 for row in rows)


@needs_trl
@pytest.mark.slow
def test_losses_of_pairs_are_those_of_trl(tmp_path: Path) -> None:
    rows = run_group("pairs", tmp_path)
    assert verdicts(rows) == {
        "pairs.dpo.step": "",
        "pairs.dpo.loss": "pass",
        "pairs.rw.step": "",
        "pairs.rw.loss": "pass",
    }


def test_every_target_belongs_to_a_group() -> None:
    assert {key.split(".")[0] for key in TARGETS} <= GROUPS.keys()
