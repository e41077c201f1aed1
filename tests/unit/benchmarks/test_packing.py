"""The batches of the packing benchmark are as full as it says."""

from __future__ import annotations

import pytest
import torch

from benchmarks.packing import FILLS, NUM_SEQUENCES, PADDED_LENGTH, make_batch


@pytest.mark.parametrize("fill", FILLS.values())
@pytest.mark.parametrize("seed", [0, 1])
def test_a_batch_is_as_full_as_it_says(fill: float, seed: int) -> None:
    batch = make_batch(fill, vocab_size=23, seed=seed)
    mask_BL = batch["attention_mask"]
    assert mask_BL.shape == (NUM_SEQUENCES, PADDED_LENGTH)
    assert mask_BL.float().mean() == pytest.approx(fill, abs=0.01)
    assert bool(mask_BL[0].all())
    lengths_B = mask_BL.sum(1)
    assert torch.equal(batch["loss_mask"].sum(1), lengths_B - 1)
    assert not batch["loss_mask"][~mask_BL].any()
    assert int(batch["input_ids"].max()) < 23
