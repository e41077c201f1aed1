"""Rows of a packed batch: every token in place, gradients those of the plain copies."""

import pytest
import torch

from areal.utils.packed_rows import PackedRows, longest_shared_length

MIXES = {
    "one": [7],
    "equal": [4, 4, 4],
    "short": [9, 2, 9, 2, 5, 1],
    "long": [30, 31, 29],
    "mixed": [9, 2, 30, 2, 40, 1, 10],
}


@pytest.mark.parametrize("name", MIXES)
def test_splitting_and_joining_gives_the_batch_back_with_its_gradient(name):
    lengths = MIXES[name]
    torch.manual_seed(0)
    x = torch.randn(3, sum(lengths), 2, dtype=torch.float64, requires_grad=True)
    rows = PackedRows(lengths, longest_shared=20)
    joined = rows.join([part * 2.0 for part in rows.split(x)])
    assert torch.equal(joined, 2.0 * x.transpose(0, 1))
    direction = torch.randn_like(joined)
    (gradient,) = torch.autograd.grad(joined, x, direction)
    assert torch.equal(gradient, 2.0 * direction.transpose(0, 1))


def test_each_row_holds_one_sequence_and_copies_of_its_last_token():
    lengths = MIXES["mixed"]
    total = sum(lengths)
    x = torch.arange(total).view(1, total, 1)
    found = [row[0, :, 0].tolist() for part in PackedRows(lengths).split(x) for row in part]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    for row in found:
        sequence = starts.index(row[0])
        last = starts[sequence] + lengths[sequence] - 1
        assert row == [min(row[0] + i, last) for i in range(len(row))]
    assert sorted(row[0] for row in found) == starts


def test_long_sequences_are_views_of_the_batch():
    x = torch.randn(2, 90, 3)
    for part in PackedRows(MIXES["long"], longest_shared=20).split(x):
        assert part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_only_short_sequences_share_rows():
    lengths = MIXES["mixed"]
    assert PackedRows(lengths, longest_shared=20).shapes[:2] == [(1, 30), (1, 40)]
    assert (2, 40) in PackedRows([39, 40, 2]).shapes
    assert (2, 40) not in PackedRows([39, 40, 2], longest_shared=20).shapes


def test_wide_heads_are_worth_a_call_at_shorter_lengths():
    assert longest_shared_length(64) > longest_shared_length(1024) > 1
