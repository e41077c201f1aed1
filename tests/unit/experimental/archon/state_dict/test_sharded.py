"""Checkpoints into parameters that are sharded over processes, and back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.unit.experimental.archon.state_dict.sharded_run import RULES, SHAPES
from tests.unit.experimental.archon.state_dict.small_models import (
    adapter_of,
    hub_shapes,
    random_tensors,
)

ROOT = Path(__file__).parents[5]


@pytest.mark.heavy
def test_every_process_gets_its_part_and_the_first_writes_all(tmp_path: Path) -> None:
    tensors = random_tensors(hub_shapes(adapter_of(RULES, SHAPES)))
    # Not in equal shares, as checkpoints of others have it.
    both = torch.cat([tensors.pop(f"h.0.conv_{part}") for part in "ab"])
    tensors |= {"h.0.conv_a": both[:5].clone(), "h.0.conv_b": both[5:].clone()}
    save_file(tensors, tmp_path / "model.safetensors")
    script = "tests.unit.experimental.archon.state_dict.sharded_run"
    command = [sys.executable, "-m", script, str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for way in ("fsdp", "tp", "fsdp_tp"):
        files = sorted((tmp_path / way).glob("*.safetensors"))
        assert len(files) > 1
        saved = {name: t for file in files for name, t in load_file(file).items()}
        assert saved.keys() == tensors.keys()
        assert all(torch.equal(saved[name], tensors[name]) for name in tensors), way
