from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import datasets
import pytest
from PIL import Image

from areal.api.errors import DatasetError
from areal.dataset.clevr_count_70k import (
    get_clevr_count_70k_rl_dataset,
    get_clevr_count_70k_sft_dataset,
)
from areal.reward.clevr_count_70k import clevr_count_70k_reward_fn
from areal.utils.image import process_vision_prompt
from tests.fakes import TinyVisionProcessor


@pytest.fixture
def folder(tmp_path: Path) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (480, 320), "blue").save(buffer, format="PNG")
    row = {
        "images": [{"bytes": buffer.getvalue(), "path": None}],
        "problem": "How many spheres are there?",
        "answer": "3",
    }
    # Plain structs, as a Parquet file that was not written by datasets has them.
    datasets.Dataset.from_list([row]).to_parquet(str(tmp_path / "train.parquet"))
    return str(tmp_path)


def test_rl_rows_have_rendered_text_images_and_answer(folder: str) -> None:
    (row,) = get_clevr_count_70k_rl_dataset(folder, "train", TinyVisionProcessor())
    assert row.keys() == {"messages", "images", "answer"}
    assert "How many spheres are there?" in row["messages"]
    assert "[number]" in row["messages"]
    image = Image.open(io.BytesIO(row["images"][0]))
    assert image.format == "JPEG"
    assert image.width * image.height <= 336 * 336
    assert clevr_count_70k_reward_fn(None, "I see [3].", None, None, **row) == 1.0


def test_sft_rows_teach_the_bracketed_count(folder: str) -> None:
    processor = TinyVisionProcessor(has_token_types=False)
    (row,) = get_clevr_count_70k_sft_dataset(folder, "train", processor)
    learned = [t for t, m in zip(row["input_ids"], row["loss_mask"], strict=True) if m]
    assert processor.tokenizer.decode(learned) == "[3]<eos>"
    assert sum(row["mm_token_type_ids"]) == row["multi_modal_input"][0]["pixel_values"].shape[0]


@pytest.mark.parametrize(
    ("image", "error"),
    [("no.png", FileNotFoundError), (7, TypeError), ({"path": "no.png"}, FileNotFoundError)],
)
def test_a_picture_that_is_none_fails_the_episode_and_not_the_run(
    tmp_path: Path, image: Any, error: type[Exception]
) -> None:
    row = {"images": [image], "problem": "How many?", "answer": "1"}
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (made,) = get_clevr_count_70k_rl_dataset(str(tmp_path), "train", TinyVisionProcessor())
    with pytest.raises(error):
        process_vision_prompt(TinyVisionProcessor(), made["messages"], made["images"])
    rows = get_clevr_count_70k_sft_dataset(str(tmp_path), "train", TinyVisionProcessor())
    with pytest.raises(DatasetError, match="an image of the problem 'How many") as caught:
        rows[0]
    assert isinstance(caught.value.__cause__, error)
