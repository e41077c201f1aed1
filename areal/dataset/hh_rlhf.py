"""HH-RLHF: pairs of conversations, one of which people preferred."""

from __future__ import annotations

from typing import Any

from areal.dataset.rows import Row, RowDataset
from areal.dataset.shaping import longer_side, with_pair_masks
from areal.dataset.sources import Source
from areal.dataset.tokens import keep_short, logger, text_of

SOURCE = Source("hh_rlhf", ("chosen", "rejected"), hub_id="Anthropic/hh-rlhf")


def get_hh_rlhf_rw_dataset(
    path: str, split: str, tokenizer: Any, max_length: int | None = None
) -> RowDataset:
    r"""Load preference pairs for a reward model.

    Args:
        path: See ``Source.read``.
        split: "train" or "test".
        tokenizer: Encodes the conversations as the text they are ("\n\nHuman: ...").
        max_length: Drops pairs of which either side has more tokens.

    Returns:
        Rows of ``chosen_ids`` and ``rejected_ids`` (lists of ints that end in end-of-sequence).

    Raises:
        DatasetError: The data is not there or not as expected.

    Source: https://github.com/anthropics/hh-rlhf, MIT licence.
    """
    rows = RowDataset(SOURCE.read(path, split)).map(lambda row: _encode(tokenizer, row))
    return keep_short(rows, max_length, longer_side, f"{path} ({split})")


def get_hh_rlhf_dpo_dataset(
    path: str, split: str, tokenizer: Any, max_length: int | None = None
) -> RowDataset:
    """Load preference pairs for direct preference optimisation.

    Args:
        path: See ``Source.read``.
        split: "train" or "test".
        tokenizer: Encodes the conversations as the text they are.
        max_length: Drops pairs of which either side has more tokens.

    Returns:
        Rows of ``chosen_ids``, ``rejected_ids``, ``chosen_loss_mask`` and ``rejected_loss_mask``:
        the tokens that both sides begin with carry no loss. Pairs that do not differ are left out.

    Raises:
        DatasetError: The data is not there or not as expected.

    Source: https://github.com/anthropics/hh-rlhf, MIT licence.
    """
    rows = get_hh_rlhf_rw_dataset(path, split, tokenizer, max_length)
    different = rows.filter(lambda row: row["chosen_ids"] != row["rejected_ids"])
    if len(different) < len(rows):
        logger.info(
            "%s (%s): dropped %d pairs that do not differ", path, split, len(rows) - len(different)
        )
    return different.map(with_pair_masks)


def _encode(tokenizer: Any, row: Row) -> Row:
    return {
        f"{side}_ids": [*tokenizer.encode(text_of(row, side)), tokenizer.eos_token_id]
        for side in ("chosen", "rejected")
    }
