"""Rows of a Trinity-RFT taskset or experience buffer, by the keys of its format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from areal.api.errors import DatasetError
from areal.dataset.rows import Row, RowDataset
from areal.dataset.shaping import (
    completion_token_ids,
    longer_side,
    prompt_token_ids,
    sft_row,
    with_pair_masks,
)
from areal.dataset.sources import Source
from areal.dataset.tokens import keep_short

Messages = list[dict[str, Any]]


def get_taskset_rl_dataset(
    path: str, split: str = "train", subset_name: str | None = None
) -> RowDataset:
    """Load rows as they are, for workflows.

    Args:
        path: A file, a folder or a hub id; see ``Source.read``.
        split: Such as "train".
        subset_name: The configuration of a hub repository.

    Raises:
        DatasetError: The data is not there.
    """
    return RowDataset(_source(path, subset_name, ()).read(path, split))


def get_taskset_sft_dataset(
    path: str,
    split: str = "train",
    tokenizer: Any = None,
    max_length: int | None = None,
    subset_name: str | None = None,
    format_args: Mapping[str, Any] | None = None,
) -> RowDataset:
    """Load conversations, or prompts with answers, for supervised fine-tuning.

    Args:
        path: See ``get_taskset_rl_dataset``.
        split: Such as "train".
        tokenizer: Encodes the rows.
        max_length: Drops rows of more tokens.
        subset_name: The configuration of a hub repository.
        format_args: The fields of FormatConfig: with ``prompt_type`` messages ``messages_key``
            holds a conversation that ends in the answer, with plaintext ``prompt_key`` and
            ``response_key`` are texts.

    Returns:
        Rows of ``input_ids`` and ``loss_mask``.

    Raises:
        DatasetError: The data is not there, or a conversation ends in no answer.
    """
    keys = _Format(format_args)
    columns = (keys.messages,) if keys.has_messages else (keys.prompt, keys.response)
    rows = RowDataset(_source(path, subset_name, columns).read(path, split))

    def encode(row: Row) -> Row:
        if not keys.has_messages:
            return sft_row(tokenizer, keys.asked(row), str(row[keys.response]))
        *asked, answer = row[keys.messages]
        if answer.get("role") != "assistant" or not asked:
            raise DatasetError(
                f"a row of {path} has a {keys.messages} that does not end in an answer of the "
                "assistant"
            )
        return sft_row(tokenizer, asked, answer["content"])

    return keep_short(rows.map(encode), max_length, lambda row: len(row["input_ids"]), path)


def get_taskset_dpo_dataset(
    path: str,
    split: str = "train",
    tokenizer: Any = None,
    max_length: int | None = None,
    subset_name: str | None = None,
    format_args: Mapping[str, Any] | None = None,
) -> RowDataset:
    """Load prompts with a chosen and a rejected answer.

    Args:
        path: See ``get_taskset_rl_dataset``.
        split: Such as "train".
        tokenizer: Encodes the rows.
        max_length: Drops pairs of which either side has more tokens.
        subset_name: The configuration of a hub repository.
        format_args: The fields of FormatConfig. An answer is a text, or messages that end in one.

    Returns:
        Rows of ``chosen_ids``, ``rejected_ids`` and their loss masks.

    Raises:
        DatasetError: The data is not there.
    """
    keys = _Format(format_args)
    prompt = keys.messages if keys.has_messages else keys.prompt
    columns = (prompt, keys.chosen, keys.rejected)
    rows = RowDataset(_source(path, subset_name, columns).read(path, split))

    def encode(row: Row) -> Row:
        asked = list(row[prompt]) if keys.has_messages else keys.asked(row)
        tokens = prompt_token_ids(tokenizer, asked)
        pair = {
            f"{side}_ids": tokens + completion_token_ids(tokenizer, _answer(row[column]))
            for side, column in (("chosen", keys.chosen), ("rejected", keys.rejected))
        }
        return with_pair_masks(pair)

    different = rows.map(encode).filter(lambda row: row["chosen_ids"] != row["rejected_ids"])
    return keep_short(different, max_length, longer_side, path)


class _Format:
    """The columns of a row, by the defaults of FormatConfig."""

    def __init__(self, given: Mapping[str, Any] | None) -> None:
        args = dict(given or {})
        kind = str(args.get("prompt_type", "messages")).lower()
        if kind not in ("messages", "plaintext"):
            raise DatasetError(f"format.prompt_type is {kind!r}; known: messages, plaintext")
        self.has_messages = kind == "messages"
        self.messages: str = args.get("messages_key", "message")
        self.prompt: str = args.get("prompt_key", "prompt")
        self.response: str = args.get("response_key", "response")
        self.chosen: str = args.get("chosen_key", "chosen")
        self.rejected: str = args.get("rejected_key", "rejected")
        self._system: str | None = args.get("system_prompt")
        self._system_key: str | None = args.get("system_prompt_key")

    def asked(self, row: Row) -> Messages:
        """Return a text prompt as messages."""
        system = row.get(self._system_key) if self._system_key else self._system
        first = [{"role": "system", "content": system}] if system else []
        return [*first, {"role": "user", "content": str(row[self.prompt])}]


def _answer(value: Any) -> str:
    return str(value[-1]["content"] if isinstance(value, list) else value)


def _source(path: str, subset_name: str | None, columns: tuple[str, ...]) -> Source:
    hint = "set the path of the taskset in the YAML"
    return Source("taskset", columns, hub_config=subset_name, hint=hint)
