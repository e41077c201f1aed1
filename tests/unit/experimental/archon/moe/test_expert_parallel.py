"""Experts over processes: the same numbers as on one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from areal.api.errors import ConfigError
from areal.experimental.models.archon.expert_parallel import apply_expert_parallel
from areal.experimental.models.archon.moe import MoE, MoEArgs

ROOT = Path(__file__).parents[5]


@pytest.mark.slow  # models with experts are split in tests/integration/archon_parallel too
@pytest.mark.parametrize("processes", [2, 4])
def test_layers_over_processes_equal_layers_on_one(tmp_path: Path, processes: int) -> None:
    script = "tests.unit.experimental.archon.moe.parallel_run"
    command = [sys.executable, "-m", script, str(tmp_path), str(processes)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert (tmp_path / f"passed{processes}").exists()


class Mesh:
    """Has a size and is never used to send anything."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes

    def size(self, axis: int = 0) -> int:
        return self.sizes[axis]


@pytest.mark.parametrize(
    ("meshes", "message"),
    [
        ({"ep_mesh": Mesh(3)}, "8 experts do not divide over ep=3"),
        ({"tp_mesh": Mesh(5)}, "an expert's width 24 does not divide over tp=5"),
        ({"tp_mesh": Mesh(3)}, "the shared experts' width 32 does not divide over tp=3"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(meshes: dict[str, Mesh], message: str) -> None:
    args = MoEArgs(num_experts=8, num_shared_experts=1, shared_expert_intermediate_size=32)
    moe = MoE(args, 16, 24)

    with pytest.raises(ConfigError, match=message):
        apply_expert_parallel(moe, **meshes)  # pyright: ignore[reportArgumentType]


def test_without_a_mesh_nothing_changes() -> None:
    moe = MoE(MoEArgs(), 16, 24)
    before = moe.experts.w1
    apply_expert_parallel(moe)

    assert moe.experts.w1 is before
    assert isinstance(moe.experts.w1, torch.nn.Parameter)
