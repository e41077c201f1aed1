"""Turns conversations and texts into token rows, and drops those that are too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from areal.api.errors import DatasetError
from areal.dataset.rows import Row, RowDataset
from areal.utils import logging
from areal.utils.hf_utils import apply_chat_template

logger = logging.getLogger("Dataset")

Messages = list[dict[str, Any]]


def prompt_token_ids(tokenizer: Any, messages: Messages) -> list[int]:
    """Return the prompt as the RLVR workflow sends it: rendered, the assistant's turn opened.

    A tokenizer without a chat template gets the contents, one per line.
    """
    if getattr(tokenizer, "chat_template", None):
        return apply_chat_template(tokenizer, messages, add_generation_prompt=True)
    return tokenizer.encode("".join(f"{message['content']}\n" for message in messages))


def completion_token_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of an answer, end-of-sequence included."""
    return [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]


def sft_row(tokenizer: Any, messages: Messages, answer: str) -> Row:
    """Build one supervised row: the loss is on the answer and its end-of-sequence alone.

    Returns:
        ``input_ids`` and ``loss_mask``, lists of ints of one length.
    """
    prompt = prompt_token_ids(tokenizer, messages)
    completion = completion_token_ids(tokenizer, answer)
    return {
        "input_ids": prompt + completion,
        "loss_mask": [0] * len(prompt) + [1] * len(completion),
    }


def keep_short(
    rows: RowDataset, max_length: int | None, num_tokens: Callable[[Row], int], origin: str
) -> RowDataset:
    """Drop the rows of more than ``max_length`` tokens and logs how many.

    Args:
        rows: All rows.
        max_length: In tokens; None keeps all.
        num_tokens: Row to its length.
        origin: The dataset, for messages.

    Raises:
        DatasetError: No row is short enough.
    """
    if max_length is None:
        return rows
    kept = rows.filter(lambda row: num_tokens(row) <= max_length)
    if not len(kept):
        raise DatasetError(f"all {len(rows)} rows of {origin} are longer than {max_length} tokens")
    if len(kept) < len(rows):
        logger.info(
            "%s: dropped %d of %d rows longer than %d tokens",
            origin,
            len(rows) - len(kept),
            len(rows),
            max_length,
        )
    return kept


def keep_short_prompts(
    rows: RowDataset, max_length: int | None, tokenizer: Any, origin: str
) -> RowDataset:
    """Drop the rows whose ``messages`` render to more than ``max_length`` tokens."""
    if max_length is None:
        return rows
    require_tokenizer(tokenizer, origin)
    return keep_short(
        rows, max_length, lambda row: len(prompt_token_ids(tokenizer, row["messages"])), origin
    )


def require_tokenizer(tokenizer: Any, origin: str) -> None:
    """Raise if there is none to count tokens with."""
    if tokenizer is None:
        raise DatasetError(f"max_length counts tokens, so {origin} needs a tokenizer")


def common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences share from the start."""
    length = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        length += 1
    return length


def longer_side(pair: Row) -> int:
    """Return the tokens of the longer side of a pair."""
    return max(len(pair["chosen_ids"]), len(pair["rejected_ids"]))


def with_pair_masks(pair: Row) -> Row:
    """Return a pair with its loss masks, 0 on the tokens that both sides begin with."""
    shared = common_prefix_length(pair["chosen_ids"], pair["rejected_ids"])
    masks = {
        f"{side}_loss_mask": [0] * shared + [1] * (len(pair[f"{side}_ids"]) - shared)
        for side in ("chosen", "rejected")
    }
    return {**pair, **masks}
