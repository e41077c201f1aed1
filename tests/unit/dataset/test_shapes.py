from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from PIL import Image

from areal.api.errors import DatasetError
from areal.dataset.shapes import CELL, CELLS, get_shapes_rl_dataset, get_shapes_sft_dataset
from areal.reward.arithmetic import arithmetic_reward_fn
from tests.fakes import TinyVisionProcessor

PROCESSOR = TinyVisionProcessor()


def pictures(**options: Any) -> list[bytes]:
    return [r["images"][0] for r in get_shapes_rl_dataset("", processor=PROCESSOR, **options)]


def test_the_answer_is_the_number_of_shapes() -> None:
    rows = get_shapes_rl_dataset("shapes", "train", PROCESSOR, size=60)
    for row in rows:
        picture = Image.open(io.BytesIO(row["images"][0]))
        assert picture.size == (CELL * CELLS, CELL * CELLS)
        boxes = [
            (x * CELL, y * CELL, (x + 1) * CELL, (y + 1) * CELL)
            for y in range(CELLS)
            for x in range(CELLS)
        ]
        shown = sum(picture.crop(box).getbbox() is not None for box in boxes)
        assert arithmetic_reward_fn("", str(shown), [], [], **row) == 1.0
    assert {row["answer"] for row in rows} == {"1", "2", "3", "4"}


def test_supervised_rows_teach_the_number_and_show_the_picture() -> None:
    (row,) = get_shapes_sft_dataset("shapes", "train", PROCESSOR, size=1)
    learned = [t for t, m in zip(row["input_ids"], row["loss_mask"], strict=True) if m]
    (same,) = get_shapes_rl_dataset("shapes", "train", PROCESSOR, size=1)
    assert PROCESSOR.tokenizer.decode(learned) == f"{same['answer']}<eos>"
    (features,) = row["multi_modal_input"]
    assert len(features["pixel_values"]) == sum(row["mm_token_type_ids"])
    assert torch.is_tensor(features["image_grid_thw"])


def test_seed_and_split_decide_what_is_drawn() -> None:
    train = pictures(split="train", size=80)
    assert train == pictures(split="train", size=80)
    assert train != pictures(split="train", size=80, seed=2)
    assert not set(train) & set(pictures(split="test", size=80, seed=2))
    assert (len(pictures(split="train")), len(pictures(split=None))) == (4096, 4096)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "dev"}, "no split 'dev'"),
        ({"split": "train", "size": 0}, "size must be at least 1"),
        ({"split": "train", "max_count": 10}, "between 1 and 9"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        get_shapes_rl_dataset("shapes", processor=PROCESSOR, **options)


def test_max_length_counts_image_tokens() -> None:
    assert len(get_shapes_rl_dataset("", "test", PROCESSOR, max_length=40, size=3)) == 3
    with pytest.raises(DatasetError, match="longer than 5 tokens"):
        get_shapes_sft_dataset("", "test", PROCESSOR, max_length=5, size=3)
