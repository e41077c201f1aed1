from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from areal.api.cli_args import MicroBatchSpec
from areal.utils.data import (
    MicroBatchList,
    pack_mb_list,
    pad_mb_list,
    split_padded_tensor_dict_into_mb_list,
)


def batch_of(lengths: list[int]) -> dict[str, object]:
    mask = torch.arange(max(lengths) + 1) < torch.tensor(lengths)[:, None]
    return {
        "attention_mask": mask,
        "input_ids": torch.arange(mask.numel()).view(mask.shape),
        "rewards": torch.arange(len(lengths)).float(),
        "names": [str(i) for i in range(len(lengths))],
        "version": 3,
    }


def split(lengths: list[int], **spec: object) -> MicroBatchList:
    return split_padded_tensor_dict_into_mb_list(batch_of(lengths), MicroBatchSpec(**spec))


def test_takes_rows_of_everything_and_cuts_shared_padding() -> None:
    mb_list = split([2, 5, 3], max_tokens_per_mb=5)
    assert mb_list.rows == [[0, 2], [1]]
    assert mb_list.group_lens == [5, 5]
    first, second = mb_list.mbs
    assert first["input_ids"].tolist() == [[0, 1, 2], [12, 13, 14]]
    assert first["attention_mask"].sum(1).tolist() == [2, 3]
    assert first["rewards"].tolist() == [0.0, 2.0]
    assert first["names"] == ["0", "2"]
    assert second["input_ids"].shape == (1, 5)
    assert first["version"] == second["version"] == 3


def test_one_micro_batch_by_default_and_where_all_fits() -> None:
    for spec in ({}, {"max_tokens_per_mb": 1000}):
        mb_list = split([2, 5, 3], **spec)
        assert len(mb_list) == 1
        assert mb_list.mbs[0]["input_ids"].shape == (3, 5)


def test_a_sequence_above_the_budget_goes_alone() -> None:
    assert split([9, 2, 2], max_tokens_per_mb=4).rows == [[0], [1, 2]]


def test_more_micro_batches_than_sequences_are_not_made() -> None:
    assert len(split([2, 2, 2], n_mbs=8)) == 3


def test_neighbours_stay_together() -> None:
    mb_list = split([1, 6, 2, 2, 5, 1], granularity=2, max_tokens_per_mb=8)
    assert mb_list.rows == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ValueError, match="granularity=4"):
        split([1, 1, 1], granularity=4)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    n_mbs=st.integers(1, 4),
    budget=st.one_of(st.none(), st.integers(1, 30)),
    algorithm=st.sampled_from(["ffd", "kk"]),
    multiple_of=st.sampled_from([1, 4, 16]),
)
def test_what_was_split_can_be_put_together(
    lengths: list[int], n_mbs: int, budget: int | None, algorithm: str, multiple_of: int
) -> None:
    batch = batch_of(lengths)
    spec = MicroBatchSpec(n_mbs=n_mbs, max_tokens_per_mb=budget, packing_algorithm=algorithm)
    mb_list = split_padded_tensor_dict_into_mb_list(batch, spec)
    assert torch.equal(mb_list.merge_rows([mb["rewards"] for mb in mb_list.mbs]), batch["rewards"])
    packed = pad_mb_list(pack_mb_list(mb_list), multiple_of=multiple_of)
    outputs = []
    for item in packed:
        total = len(item.padded_mb["input_ids"])
        assert total % multiple_of == 0
        assert total - item.padding_length == len(item.mb["input_ids"])
        assert item.padded_mb["cu_seqlens"][-1] == total
        outputs.append(item.padded_mb["input_ids"][: total - item.padding_length] * 2)
    merged = packed.merge_tokens(outputs, pad_value=-1)
    expected = torch.where(batch["attention_mask"], batch["input_ids"] * 2, -1)
    assert torch.equal(merged, expected)
    forward, backward = packed.forward_indices, packed.backward_indices
    assert [forward[i] for i in backward] == list(range(len(lengths)))


def test_outputs_that_do_not_fit_are_refused() -> None:
    mb_list = pack_mb_list(split([2, 3], n_mbs=2))
    with pytest.raises(ValueError, match="do not fit"):
        mb_list.merge_rows([torch.ones(2)])
    with pytest.raises(ValueError, match="4 outputs do not fit 5 real tokens"):
        mb_list.merge_tokens([torch.ones(2), torch.ones(2)])


def test_pads_to_the_budget_and_moves() -> None:
    packed = pack_mb_list(split([2, 3, 4], max_tokens_per_mb=6))
    padded = pad_mb_list(packed, pad_to_maximum=True, multiple_of=4)
    assert [len(mb["input_ids"]) for mb in padded.padded_mbs] == [8, 8]
    assert padded.padding_lengths == [8 - n for n in padded.group_lens]
    moved = padded.to(torch.float64)
    assert moved.padded_mbs[0]["rewards"].dtype == torch.float64
    assert padded.padded_mbs[0]["rewards"].dtype == torch.float32


def test_all_ranks_make_as_many_micro_batches(tmp_path: object) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        group = torch.distributed.group.WORLD
        mb_list = split_padded_tensor_dict_into_mb_list(
            batch_of([2, 3, 4]), MicroBatchSpec(max_tokens_per_mb=5), group
        )
        assert mb_list.rows == [[0, 1], [2]]
    finally:
        torch.distributed.destroy_process_group()
