"""Two processes share statistics and counts; one process does in the other tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from areal.api.cli_args import MicroBatchSpec, NormConfig
from areal.utils.data import Normalization, split_padded_tensor_dict_into_mb_list
from areal.utils.functional import masked_normalization

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
group = dist.group.WORLD
rewards = torch.randn(10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
mine = slice(0, 4) if rank == 0 else slice(4, 10)

config = NormConfig(mean_level="batch", std_level="batch")
whole = Normalization(config)(rewards)[mine]
torch.testing.assert_close(Normalization(config)(rewards[mine], reduce_group=group), whole)
whole = masked_normalization(rewards, unbiased=True)[mine]
part = masked_normalization(rewards[mine], unbiased=True, reduce_group=group)
torch.testing.assert_close(part, whole)

mask = torch.ones(6 if rank else 4, 10, dtype=torch.bool)
spec = MicroBatchSpec(max_tokens_per_mb=20)
mb_list = split_padded_tensor_dict_into_mb_list({"attention_mask": mask}, spec, group)
assert len(mb_list) == 3, mb_list.rows
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_agree_on_statistics_and_counts(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[4])
    env = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    store = str(tmp_path / "store")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(rank), store],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(outputs)
