"""The Archon benchmark compares one thing: its batches and the losses of its sides."""

from __future__ import annotations

import pytest
import torch

from benchmarks.archon.sides import SIDES, Sizes, check_same_loss, make_batch, num_real_tokens

CPU = torch.device("cpu")
TINY = Sizes(32, 64, 2, 2, 1, 16, 64, 4, 32)


@pytest.mark.parametrize("fill", [0.3, 1.0])
def test_a_batch_is_as_full_as_it_says(fill: float) -> None:
    batch = make_batch(Sizes(), fill, 0, CPU)
    mask_BL = batch["attention_mask"]
    assert mask_BL.float().mean() == pytest.approx(fill, abs=0.02)
    assert bool(mask_BL[0].all())
    assert torch.equal(batch["loss_mask"].sum(1), mask_BL.sum(1) - 1)
    assert num_real_tokens([batch, batch]) == 2 * int(mask_BL.sum())


def test_all_sides_have_one_loss() -> None:
    batch = make_batch(TINY, 0.4, 0, CPU)
    losses = {name: make(TINY, torch.float32, CPU)(batch) for name, make in SIDES.items()}
    assert check_same_loss(losses, torch.float32) < 1e-5


def test_sides_that_compute_something_else_are_not_compared() -> None:
    losses = {"one": torch.tensor(2.0), "other": torch.tensor(2.001)}
    with pytest.raises(ArithmeticError, match="disagree"):
        check_same_loss(losses, torch.float32)
    assert check_same_loss(losses, torch.bfloat16) < 1e-3
