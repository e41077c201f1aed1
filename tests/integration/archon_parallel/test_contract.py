"""Is every model split and exported by code that has the contract's names alone?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from areal.experimental.models.archon import ARCHON_MODELS

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    result = tmp_path_factory.mktemp("contract") / "result.json"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    paths = [str(REPOSITORY), str(REPOSITORY / "scaffold" / "runners")]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    worker = str(HERE / "contract_worker.py")
    subprocess.run([*command, worker, str(result)], env=env, check=True, timeout=400)
    return json.loads(result.read_text())


@pytest.mark.parametrize("is_critic", [False, True])
@pytest.mark.parametrize("model_type", ARCHON_MODELS)
def test_two_processes_compute_and_export_what_one_does(
    found: dict[str, dict[str, float]], model_type: str, is_critic: bool
) -> None:
    row = found[f"{model_type} {is_critic}"]
    assert row["error"] < 1e-5  # of the standard deviation: sums are in another order
    assert row["lost"] == 0
