"""Dataset: questions with answers, from files or the hub.

A loader takes a JSONL, JSON, CSV or Parquet file, a folder with such a file for each split, or a
hub id. Rows of more than `max_length` tokens are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from areal.dataset.shaping import load_rows, rl_rows, to_messages

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

COLUMNS = ('it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""', "a\\b")
QUESTION, ANSWER = COLUMNS


def split_row(row: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Return the prompt of a row, as messages, and the answer to it."""
    return to_messages(row[QUESTION]), to_messages(row[ANSWER])[-1]["content"]


def get_only_rl_rl_dataset(
    path: str, split: str | None, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None
) -> Dataset:
    """Load rows of `messages` and `answer` for reinforcement learning."""
    rows = load_rows(path, split, COLUMNS)
    return rl_rows(rows, split_row, tokenizer, max_length)
