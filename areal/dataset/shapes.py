"""Shapes: generated pictures of a few coloured shapes to count, for small models from scratch."""

from __future__ import annotations

import functools
import io
import random
import zlib
from typing import Any

from areal.api.errors import DatasetError
from areal.dataset.rows import Row, RowDataset
from areal.dataset.shaping import completion_token_ids
from areal.dataset.tokens import keep_short
from areal.utils.image import process_vision_prompt

# A picture is a square of cells, of which each holds one shape at most.
CELL, CELLS = 16, 3
_COLOURS = ("red", "lime", "blue", "yellow")
_DEFAULT_SIZES = {"train": 4096, "test": 256}
# One picture in ten is a test picture, whatever the seed and the size, so the splits never meet.
_TEST_SHARE = 10


def get_shapes_sft_dataset(
    path: str,
    split: str | None,
    processor: Any,
    max_length: int | None = None,
    *,
    max_count: int = 4,
    size: int | None = None,
    seed: int = 1,
) -> RowDataset:
    """Generate pictures with the number of their shapes for supervised training.

    Args:
        path: Not used; the pictures are generated.
        split: "train" or "test"; no picture is in both.
        processor: Renders the question and prepares images and tokens.
        max_length: Drops rows of more tokens, which prepares every row once.
        max_count: A picture shows one to this many shapes, each number as likely.
        size: Number of rows; None is 4,096 for train and 256 for test.
        seed: Decides which pictures are drawn and their order.

    Returns:
        Rows of ``input_ids``, ``loss_mask`` and ``mm_token_type_ids`` (lists of ints) and
        ``multi_modal_input`` (a list with one mapping that holds ``pixel_values``), made on access.

    Raises:
        DatasetError: The split, the count or the size is impossible.
    """
    scenes = _scenes(split, max_count, size, seed)
    rows = RowDataset(scenes, functools.partial(_sft_row, processor))
    return keep_short(rows, max_length, lambda row: len(row["input_ids"]), "shapes")


def get_shapes_rl_dataset(
    path: str,
    split: str | None,
    processor: Any,
    max_length: int | None = None,
    *,
    max_count: int = 4,
    size: int | None = None,
    seed: int = 1,
) -> RowDataset:
    """Generate pictures of shapes to count, for the ``arithmetic`` reward.

    Args:
        path: Not used; the pictures are generated.
        split: "train" or "test"; no picture is in both.
        processor: Renders the question.
        max_length: Drops rows whose prompt has more tokens, which prepares every row once.
        max_count: A picture shows one to this many shapes, each number as likely.
        size: Number of rows; None is 4,096 for train and 256 for test.
        seed: Decides which pictures are drawn and their order.

    Returns:
        Rows of ``messages`` (the rendered text), ``images`` (one, PNG bytes) and ``answer`` ("3"),
        made on access.

    Raises:
        DatasetError: The split, the count or the size is impossible.
    """

    def num_tokens(row: Row) -> int:
        return len(process_vision_prompt(processor, row["messages"], row["images"]).input_ids)

    scenes = _scenes(split, max_count, size, seed)
    rows = RowDataset(scenes, functools.partial(_rl_row, processor))
    return keep_short(rows, max_length, num_tokens, "shapes")


def _rl_row(processor: Any, scene: Row) -> Row:
    content = [{"type": "image"}, {"type": "text", "text": "?"}]
    messages = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    answer = str(len(scene["shapes"]))
    return {"messages": messages, "images": [_draw(scene["shapes"])], "answer": answer}


def _sft_row(processor: Any, scene: Row) -> Row:
    row = _rl_row(processor, scene)
    prompt = process_vision_prompt(processor, row["messages"], row["images"])
    answer = completion_token_ids(processor.tokenizer, row["answer"])
    return {
        "input_ids": prompt.input_ids + answer,
        "loss_mask": [0] * len(prompt.input_ids) + [1] * len(answer),
        "mm_token_type_ids": prompt.mm_token_type_ids + [0] * len(answer),
        "multi_modal_input": [prompt.features],
    }


def _scenes(split: str | None, max_count: int, size: int | None, seed: int) -> list[Row]:
    """Choose what each picture shows: cell, colour and form of each shape."""
    split = split or "train"
    if split not in _DEFAULT_SIZES:
        raise DatasetError(f"'shapes' has no split {split!r}; it has: train, test")
    size = _DEFAULT_SIZES[split] if size is None else size
    if not isinstance(size, int) or size < 1:
        raise DatasetError(f"size must be at least 1, but is {size!r}")
    if not isinstance(max_count, int) or not 1 <= max_count <= CELLS**2:
        raise DatasetError(f"max_count must lie between 1 and {CELLS**2}, but is {max_count!r}")
    rng = random.Random(f"{split}/{seed}")
    scenes: list[Row] = []
    while len(scenes) < size:
        cells = sorted(rng.sample(range(CELLS**2), rng.randint(1, max_count)))
        shapes = [(cell, rng.choice(_COLOURS), rng.random() < 0.5) for cell in cells]
        # A checksum, because hash() of a string differs from process to process.
        is_test = zlib.crc32(repr(shapes).encode()) % _TEST_SHARE == 0
        if is_test == (split == "test"):
            scenes.append({"shapes": shapes})
    return scenes


def _draw(shapes: list[tuple[int, str, bool]]) -> bytes:
    """Return the picture as PNG."""
    from PIL import Image, ImageDraw  # not for those who read text

    picture = Image.new("RGB", (CELL * CELLS, CELL * CELLS))
    pen = ImageDraw.Draw(picture)
    for cell, colour, is_round in shapes:
        row, column = divmod(cell, CELLS)
        corner = (column * CELL + 3, row * CELL + 3)
        box = (*corner, corner[0] + CELL - 7, corner[1] + CELL - 7)
        (pen.ellipse if is_round else pen.rectangle)(box, fill=colour)
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return buffer.getvalue()
