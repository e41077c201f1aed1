"""Dataset: questions with answers, from files or the hub.

A loader takes a JSONL, JSON, CSV or Parquet file, a folder with such a file for each split, or a
hub id. Rows of more than `max_length` tokens are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from areal.dataset.shaping import load_rows, rl_rows, sft_rows, to_messages

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

# YOURS: name the columns of your data that hold the question and the answer
QUESTION = "question"
ANSWER = "answer"
COLUMNS = (QUESTION, ANSWER)


def split_row(row: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Return the prompt of a row, as messages, and the answer to it; a row has COLUMNS alone."""
    return to_messages(row[QUESTION]), to_messages(row[ANSWER])[-1]["content"]


def get_plain_rows_rl_dataset(
    path: str, split: str | None, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None
) -> Dataset:
    """Load rows for reinforcement learning.

    Args:
        path: A file, a folder or a hub id.
        split: Such as "train", which None means; a single file is read whatever the split.
        tokenizer: Renders the chat and encodes it.
        max_length: Drops rows of more tokens; None keeps all.

    Returns:
        Rows of `messages` (role and content, the prompt) and `answer` (text, for the reward).

    Raises:
        ValueError: The source is not there, lacks a column, or has no rows with values.
    """
    rows = load_rows(path, split, COLUMNS)
    return rl_rows(rows, split_row, tokenizer, max_length)


def get_plain_rows_sft_dataset(
    path: str, split: str | None, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None
) -> Dataset:
    """Load rows for supervised fine-tuning.

    Args:
        path: A file, a folder or a hub id.
        split: Such as "train", which None means; a single file is read whatever the split.
        tokenizer: Renders the chat and encodes it.
        max_length: Drops rows of more tokens; None keeps all.

    Returns:
        Rows of `input_ids` and `loss_mask`: 1 on the answer and the end of sequence, else 0.

    Raises:
        ValueError: The source is not there, lacks a column, or has no rows with values.
    """
    rows = load_rows(path, split, COLUMNS)
    return sft_rows(rows, split_row, tokenizer, max_length)
