"""Dataset: questions with answers, from files or the hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from areal.utils.hf_utils import apply_chat_template
from datasets import Dataset, load_dataset

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

COLUMNS = ('it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""', "a\\b")
QUESTION_COLUMN, ANSWER_COLUMN = COLUMNS


def load_rows(path: str, split: str | None) -> Dataset:
    """Loads the source as it is.

    Raises:
        ValueError: The source has no rows or lacks a column.
    """
    if Path(path).is_file():
        form = "parquet" if path.endswith(".parquet") else "json"
        rows = load_dataset(form, data_files=path, split="train")
    else:
        rows = load_dataset(path, split=split or "train")
    missing = [name for name in COLUMNS if name not in rows.column_names]
    if missing:
        raise ValueError(f"{path!r} lacks the columns {missing}; it has {rows.column_names}")
    if not len(rows):
        raise ValueError(f"{path!r} has no rows in the split {split!r}")
    return rows


def to_messages(sample: dict[str, Any]) -> list[dict[str, str]]:
    """Makes the prompt of one row of the source."""
    return [{"role": "user", "content": str(sample[QUESTION_COLUMN])}]


def get_only_rl_rl_dataset(
    path: str,
    split: str | None,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int | None = None,
) -> Dataset:
    """Loads rows for reinforcement learning.

    Args:
        path: A JSONL or Parquet file, a folder of such, or a hub id.
        split: Which part of a folder or hub id, such as train or test.
        tokenizer: A tokenizer with a chat template; counts the tokens of a prompt.
        max_length: Rows with a longer prompt are dropped; None keeps all.

    Returns:
        Rows of messages, a list of role and content, and answer, a text.
    """

    def shape(sample: dict[str, Any]) -> dict[str, Any]:
        return {"messages": to_messages(sample), "answer": str(sample[ANSWER_COLUMN])}

    def is_short(row: dict[str, Any]) -> bool:
        messages = row["messages"]
        prompt = apply_chat_template(tokenizer, messages, add_generation_prompt=True)
        return len(prompt) <= max_length

    rows = load_rows(path, split)
    rows = rows.map(shape, remove_columns=rows.column_names)
    return rows if max_length is None else rows.filter(is_short)
