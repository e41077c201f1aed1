"""A data set of one's own: Roman numerals from a CSV file, for warm-up and for rewards."""

from __future__ import annotations

from typing import Any

from areal.dataset.rows import RowDataset
from areal.dataset.shaping import sft_row
from areal.dataset.sources import Source

SOURCE = Source("numerals", ("roman", "number"))


def get_numerals_sft_dataset(path: str, split: str, tokenizer: Any) -> RowDataset:
    """Load numerals with their numbers, as tokens."""
    return get_numerals_rl_dataset(path, split).map(
        lambda row: sft_row(tokenizer, row["messages"], row["answer"])
    )


def get_numerals_rl_dataset(path: str, split: str) -> RowDataset:
    """Load numerals with their numbers; every fifth line of the file is held out for "test"."""
    rows = [
        {"messages": [{"role": "user", "content": row["roman"] + "="}], "answer": row["number"]}
        for row in SOURCE.read(path, split)
    ]
    is_test = split == "test"
    return RowDataset([row for line, row in enumerate(rows) if (line % 5 == 4) == is_test])
