"""What verify finds in the rows of a loader."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

RUNNERS = Path(__file__).parents[5] / "scaffold" / "runners"


@pytest.fixture(scope="module")
def checks() -> Any:
    """Imports the runner as it runs: its folder on the path, nothing of scaffold."""
    sys.path.insert(0, str(RUNNERS))
    try:
        from unit_probe import dataset
    finally:
        sys.path.remove(str(RUNNERS))
    return dataset


def pair(**changes: Any) -> dict[str, Any]:
    row = {"chosen_ids": [1, 2, 3], "rejected_ids": [1, 4, 5, 6]}
    return {**row, **changes}


def masked(**changes: Any) -> dict[str, Any]:
    masks = {"chosen_loss_mask": [0, 1, 1], "rejected_loss_mask": [0, 1, 1, 1]}
    return pair(**{**masks, **changes})


SAME = {"rejected_ids": [1, 2, 3]}
BEGINNING = {"rejected_ids": [1, 2], "rejected_loss_mask": [0, 0], "chosen_loss_mask": [0, 0, 1]}

RW = [
    ([pair()], ""),
    ([pair(), pair(**SAME)], ""),
    ([pair(**SAME)], "are identical"),
    ([pair(chosen_ids=[])], "chosen_ids of row 0 must be a non-empty list"),
    ([pair(), pair(rejected_ids=[1.0])], "rejected_ids of row 1 must be a non-empty list"),
    ([pair(rejected_ids=[1, 99])], "outside the vocabulary of 10"),
    ([pair(prompt="x")], "expected exactly chosen_ids and rejected_ids"),
    ([{"chosen_ids": [1]}], "expected exactly"),
]
DPO = [
    ([masked()], ""),
    ([masked(**BEGINNING)], "rejected_loss_mask of row 0 is 0 everywhere"),
    ([pair()], "it also needs chosen_loss_mask and rejected_loss_mask"),
    ([masked(chosen_loss_mask=[0, 1])], "0 or 1 for each of its 3 tokens"),
    ([masked(chosen_loss_mask=[0, 2, 1])], "0 or 1 for each of its 3 tokens"),
    ([masked(chosen_loss_mask=[1, 1, 1])], "on some of the 1 tokens that both sides begin with"),
    (
        [masked(chosen_loss_mask=[0, 0, 0], rejected_loss_mask=[0, 0, 0, 0])],
        "nothing would be learnt",
    ),
    ([masked(**SAME, rejected_loss_mask=[0, 0, 0])], "are identical"),
]


def taught(**changes: Any) -> dict[str, Any]:
    return {"input_ids": [1, 2, 3], "loss_mask": [0, 0, 1], **changes}


SFT = [
    ([taught()], ""),
    ([{"input_ids": [1], "mask": [1]}], "expected exactly input_ids and"),
    ([taught(input_ids=[1, 2, 99])], "outside the vocabulary"),
    ([taught(loss_mask=[0, 0, 0, 1])], "for each of its 3 tokens"),
    ([taught(loss_mask=[0, 0, 0])], "nothing would be learnt"),
]


@pytest.mark.parametrize(("rows", "message"), SFT)
def test_rows_of_supervised_training(checks: Any, rows: list[dict[str, Any]], message: str) -> None:
    found = checks._check_sft(rows, range(10))
    assert message in found
    assert bool(found) == bool(message)


@pytest.mark.parametrize(("rows", "message"), RW)
def test_pairs_of_a_reward_model(checks: Any, rows: list[dict[str, Any]], message: str) -> None:
    found = checks._check_rw(rows, range(10))
    assert message in found
    assert bool(found) == bool(message)


@pytest.mark.parametrize(("rows", "message"), DPO)
def test_pairs_with_masks(checks: Any, rows: list[dict[str, Any]], message: str) -> None:
    found = checks._check_dpo(rows, range(10))
    assert message in found
    assert bool(found) == bool(message)
