"""What a packed batch says of itself."""

import pytest
import torch

from areal.api.errors import ConfigError
from areal.experimental.models.archon.layers.packing import Packing, whole_row

LENGTHS = (5, 1, 12)
CU_SEQLENS = torch.tensor([0, 5, 6, 18])
POSITIONS = torch.cat([torch.arange(n) for n in LENGTHS])


def test_the_forms_of_pipeline_stages_are_taken_too():
    plain = Packing.of(POSITIONS, CU_SEQLENS.int(), 12)
    staged = Packing.of(POSITIONS[None], CU_SEQLENS[None], torch.tensor([12]))
    for packing in (plain, staged):
        assert packing.lengths == LENGTHS
        assert packing.max_seqlen == 12
        assert packing.cu_seqlens.dtype == torch.int32
        assert torch.equal(packing.positions, POSITIONS)
        assert packing.sequence_ids.tolist() == [0] * 5 + [1] + [2] * 12


def test_a_padded_batch_is_refused():
    with pytest.raises(ConfigError, match=r"\(2, 9\)"):
        Packing.of(torch.zeros(2, 9), CU_SEQLENS, 9)


def test_sequences_that_do_not_cover_the_row_are_refused():
    packing = Packing.of(torch.arange(20), CU_SEQLENS, 12)
    with pytest.raises(ConfigError, match="18 tokens and the row has 20"):
        packing.rows(64)


def test_a_slice_of_a_row_finds_its_sequences_and_the_whole():
    part = Packing.of(POSITIONS[4:9], CU_SEQLENS, 12)
    assert part.sequence_ids_from(4).tolist() == [0, 1, 2, 2, 2]
    assert torch.equal(part.whole(18).positions, POSITIONS)
    assert part.whole(18) is part.whole(18)
    assert part.whole(5) is part
    assert torch.equal(whole_row(18, CU_SEQLENS, 12).positions, POSITIONS)


@pytest.mark.parametrize("chunk", [1, 4, 5, 12, 40])
def test_chunks_cut_each_sequence_from_its_start(chunk):
    packing = Packing.of(POSITIONS, CU_SEQLENS, 12)
    pieces = [min(chunk, length - start) for length in LENGTHS for start in range(0, length, chunk)]
    cut = packing.in_chunks(chunk)
    assert [n for n in cut.lengths if n] == pieces
    assert cut.max_seqlen == min(chunk, 12)
    assert torch.equal(cut.positions, POSITIONS % chunk)


def test_empty_sequences_are_passed_over():
    packing = Packing.of(torch.arange(3), torch.tensor([0, 0, 3, 3]), 3)
    assert packing.rows(64).lengths == [3]
    assert packing.sequence_ids.tolist() == [1, 1, 1]


def test_what_is_derived_is_kept():
    packing = Packing.of(POSITIONS, CU_SEQLENS, 12)
    made = [packing.once("key", lambda: object()) for _ in range(2)]
    assert made[0] is made[1]
    assert packing.rows(64) is packing.rows(64)


def test_padding_without_positions_does_not_shift_the_chunks():
    positions = torch.cat((torch.arange(9), torch.zeros(6, dtype=torch.long)))
    cut = Packing.of(positions, torch.tensor([0, 9, 15]), 9).in_chunks(4)
    assert [n for n in cut.lengths if n] == [4, 4, 1, 4, 2]
