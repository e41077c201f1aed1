"""Pairs of answers: which rows are trained on, and that no pair is parted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from areal.api.errors import DatasetError
from areal.trainer.pairs import num_pairs, usable_pairs, whole_pairs

RW = ("chosen_ids", "rejected_ids")
DPO = (*RW, "chosen_loss_mask", "rejected_loss_mask")
GOOD: dict[str, Any] = {
    "chosen_ids": [1, 2, 3],
    "rejected_ids": [1, 4],
    "chosen_loss_mask": [0, 1, 1],
    "rejected_loss_mask": [0, 1],
}
SAME = GOOD | {"rejected_ids": [1, 2, 3], "rejected_loss_mask": [0, 1, 1]}


def usable(rows: list[dict[str, Any]], columns: tuple[str, ...] = DPO) -> Any:
    return usable_pairs(rows, columns, "train_dataset", max_length=4, num_embeddings=10)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"chosen_ids": []}, "empty chosen_ids: an answer has at least its end token"),
        ({"rejected_ids": [1, 2, 3, 4, 5]}, "5 tokens in rejected_ids, and the model takes 4"),
        ({"chosen_loss_mask": [0, 1]}, "2 values in chosen_loss_mask for 3 tokens in chosen_ids"),
        ({"rejected_loss_mask": [0, 0]}, "rejected_loss_mask of 0 after its first token"),
        ({"rejected_loss_mask": [1, 0]}, "rejected_loss_mask of 0 after its first token"),
        ({"rejected_loss_mask": [0, 2]}, "the value 2 in rejected_loss_mask"),
        ({"chosen_loss_mask": [0, -1, 1]}, "the value -1 in chosen_loss_mask"),
        ({"chosen_ids": None}, "no list of token ids in chosen_ids"),
        ({"chosen_ids": "123"}, "no list of token ids in chosen_ids"),
        ({"chosen_ids": [[1, 2, 3]]}, "no list of token ids in chosen_ids"),
        ({"chosen_ids": [1.0, 2.5, 3.0]}, "no list of token ids in chosen_ids"),
        ({"chosen_ids": [1, -2, 3]}, "token -2 in chosen_ids, and the model has 0 to 9"),
        ({"chosen_ids": [1, 10, 3]}, "token 10 in chosen_ids, and the model has 0 to 9"),
    ],
)
def test_a_row_that_cannot_be_trained_on_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(DatasetError, match=f"^train_dataset: row 1 .*{words}"):
        usable([GOOD, GOOD | change])


def test_reference_log_probabilities_are_numbers() -> None:
    logprobs = {"chosen_ref_logprobs": [0.0] * 3, "rejected_ref_logprobs": [0.0, math.nan]}
    with pytest.raises(DatasetError, match="row 0 has a rejected_ref_logprobs that is not finite"):
        usable([GOOD | logprobs], (*DPO, *logprobs))


@pytest.mark.parametrize("make", [torch.tensor, np.array, np.uint16, np.uint32])
def test_columns_may_be_arrays(make: Any) -> None:
    rows = [{name: make(value) for name, value in row.items()} for row in (GOOD, SAME)]
    assert len(usable(rows)) == 1


def test_a_row_that_is_none_is_named() -> None:
    with pytest.raises(DatasetError, match="row 1 is None, and no mapping of columns"):
        usable([GOOD, None])  # type: ignore[list-item]  # as a loader of one's own may return


def test_a_row_without_a_side_is_named() -> None:
    with pytest.raises(DatasetError, match="row 1 has no rejected_ids; it has chosen_ids"):
        usable([GOOD, {"chosen_ids": [1]}], RW)


def test_pairs_that_do_not_differ_are_left_out_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = usable([SAME, GOOD, SAME, GOOD])
    assert list(kept) == [GOOD, GOOD]
    assert "left out 2 of 4 pairs" in caplog.text
    rows = [GOOD, GOOD]
    assert usable(rows) is rows
    with pytest.raises(DatasetError, match="both sides of all 2 pairs are the same"):
        usable([SAME, SAME])


def test_a_pair_with_an_empty_side_does_not_count() -> None:
    cu_seqlens = torch.tensor([0, 3, 5, 5, 9, 10, 12], dtype=torch.int32)
    assert whole_pairs(cu_seqlens).tolist() == [True, False, True]
    assert int(num_pairs({"cu_seqlens": cu_seqlens})) == 2
