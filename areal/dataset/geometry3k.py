"""Geometry3K: problems of plane geometry with a diagram."""

from __future__ import annotations

from typing import Any

from areal.dataset.rows import RowDataset
from areal.dataset.sources import Source
from areal.dataset.vision import VisionRows

SOURCE = Source("geometry3k", ("images", "problem", "answer"), hub_id="hiyouga/geometry3k")

# The geometry3k reward reads the last pair of square brackets.
PROMPT = "{problem}\n\nThink step by step, then give the final answer in square brackets: [answer]."

# Diagrams have fine labels, which need more pixels than a few large objects do.
_ROWS = VisionRows(SOURCE, PROMPT, max_pixels=512 * 512, has_chat_column=True)


def get_geometry3k_sft_dataset(
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

    Source: https://huggingface.co/datasets/hiyouga/geometry3k.
    """
    return _ROWS.sft(path, split, processor, max_length)


def get_geometry3k_rl_dataset(
    path: str, split: str, processor: Any, max_length: int | None = None
) -> RowDataset:
    """Load questions about images for the ``geometry3k`` reward.

    Args:
        path: See ``Source.read``.
        split: Such as "train" or "test".
        processor: Renders the conversation.
        max_length: Drops rows whose prompt has more tokens, which prepares every row once.

    Returns:
        Rows of ``messages`` (the rendered text), ``messages_chat`` (the same as a list of
        messages), ``images`` (JPEG bytes) and ``answer``, made on access.

    Raises:
        DatasetError: The data is not there or not as expected.

    Source: https://huggingface.co/datasets/hiyouga/geometry3k.
    """
    return _ROWS.rl(path, split, processor, max_length)
