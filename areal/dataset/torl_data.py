"""ToRL: competition mathematics for tool-integrated reasoning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from areal.api.errors import DatasetError, UnsupportedDatasetError
from areal.dataset.rows import Row, RowDataset
from areal.dataset.sources import Source
from areal.dataset.tokens import keep_short_prompts

SOURCE = Source(
    "torl_data",
    ("prompt", "reward_model"),
    hint="get train.parquet and test.parquet from https://github.com/GAIR-NLP/ToRL",
)


def get_torl_data_sft_dataset(
    path: str, split: str, tokenizer: Any, max_length: int | None = None
) -> RowDataset:
    """Refuse supervised training: there are answers without solutions.

    Args:
        path: Not used.
        split: Not used.
        tokenizer: Not used.
        max_length: Not used.

    Returns:
        Nothing: ``input_ids`` and ``loss_mask`` would need solutions.

    Raises:
        UnsupportedDatasetError: Always; it is a NotImplementedError.
    """
    raise UnsupportedDatasetError(
        "torl_data has answers without solutions to learn from; set train_dataset.type to rl"
    )


def get_torl_data_rl_dataset(
    path: str, split: str, tokenizer: Any = None, max_length: int | None = None
) -> RowDataset:
    r"""Load prompts with gold answers for the ``math_verify`` reward.

    Args:
        path: See ``Source.read``; the rows are in verl's format: ``prompt`` (messages) and
            ``reward_model.ground_truth``.
        split: "train" or "test".
        tokenizer: Counts tokens; needed with ``max_length`` only.
        max_length: Drops rows whose rendered prompt has more tokens.

    Returns:
        Rows of ``messages``, ``answer`` (``\boxed{...}``), ``data_source``, ``ability`` and
        ``extra_info``.

    Raises:
        DatasetError: The data is not there or not as expected.

    Source: https://github.com/GAIR-NLP/ToRL.
    """
    rows = RowDataset(SOURCE.read(path, split)).map(_row)
    return keep_short_prompts(rows, max_length, tokenizer, f"{path} ({split})")


def _row(row: Row) -> Row:
    grading = row["reward_model"]
    if not isinstance(grading, Mapping) or "ground_truth" not in grading:
        raise DatasetError(f"column 'reward_model' has no 'ground_truth': {grading!r}")
    return {
        "messages": [dict(message) for message in row["prompt"]],
        "answer": f"\\boxed{{{grading['ground_truth']}}}",
        "data_source": row.get("data_source"),
        "ability": row.get("ability"),
        "extra_info": row.get("extra_info"),
    }
