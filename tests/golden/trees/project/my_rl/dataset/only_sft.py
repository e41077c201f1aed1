"""Dataset: questions with answers, from files or the hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from areal.utils.hf_utils import apply_chat_template
from datasets import Dataset, load_dataset

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

COLUMNS = ("q", "a")
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


def get_only_sft_sft_dataset(
    path: str,
    split: str | None,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int | None = None,
) -> Dataset:
    """Loads rows for supervised fine-tuning.

    Args:
        path: A JSONL or Parquet file, a folder of such, or a hub id.
        split: Which part of a folder or hub id, such as train or test.
        tokenizer: A tokenizer with a chat template.
        max_length: Longer rows are dropped; None keeps all.

    Returns:
        Rows of input_ids and loss_mask, the mask 1 on the answer and the end token. The prompt
        is written as in reinforcement learning, so that a warm-up carries over.
    """

    def encode(sample: dict[str, Any]) -> dict[str, list[int]]:
        messages = to_messages(sample)
        prompt = list(apply_chat_template(tokenizer, messages, add_generation_prompt=True))
        answer = tokenizer.encode(str(sample[ANSWER_COLUMN]), add_special_tokens=False)
        answer.append(tokenizer.eos_token_id)
        return {
            "input_ids": prompt + answer,
            "loss_mask": [0] * len(prompt) + [1] * len(answer),
        }

    rows = load_rows(path, split)
    rows = rows.map(encode, remove_columns=rows.column_names)
    if max_length is None:
        return rows
    return rows.filter(lambda row: len(row["input_ids"]) <= max_length)
