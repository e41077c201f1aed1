"""Dataset: pairs of replies, from files or the hub.

A loader takes a JSONL, JSON, CSV or Parquet file, a folder with such a file for each split, or a
hub id. Rows of more than `max_length` tokens are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from areal.dataset.shaping import load_rows, rw_rows

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

SIDES = {
    "chosen": "better",
    "rejected": "worse",
}


def sides_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return both conversations of a row, from the prompt to the reply."""
    return {side: row[column] for side, column in SIDES.items()}


def get_only_rw_rw_dataset(
    path: str, split: str | None, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None
) -> Dataset:
    """Load pairs for a reward model.

    Args:
        path: A file, a folder or a hub id.
        split: Such as "train", which None means; a single file is read whatever the split.
        tokenizer: Renders the chat and encodes it.
        max_length: Drops rows of more tokens; None keeps all.

    Returns:
        Rows of `chosen_ids` and `rejected_ids`, which end in the end of sequence.

    Raises:
        ValueError: The source is not there, lacks a column, or has no rows with values.
    """
    rows = load_rows(path, split, list(SIDES.values()))
    return rw_rows(rows, sides_of, tokenizer, max_length)
