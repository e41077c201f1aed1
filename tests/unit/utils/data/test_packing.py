from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from areal.utils.data import (
    concat_padded_tensors,
    pack_tensor_dict,
    pad_packed_tensor,
    pad_packed_tensor_dict,
    unpack_sequence,
)


def batch_of(lengths: list[int], extra_columns: int = 0) -> dict[str, object]:
    width = max(lengths) + extra_columns
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    ids = torch.arange(1, mask.numel() + 1).view(mask.shape)
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "embeds": torch.stack([ids, -ids], -1).float(),
        "rewards": torch.arange(len(lengths)).float(),
        "names": [str(n) for n in lengths],
    }


def test_packs_tokens_and_keeps_the_rest() -> None:
    batch = batch_of([2, 3])
    packed = pack_tensor_dict(batch)
    assert packed["input_ids"].tolist() == [1, 2, 4, 5, 6]
    assert packed["embeds"][:, 1].tolist() == [-1, -2, -4, -5, -6]
    assert packed["cu_seqlens"].tolist() == [0, 2, 5]
    assert packed["cu_seqlens"].dtype == torch.int32
    assert packed["max_seqlen"] == 3
    assert isinstance(packed["max_seqlen"], int)
    assert packed["rewards"] is batch["rewards"]
    assert packed["names"] == ["2", "3"]
    assert "attention_mask" not in packed


lengths_strategy = st.lists(st.integers(1, 7), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(lengths=lengths_strategy, extra=st.integers(0, 3))
def test_packing_and_unpacking_are_inverse(lengths: list[int], extra: int) -> None:
    batch = batch_of(lengths, extra)
    packed = pack_tensor_dict(batch)
    padded = pad_packed_tensor(packed["embeds"], batch["attention_mask"], pad_value=-5.0)
    mask = batch["attention_mask"]
    assert torch.equal(padded[mask], batch["embeds"][mask])
    assert bool((padded[~mask] == -5.0).all())
    sequences = unpack_sequence(packed["input_ids"], packed["cu_seqlens"])
    assert [len(s) for s in sequences] == lengths
    for row, sequence in zip(batch["input_ids"], sequences, strict=True):
        assert torch.equal(row[: len(sequence)], sequence)


@settings(max_examples=30, deadline=None)
@given(lengths=lengths_strategy)
def test_packing_a_concatenation_is_concatenating_packed(lengths: list[int]) -> None:
    parts = [batch_of([n]) for n in lengths]
    whole = pack_tensor_dict(concat_padded_tensors(parts))
    flat = torch.cat([pack_tensor_dict(p)["input_ids"] for p in parts])
    assert torch.equal(whole["input_ids"], flat)


def test_packs_masks_with_holes_and_on_the_left() -> None:
    mask = torch.tensor([[0, 1, 1], [1, 0, 1]])
    packed = pack_tensor_dict({"attention_mask": mask, "x": torch.tensor([[1, 2, 3], [4, 5, 6]])})
    assert packed["x"].tolist() == [2, 3, 4, 6]
    back = pad_packed_tensor(packed["x"], mask)
    assert back.tolist() == [[0, 2, 3], [4, 0, 6]]


def test_spreading_back_is_differentiable() -> None:
    mask = torch.tensor([[1, 0], [1, 1]])
    x = torch.arange(3.0, requires_grad=True)
    (pad_packed_tensor(x, mask) * torch.tensor([[1.0, 9.0], [2.0, 3.0]])).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="2 packed values do not fit 3 real places"):
        pad_packed_tensor(torch.ones(2), mask)


def test_unpacks_by_lengths_and_along_a_dimension() -> None:
    x = torch.arange(10).view(2, 5)
    assert [s.tolist() for s in unpack_sequence(x, lens=[2, 3], dim=1)] == [
        [[0, 1], [5, 6]],
        [[2, 3, 4], [7, 8, 9]],
    ]
    with pytest.raises(ValueError, match="cu_seqlens or lens"):
        unpack_sequence(x)


def test_padding_is_one_more_sequence_without_loss() -> None:
    packed = pack_tensor_dict(
        {
            "attention_mask": torch.tensor([[1, 1, 0], [1, 1, 1]]),
            "input_ids": torch.tensor([[1, 2, 0], [3, 4, 5]]),
            "position_ids": torch.tensor([[0, 1, 0], [0, 1, 2]]),
            "loss_mask": torch.tensor([[1, 1, 0], [1, 1, 1]]),
            "rewards": torch.tensor([1.0, 2.0]),
        }
    )
    padded = pad_packed_tensor_dict(packed, total_length=12, pad_value=8)
    assert padded["input_ids"].tolist() == [1, 2, 3, 4, 5] + [8] * 7
    assert padded["loss_mask"].tolist() == [1] * 5 + [0] * 7
    assert padded["position_ids"].tolist() == [0, 1, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6]
    assert padded["cu_seqlens"].tolist() == [0, 2, 5, 12]
    assert padded["max_seqlen"] == 7
    assert padded["rewards"].tolist() == [1.0, 2.0]
    assert pad_packed_tensor_dict(packed, 5)["cu_seqlens"].tolist() == [0, 2, 5]
    with pytest.raises(ValueError, match="5 tokens do not fit into 4"):
        pad_packed_tensor_dict(packed, 4)
