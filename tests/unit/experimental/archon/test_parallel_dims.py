"""Sizes of the axes: which are possible, and which meshes they make."""

import pytest
import torch.distributed as dist

from areal.api.errors import ConfigError
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims


def test_what_is_left_goes_to_data():
    dims = ArchonParallelDims(tp=2, cp=2, world_size=16)
    assert dims.dp_shard == 4
    assert dims.fsdp_gradient_divide_factor == 8
    assert dims.seq_len_divisor == 8


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"tp": 3, "world_size": 8}, r"cp\(1\) \* tp\(3\) \* pp\(1\) is 3, which does not divide"),
        ({"dp_shard": 2, "tp": 2, "world_size": 8}, "is 4, not the world size 8"),
        ({"tp": 0, "world_size": 8}, "tp must be at least 1, found 0"),
        ({"dp_shard": 0, "world_size": 1}, "dp_shard must be -1 or at least 1"),
        ({"dp_replicate": 3, "world_size": 8}, r"dp_replicate\(3\) \* cp\(1\).* is 3, which does"),
        ({"dp_replicate": 2, "dp_shard": 2, "world_size": 8}, "is 4, not the world size 8"),
        ({"tp": 4, "ep": 4, "etp": 2, "world_size": 8}, r"etp must be 1 or tp\(4\), found 2"),
        ({"tp": 2, "etp": 4, "world_size": 8}, r"etp must be 1 or tp\(2\), found 4"),
        ({"cp": 4, "ep": 2, "world_size": 8}, r"ep\(2\) must be a multiple of cp\(4\) \* tp\(1\)"),
        ({"ep": 8, "world_size": 4}, r"ep\(8\) does not divide dp_shard\(4\)"),
        ({"tp": 2, "ep": 3, "etp": 2, "world_size": 8}, r"ep\(3\) does not divide dp_shard\(4\)"),
    ],
)
def test_impossible_sizes_are_refused_with_both_numbers(sizes, message):
    with pytest.raises(ConfigError, match=message):
        ArchonParallelDims(**sizes)


def test_copies_are_data_parallelism_too():
    dims = ArchonParallelDims(dp_replicate=2, tp=2, world_size=16)
    assert (dims.dp_shard, dims.fsdp_gradient_divide_factor) == (4, 8)
    assert dims.dp_replicate_enabled
    assert ArchonParallelDims(dp_replicate=2, world_size=2).dp_enabled


def test_flags_follow_the_sizes():
    dims = ArchonParallelDims(tp=2, pp=2, ep=2, etp=2, world_size=8)
    assert dims.tp_enabled
    assert dims.pp_enabled
    assert dims.ep_enabled
    assert dims.etp_enabled
    assert dims.dp_enabled
    assert dims.fsdp_enabled
    assert not dims.cp_enabled
    assert not ArchonParallelDims(world_size=1).fsdp_enabled


@pytest.fixture
def process_group():
    """A stand-in for a world of any size: collectives do nothing, meshes are made as always."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    def start(world_size):
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world_size)

    yield start
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("sizes", "meshes", "absent"),
    [
        (
            {"tp": 2, "cp": 2, "pp": 2},
            {"pp": 2, "dp_shard": 2, "cp": 2, "tp": 2, "dp": 2, "dp_shard_cp": 4, "dp_cp": 4}
            | {"pp_cp_tp": 8},
            ("ep", "ep_tp", "dp_shard_mod_ep", "unheard_of"),
        ),
        (
            {"tp": 2, "ep": 4},
            {"dp_shard_mod_ep": 4, "dp_shard_in_ep": 2, "tp": 2, "ep": 4, "dp": 8},
            ("dp_shard", "cp", "pp", "ep_tp"),
        ),
        (
            {"tp": 2, "ep": 4, "etp": 2},
            {"dp_shard_mod_ep": 2, "dp_shard_in_ep": 4, "tp": 2, "ep": 4, "ep_tp": 8},
            ("dp_shard", "cp", "pp"),
        ),
        (
            {"dp_replicate": 2, "cp": 2},
            {"dp_replicate": 2, "dp_shard": 4, "dp": 8, "dp_shard_cp": 8, "dp_cp": 16}
            | {"dp_replicate_dp_shard_cp": 16},
            ("dp_replicate_dp_shard_mod_ep", "tp"),
        ),
        (
            {"dp_replicate": 2, "ep": 4},
            {"dp_shard_mod_ep": 2, "dp_shard_in_ep": 4, "ep": 4, "dp": 16}
            | {"dp_replicate_dp_shard_mod_ep": 4, "dp_replicate_dp_shard_cp": 16},
            ("dp_shard", "tp"),
        ),
        ({}, {"dp_shard": 16, "dp": 16, "dp_shard_cp": 16}, ("tp", "cp", "pp", "ep", "pp_cp_tp")),
    ],
)
def test_meshes_have_the_names_and_sizes_of_the_axes(process_group, sizes, meshes, absent):
    process_group(16)
    dims = ArchonParallelDims(**sizes, world_size=16, device_type="cpu")
    assert {name: dims.get_mesh(name).size() for name in meshes} == meshes
    assert all(dims.get_mesh(name) is None and dims.get_group(name) is None for name in absent)
