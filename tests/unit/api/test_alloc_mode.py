from __future__ import annotations

import pytest

from areal.api import FSDPParallelStrategy, MegatronParallelStrategy, ModelAllocation
from areal.api.alloc_mode import (
    AllocationType,
    AllocationValidationError,
    InvalidAllocationModeError,
    ParallelStrategy,
    _AllocationMode,
)
from areal.api.cli_args import SchedulingStrategy


@pytest.mark.parametrize(
    ("text", "backend", "dims", "world_size"),
    [
        ("local:d1", "local", {"dp": 1}, 1),
        ("fsdp:d4", "fsdp", {"dp": 4}, 4),
        ("fsdp:d2t2c3", "fsdp", {"dp": 2, "tp": 2, "cp": 3}, 12),
        ("fsdp:d4p1", "fsdp", {"dp": 4}, 4),
        ("sglang:d4p1t1", "sglang", {"dp": 4}, 4),
        ("vllm:t2d3", "vllm", {"dp": 3, "tp": 2}, 6),
        ("archon:d2t2c1e2", "archon", {"dp": 2, "tp": 2, "ep": 2}, 4),
        ("archon:d2p4e2", "archon", {"dp": 2, "pp": 4, "ep": 2}, 8),
        ("megatron:d2t4p2", "megatron", {"dp": 2, "tp": 4, "pp": 2}, 16),
        (" fsdp:d16 ", "fsdp", {"dp": 16}, 16),
        ("fsdp : d4 t2\n", "fsdp", {"dp": 4, "tp": 2}, 8),
        ("fsdp:d2t2d4", "fsdp", {"dp": 4, "tp": 2}, 8),
    ],
)
def test_reading(text: str, backend: str, dims: dict[str, int], world_size: int) -> None:
    allocation = ModelAllocation.from_str(text)
    assert allocation.backend == backend
    found = {axis: getattr(allocation.parallel, f"{axis}_size") for axis in ("dp", "tp", "pp")}
    found |= {axis: getattr(allocation.parallel, f"{axis}_size") for axis in ("cp", "ep", "etp")}
    assert found == {"dp": 1, "tp": 1, "pp": 1, "cp": 1, "ep": 1, "etp": 1, **dims}
    assert allocation.world_size == allocation.parallel.world_size == world_size


def test_strategy_classes_and_roles() -> None:
    kinds = {
        "fsdp:d1": FSDPParallelStrategy,
        "megatron:d1": MegatronParallelStrategy,
        "archon:d1": ParallelStrategy,
        "local:d1": ParallelStrategy,
    }
    for text, kind in kinds.items():
        assert type(ModelAllocation.from_str(text).parallel) is kind
    trains = {name: ModelAllocation.from_str(f"{name}:d1").trains for name in ("fsdp", "archon")}
    assert trains == {"fsdp": True, "archon": True}
    assert not any(
        ModelAllocation.from_str(f"{name}:d1").trains for name in ("local", "sglang", "vllm")
    )


def test_name_and_scheduling_are_kept() -> None:
    strategy = SchedulingStrategy(type="colocation", target="actor")
    allocation = ModelAllocation.from_str("fsdp:d2", name="ref", scheduling_strategy=strategy)
    assert (allocation.name, allocation.scheduling_strategy) == ("ref", strategy)


def test_separate_splits_of_attention_and_experts() -> None:
    allocation = ModelAllocation.from_str("megatron:(attn:d4p2t2c2|ffn:d2p2t4e2)")
    parallel = allocation.parallel
    assert isinstance(parallel, MegatronParallelStrategy)
    assert (parallel.dp_size, parallel.pp_size, parallel.tp_size, parallel.cp_size) == (4, 2, 2, 2)
    assert (parallel.ep_size, parallel.etp_size, parallel.world_size) == (2, 4, 32)
    assert parallel.expert_model_parallel_size == 16
    assert parallel.expert_data_parallel_size == 2
    assert parallel.model_parallel_size == 8


@pytest.mark.parametrize("text", ["megatron:(attn:d4p2t2|ffn:e2)", "megatron:attn:d4p2t2|ffn:e2"])
def test_what_experts_leave_out_follows_from_attention(text: str) -> None:
    parallel = ModelAllocation.from_str(text).parallel
    assert (parallel.world_size, parallel.pp_size, parallel.ep_size) == (16, 2, 2)
    assert parallel.expert_data_parallel_size == 4


def test_a_model_is_named_in_the_string_or_by_the_caller() -> None:
    assert ModelAllocation.from_str("fsdp[actor]:d4").name == "actor"
    assert ModelAllocation.from_str("fsdp:d4").name is None
    assert ModelAllocation.from_str("fsdp[actor]:d4", name="ref").name == "ref"


def test_a_colocated_model_takes_no_devices_of_its_own() -> None:
    strategy = SchedulingStrategy(type="colocation", target="actor")
    allocation = ModelAllocation.from_str("fsdp:d4", scheduling_strategy=strategy)
    assert (allocation.world_size, allocation.parallel.world_size) == (0, 4)
    assert ModelAllocation.from_str("fsdp:d4").scheduling_strategy.type == "separation"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("fsdp[actor]:t2d4", "fsdp(actor):d4t2"),
        ("archon:d2t2c3e2", "archon:d2t2c3e2"),
        ("sglang:p2", "sglang:d1p2"),
        ("megatron:(attn:d4p2t2|ffn:t4)", "megatron:(attn:d4t2p2|ffn:d2t4p2)"),
    ],
)
def test_an_allocation_as_text(text: str, written: str) -> None:
    assert str(ModelAllocation.from_str(text)) == written


def test_strategies_are_compared_by_their_sizes() -> None:
    fsdp, archon, other = (
        ModelAllocation.from_str(text).parallel for text in ("fsdp:d4t2", "archon:d4t2", "fsdp:d2")
    )
    assert ParallelStrategy.parallelism_eq(fsdp, archon)
    assert not ParallelStrategy.parallelism_eq(fsdp, other)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("sglang:d4+fsdp:d4", InvalidAllocationModeError, r"joins several models by '\+'"),
        ("d4t2", InvalidAllocationModeError, "write backend:dims"),
        ("fsdp:", InvalidAllocationModeError, "write backend:dims"),
        ("", InvalidAllocationModeError, "write backend:dims"),
        ("fspd:d4", InvalidAllocationModeError, "unknown backend 'fspd' .* did you mean 'fsdp'"),
        ("fsdp:4d", InvalidAllocationModeError, "cannot read '4d'"),
        ("fsdp:d4,t2", InvalidAllocationModeError, "cannot read 'd4,t2'"),
        ("fsdp:d", InvalidAllocationModeError, "cannot read 'd'"),
        ("fsdp:d\u0664", InvalidAllocationModeError, "cannot read 'd\u0664'"),  # an Arabic 4
        ("fsdp:d-1", InvalidAllocationModeError, "cannot read 'd-1'"),
        ("fsdp:x4", InvalidAllocationModeError, "unknown dimension 'x'"),
        ("fsdp:d0", AllocationValidationError, "data_parallel_size must be at least 1, found 0"),
        ("fsdp:d2p2", AllocationValidationError, "p2 in 'fsdp:d2p2': fsdp splits only d, t, c"),
        ("fsdp:d2e2", AllocationValidationError, "e2 in 'fsdp:d2e2'"),
        ("local:t2", AllocationValidationError, "local splits only d"),
        ("sglang:d2c2", AllocationValidationError, "sglang splits only d, t, p"),
        ("archon:d3e2", AllocationValidationError, "3 processes cannot be shared out"),
        ("fsdp:(attn:d2|ffn:d2)", InvalidAllocationModeError, "archon or megatron"),
        ("megatron:(attn:d2)", InvalidAllocationModeError, "attn:d4t2"),
        ("megatron:(attn:d4|ffn:d2)", InvalidAllocationModeError, "4 processes .* and 2 for exp"),
        ("megatron:(attn:d3|ffn:e2)", AllocationValidationError, "3 processes .* groups of 2"),
        ("megatron:(attn:d4|ffn:e0)", AllocationValidationError, "must be at least 1, found 0"),
        ("megatron:(attn:d4|ffn:e2", InvalidAllocationModeError, "attn:d4t2"),
        ("[actor]:d4", AllocationValidationError, r"no backend; write one of archon, fsdp"),
        ("[actor]d4", AllocationValidationError, r"no backend; .* before '\[actor\]'"),
        ("[actor]", AllocationValidationError, "no backend"),
        ("[]d4", InvalidAllocationModeError, "write backend:dims"),
        ("fsdp[]:d4", InvalidAllocationModeError, r"write backend:dims or backend\[name\]:dims"),
        ("fsdp[a]b:d4", InvalidAllocationModeError, r"backend\[name\]:dims"),
        (
            "megatron:(attn:d2p2|ffn:d4p1)",
            AllocationValidationError,
            "2 stages for attention and 1",
        ),
        ("megatron:(attn:d4|ffn:d2c2)", AllocationValidationError, "c2"),
        ("megatron:(attn:d2e2|ffn:d2e2)", AllocationValidationError, "e2"),
    ],
)
def test_what_cannot_be(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        ModelAllocation.from_str(text)
    assert isinstance(caught.value, ValueError)


def test_strategies_check_themselves() -> None:
    with pytest.raises(AllocationValidationError, match="no pipeline parallel"):
        FSDPParallelStrategy(pipeline_parallel_size=2)
    with pytest.raises(AllocationValidationError, match="tensor_parallel_size"):
        ParallelStrategy(tensor_parallel_size=0)
    assert ParallelStrategy(data_parallel_size=4, expert_parallel_size=2).world_size == 4
    with pytest.raises(AllocationValidationError, match="needs pipeline_parallel_size > 1"):
        MegatronParallelStrategy(virtual_pipeline_parallel_size=2)
    assert len(AllocationType) == 4


HYBRID = "megatron:(attn:d4t2|ffn:d2t2e2)"


@pytest.mark.parametrize(
    ("spec", "kind", "gen", "train"),
    [
        ("sglang:d2+fsdp:d4", "DECOUPLED_TRAIN", ("sglang", "d2"), ("fsdp", "d4")),
        (" vllm : d2t2 +\tarchon:d2p2", "DECOUPLED_TRAIN", ("vllm", "d2t2"), ("archon", "d2p2")),
        (f"sglang:d8+{HYBRID}", "DECOUPLED_TRAIN", ("sglang", "d8"), ("megatron", HYBRID[9:])),
        ("sglang:d4|fsdp:d2t2", "COLOCATE", ("sglang", "d4"), ("fsdp", "d2t2")),
        (f"sglang:d8|{HYBRID}", "COLOCATE", ("sglang", "d8"), ("megatron", HYBRID[9:])),
        ("fsdp:d4", "COLOCATE", (None, "None"), ("fsdp", "d4")),
        ("sglang:d4", "LLM_SERVER_ONLY", ("sglang", "d4"), (None, "None")),
        ("sglang:d4+eval", "DECOUPLED_EVAL", ("sglang", "d4"), (None, "None")),
    ],
)
def test_reading_several_models(
    spec: str, kind: str, gen: tuple[str | None, str], train: tuple[str | None, str]
) -> None:
    mode = _AllocationMode.from_str(spec)
    assert mode.type_ is AllocationType[kind]
    assert (mode.gen_backend, str(mode.gen)) == gen
    assert (mode.train_backend, str(mode.train)) == train


def test_who_shares_devices_with_whom() -> None:
    mode = _AllocationMode.from_str("sglang:d2+fsdp[actor]:d4|fsdp[ref]:d4|archon:d2t2")
    targets = [each.scheduling_strategy.target for each in mode.allocations]
    assert targets == [None, None, "actor", "actor"]
    assert [each.world_size for each in mode.allocations] == [2, 4, 0, 0]
    assert mode.type_ is AllocationType.DECOUPLED_TRAIN
    with pytest.raises(AllocationValidationError, match="several models match"):
        _ = mode.train


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("", InvalidAllocationModeError),
        ("sglang:d2+", InvalidAllocationModeError),
        ("sglang:d2+d4", InvalidAllocationModeError),
        ("sglang:d2+:d4", AllocationValidationError),
        ("sglang:d2|fsdp:d4", AllocationValidationError),
        ("eval", AllocationValidationError),
    ],
)
def test_several_models_that_cannot_be_read(spec: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        _AllocationMode.from_str(spec)
