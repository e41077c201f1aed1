"""CLEVR counting: how many objects a rendered scene shows."""

from __future__ import annotations

from typing import Any

from areal.dataset.rows import RowDataset
from areal.dataset.sources import Source
from areal.dataset.vision import VisionRows

SOURCE = Source(
    "clevr_count_70k", ("images", "problem", "answer"), hub_id="BUAADreamer/clevr_count_70k"
)

# The clevr_count_70k reward reads the last pair of square brackets.
PROMPT = "{problem}\n\nGive the count as a number in square brackets: [number]."

# A few large objects: a small picture shows them, at a fraction of the tokens.
_ROWS = VisionRows(SOURCE, PROMPT, max_pixels=336 * 336, has_chat_column=False)


def get_clevr_count_70k_sft_dataset(
    path: str, split: str, processor: Any, max_length: int | None = None
) -> RowDataset:
    """Load questions about images with answers for supervised training.

    Args:
        path: See ``Source.read``.
        split: Such as "train" or "test".
        processor: Renders the conversation and prepares images and tokens.
        max_length: Drops rows of more tokens, which prepares every row once.

    Returns:
        Rows of ``input_ids``, ``loss_mask`` and ``mm_token_type_ids`` (lists of ints) and
        ``multi_modal_input`` (a list with one mapping that holds ``pixel_values``), made on access.

    Raises:
        DatasetError: The data is not there or not as expected.

    Source: https://huggingface.co/datasets/BUAADreamer/clevr_count_70k.
    """
    return _ROWS.sft(path, split, processor, max_length)


def get_clevr_count_70k_rl_dataset(
    path: str, split: str, processor: Any, max_length: int | None = None
) -> RowDataset:
    """Load questions about images for the ``clevr_count_70k`` reward.

    Args:
        path: See ``Source.read``.
        split: Such as "train" or "test".
        processor: Renders the conversation.
        max_length: Drops rows whose prompt has more tokens, which prepares every row once.

    Returns:
        Rows of ``messages`` (the rendered text), ``images`` (JPEG bytes) and ``answer``,
        made on access.

    Raises:
        DatasetError: The data is not there or not as expected.

    Source: https://huggingface.co/datasets/BUAADreamer/clevr_count_70k.
    """
    return _ROWS.rl(path, split, processor, max_length)
