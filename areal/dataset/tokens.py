"""Drop the rows that are too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from areal.api.errors import DatasetError
from areal.dataset.rows import Row, RowDataset
from areal.dataset.shaping import prompt_token_ids
from areal.utils import logging

logger = logging.getLogger("Dataset")


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


def text_of(row: Row, column: str) -> str:
    """Return the text in a column.

    Raises:
        DatasetError: It holds something else, which would become other tokens than were meant.
    """
    value = row[column]
    if not isinstance(value, str):
        raise DatasetError(
            f"column {column!r} holds {value!r:.80}, and no text; leave the row out, or write "
            "a dataset of your own (scaffold add-dataset)"
        )
    return value


def require_tokenizer(tokenizer: Any, origin: str) -> None:
    """Raise if there is none to count tokens with."""
    if tokenizer is None:
        raise DatasetError(f"max_length counts tokens, so {origin} needs a tokenizer")
