from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from areal.utils.data import (
    collate_samples_to_list,
    concat_padded_tensors,
    cycle_dataloader,
    pad_and_stack_tensors_along_first_dim,
    pad_sequences_to_tensors,
    reorder_list,
    tensor_container_to,
)


def trajectory(rows: int, length: int, start: int = 1) -> dict[str, object]:
    ids = torch.arange(start, start + rows * length, dtype=torch.int32).view(rows, length)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones(rows, length, dtype=torch.bool),
        "logprobs": -ids.float(),
        "rewards": torch.full((rows,), float(start)),
    }


def test_no_dict_and_one_dict() -> None:
    assert concat_padded_tensors([]) == {}
    only = trajectory(1, 3)
    copy = concat_padded_tensors([only])
    assert copy == only
    assert copy is not only


def test_right_pads_with_the_value_and_the_mask_with_zero() -> None:
    batch = concat_padded_tensors([trajectory(1, 2), trajectory(2, 3, start=10)], pad_value=9)
    assert batch["input_ids"].tolist() == [[1, 2, 9], [10, 11, 12], [13, 14, 15]]
    assert batch["attention_mask"].tolist() == [[True, True, False], [True] * 3, [True] * 3]
    assert batch["logprobs"][0].tolist() == [-1.0, -2.0, 9.0]
    assert batch["rewards"].tolist() == [1.0, 10.0, 10.0]
    assert batch["input_ids"].dtype == torch.int32
    assert batch["attention_mask"].dtype == torch.bool


@pytest.mark.parametrize("key", ["versions", "turn_ids"])
def test_padding_was_sampled_by_no_weights_and_in_no_turn(key: str) -> None:
    short, long = torch.tensor([[-1, 0]]), torch.tensor([[-1, 2, 2]])
    batch = concat_padded_tensors([{key: short}, {key: long}])
    assert batch[key].tolist() == [[-1, 0, -1], [-1, 2, 2]]


def test_pads_every_dimension_but_the_first() -> None:
    a, b = torch.ones(1, 2, 3), torch.full((2, 3, 1), 2.0)
    out = concat_padded_tensors([{"x": a}, {"x": b}], pad_value=-1.0)["x"]
    assert out.shape == (3, 3, 3)
    assert torch.equal(out[:1, :2, :3], a)
    assert torch.equal(out[1:, :3, :1], b)
    assert int((out == -1.0).sum()) == out.numel() - a.numel() - b.numel()


def test_lists_are_strung_together_and_of_other_values_the_first_is_kept() -> None:
    image = {"pixel_values": torch.zeros(2)}
    dicts = [
        {"multi_modal_input": [image], "names": ["a"], "task": "x"},
        {"multi_modal_input": [image, image], "names": ["b", "c"], "task": "y"},
    ]
    out = concat_padded_tensors(dicts)
    assert len(out["multi_modal_input"]) == 3
    assert out["names"] == ["a", "b", "c"]
    assert out["task"] == "x"


def test_promotes_mixed_integer_types() -> None:
    short, long = torch.ones(1, 2, dtype=torch.int32), torch.ones(1, 3, dtype=torch.int64)
    assert concat_padded_tensors([{"x": short}, {"x": long}])["x"].dtype == torch.int64


@pytest.mark.parametrize(
    ("dicts", "message"),
    [
        ([{"a": torch.ones(1, 1)}, {"b": torch.ones(1, 1)}], r"differ in keys \['a', 'b'\]"),
        ([{"a": torch.tensor(1.0)}, {"a": torch.tensor(2.0)}], "'a' is a 0-dim tensor"),
        ([{"a": torch.ones(1, 2)}, {"a": torch.ones(1)}], "unequal rank"),
    ],
)
def test_refuses(dicts: list[dict[str, torch.Tensor]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        concat_padded_tensors(dicts)


@settings(max_examples=40, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6)), min_size=2, max_size=6),
    tail=st.sampled_from([(), (2,), (1, 3)]),
)
def test_every_row_stands_at_the_left_of_its_place(
    shapes: list[tuple[int, int]], tail: tuple[int, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(rows, length, *tail, generator=generator) for rows, length in shapes]
    out = concat_padded_tensors([{"x": p} for p in parts], pad_value=7.0)["x"]
    row = 0
    for part in parts:
        for sequence in part:
            assert torch.equal(out[row, : len(sequence)], sequence)
            assert bool((out[row, len(sequence) :] == 7.0).all())
            row += 1
    assert row == len(out)


def test_collates_rows_to_sequences_of_one() -> None:
    image = {"pixel_values": torch.zeros(3)}
    rows = [
        {"input_ids": [1, 2, 3], "loss_mask": [0, 1, 1], "score": 0.5, "multi_modal_input": image},
        {"input_ids": torch.tensor([4]), "loss_mask": [1], "score": 1.0, "text": "hello"},
    ]
    first, second = collate_samples_to_list(rows)
    assert first["input_ids"].tolist() == [[1, 2, 3]]
    assert first["attention_mask"].tolist() == [[True, True, True]]
    assert first["score"].tolist() == [0.5]
    assert first["multi_modal_input"] == [image]
    assert second["input_ids"].shape == (1, 1)
    assert second["text"] == ["hello"]
    with pytest.raises(ValueError, match="input_ids"):
        collate_samples_to_list([{"score": 1.0}])


def test_pads_rows_to_one_batch() -> None:
    batch = pad_sequences_to_tensors([{"input_ids": [5, 6]}, {"input_ids": [7, 8, 9]}])
    assert batch["input_ids"].tolist() == [[5, 6, 0], [7, 8, 9]]
    assert batch["attention_mask"].sum(1).tolist() == [2, 3]
    assert pad_sequences_to_tensors([]) == {}


def test_reorders_by_a_permutation_only() -> None:
    assert reorder_list(["a", "b", "c"], [2, 0, 1]) == ["c", "a", "b"]
    for indices in ([0, 0, 1], [0, 1], [0, 1, 3]):
        with pytest.raises(ValueError, match="permutation"):
            reorder_list(["a", "b", "c"], indices)


def test_stacks_tensors_of_unequal_length() -> None:
    out = pad_and_stack_tensors_along_first_dim([torch.ones(2, 2), torch.ones(1, 2)])
    assert out.tolist() == [[[1, 1], [1, 1]], [[1, 1], [0, 0]]]
    with pytest.raises(ValueError, match="dimensions"):
        pad_and_stack_tensors_along_first_dim([torch.ones(2), torch.ones(2, 2)])


def test_moves_nested_containers() -> None:
    moved = tensor_container_to({"a": [torch.ones(1), (torch.ones(1), "x")]}, torch.float64)
    assert moved["a"][0].dtype == moved["a"][1][0].dtype == torch.float64
    assert moved["a"][1][1] == "x"


class _Sampler:
    def __init__(self) -> None:
        self.epochs: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)


class _Loader(list[int]):
    sampler = _Sampler()


def test_cycles_with_a_new_epoch_each_time() -> None:
    loader = _Loader([1, 2])
    assert list(cycle_dataloader(loader, num_cycles=3)) == [1, 2] * 3
    assert loader.sampler.epochs == [0, 1, 2]
    endless = cycle_dataloader([1, 2])
    assert [next(endless) for _ in range(5)] == [1, 2, 1, 2, 1]
    with pytest.raises(ValueError, match="no batch"):
        next(cycle_dataloader([]))
