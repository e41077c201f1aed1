"""Dataset: pairs of replies, from files or the hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from areal.utils import logging
from areal.utils.hf_utils import apply_chat_template
from datasets import Dataset, load_dataset

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger("Dataset")

SIDES = {
    "chosen": "better",
    "rejected": "worse",
}


def load_rows(path: str, split: str | None, columns: Sequence[str]) -> Dataset:
    """Loads the rows of the source that have a value in every column.

    Raises:
        ValueError: The source lacks a column, or has no such rows.
    """
    place = Path(path)
    is_csv = place.suffix == ".csv" or any(place.glob("*.csv"))
    # Text stays what it is: 007 is not 7, and the word None is no gap.
    text = {"converters": dict.fromkeys(columns, str), "na_filter": False} if is_csv else {}
    if place.is_file():
        form = {".csv": "csv", ".parquet": "parquet"}.get(place.suffix, "json")
        rows = load_dataset(form, data_files=path, split="train", **text)
    else:
        rows = load_dataset(path, split=split or "train", **text)
    missing = [name for name in columns if name not in rows.column_names]
    if missing:
        raise ValueError(f"{path!r} lacks the columns {missing}; it has {rows.column_names}")
    whole = rows.filter(lambda row: all(row[name] not in (None, "", []) for name in columns))
    if not len(whole):
        raise ValueError(f"{path!r} has no rows with values in {list(columns)}, split {split!r}")
    if len(whole) < len(rows):
        logger.warning("%s: %d rows lack a value and go", path, len(rows) - len(whole))
    return whole


def to_messages(value: Any, role: str = "user") -> list[dict[str, str]]:
    """Makes one message of a text; of messages it keeps role and content."""
    if isinstance(value, list):
        return [{"role": each["role"], "content": each["content"]} for each in value]
    return [{"role": role, "content": str(value)}]


def encode(
    tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, str]], reply: str
) -> tuple[list[int], list[int]]:
    """Returns the tokens of a prompt as in reinforcement learning, and of a reply and its end."""
    prompt = list(apply_chat_template(tokenizer, messages, add_generation_prompt=True))
    learnt = tokenizer.encode(reply, add_special_tokens=False)
    return prompt, [*learnt, tokenizer.eos_token_id]


def encode_side(
    tokenizer: PreTrainedTokenizerBase, sample: dict[str, Any], column: str
) -> list[int]:
    """Returns the tokens of one side of a pair, from the prompt to the end of the reply."""
    if isinstance(sample[column], str):  # a whole conversation as text, taken as it is
        return [*tokenizer.encode(sample[column]), tokenizer.eos_token_id]
    side = to_messages(sample[column])
    prompt_ids, reply_ids = encode(tokenizer, side[:-1], side[-1]["content"])
    return prompt_ids + reply_ids


def load_pairs(
    path: str, split: str | None, tokenizer: PreTrainedTokenizerBase, max_length: int | None
) -> Dataset:
    """Loads rows of chosen_ids and rejected_ids, neither longer than max_length."""

    def shape(sample: dict[str, Any]) -> dict[str, list[int]]:
        return {f"{side}_ids": encode_side(tokenizer, sample, SIDES[side]) for side in SIDES}

    rows = load_rows(path, split, [*SIDES.values()])
    rows = rows.map(shape, remove_columns=rows.column_names)
    if max_length is None:
        return rows
    return rows.filter(lambda row: max(map(len, row.values())) <= max_length)


def get_only_rw_rw_dataset(
    path: str,
    split: str | None,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int | None = None,
) -> Dataset:
    """Loads pairs for a reward model.

    Args:
        path: A JSONL, CSV or Parquet file, a folder of such, or a hub id.
        split: Which part of a folder or hub id, such as train or test.
        tokenizer: A tokenizer with a chat template.
        max_length: Pairs with a longer side are dropped; None keeps all.

    Returns:
        Rows of chosen_ids and rejected_ids, which end in the end token.
    """
    return load_pairs(path, split, tokenizer, max_length)
