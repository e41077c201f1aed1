from __future__ import annotations

import pytest
import torch

from areal.trainer.groups import drop_zero_variance_groups, groups_with_variance


def test_flat_groups_are_dropped_with_all_their_rows() -> None:
    batch = {
        "rewards": torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 0.5]),
        "input_ids": torch.arange(12).view(6, 2),
        "names": list("abcdef"),
        "task": "sum",
    }
    kept, sizes = drop_zero_variance_groups(batch, group_sizes=[2, 3, 1])
    assert sizes == [3]
    assert kept["input_ids"].tolist() == [[4, 5], [6, 7], [8, 9]]
    assert kept["names"] == ["c", "d", "e"]
    assert kept["task"] == "sum"
    assert groups_with_variance(batch["rewards"], [2, 3, 1]).tolist() == [False, True, False]
    pairs, sizes = drop_zero_variance_groups(batch, group_size=2)
    assert sizes == [2, 2]
    assert pairs["names"] == ["c", "d", "e", "f"]


def test_nothing_may_be_left() -> None:
    batch = {"rewards": torch.ones(4), "input_ids": torch.ones(4, 3)}
    kept, sizes = drop_zero_variance_groups(batch, group_size=2)
    assert sizes == []
    assert kept["input_ids"].shape == (0, 3)
    with pytest.raises(ValueError, match="groups of 3"):
        drop_zero_variance_groups(batch, group_size=3)
