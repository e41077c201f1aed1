from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import datasets
import pytest
from PIL import Image

from areal.dataset.clevr_count_70k import (
    get_clevr_count_70k_rl_dataset,
    get_clevr_count_70k_sft_dataset,
)
from areal.reward.clevr_count_70k import clevr_count_70k_reward_fn
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


def test_a_picture_that_is_none_is_an_error(tmp_path: Path) -> None:
    row = {"images": [base64.b64encode(b"no").decode()], "problem": "How many?", "answer": "1"}
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    rows = get_clevr_count_70k_rl_dataset(str(tmp_path), "train", TinyVisionProcessor())
    with pytest.raises(TypeError, match="no image: str"):
        rows[0]
