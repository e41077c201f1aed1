from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest
import torch
from PIL import Image

from areal.api.errors import DatasetError
from areal.dataset.geometry3k import get_geometry3k_rl_dataset, get_geometry3k_sft_dataset
from areal.dataset.rows import RowDataset
from areal.reward.geometry3k import geometry3k_reward_fn
from areal.utils.data import collate_samples_to_list, concat_padded_tensors
from areal.utils.image import process_vision_prompt
from tests.fakes import TinyVisionProcessor

PROBLEM = "<image>Find x."
ANSWER = r"2 \sqrt { 221 }"


def write(folder: Path, problem: str = PROBLEM, images: list[Image.Image] | None = None) -> str:
    images = [Image.new("RGB", (42, 28), "red")] if images is None else images
    rows = {"images": [images], "problem": [problem], "answer": [ANSWER]}
    features = datasets.Features(
        images=datasets.List(datasets.Image()),
        problem=datasets.Value("string"),
        answer=datasets.Value("string"),
    )
    datasets.Dataset.from_dict(rows, features=features).to_parquet(str(folder / "train.parquet"))
    return str(folder)


def test_rl_rows_have_rendered_text_chat_images_and_answer(tmp_path: Path) -> None:
    processor = TinyVisionProcessor()
    (row,) = get_geometry3k_rl_dataset(write(tmp_path), "train", processor)
    assert row.keys() == {"messages", "messages_chat", "images", "answer"}
    assert row["messages"].startswith(f"user: {processor.image_token}Find x.")
    assert row["messages"].endswith("assistant: ")
    assert [part["type"] for part in row["messages_chat"][0]["content"]] == ["image", "text"]
    assert Image.open(io.BytesIO(row["images"][0])).format == "JPEG"
    assert row["answer"] == ANSWER
    assert geometry3k_reward_fn(None, r"[\sqrt{884}]", None, None, **row) == 1.0


def test_sft_rows_hold_pixels_and_the_loss_on_the_answer(tmp_path: Path) -> None:
    processor = TinyVisionProcessor()
    (row,) = get_geometry3k_sft_dataset(write(tmp_path), "train", processor)
    assert row.keys() == {"input_ids", "loss_mask", "mm_token_type_ids", "multi_modal_input"}
    learned = [t for t, m in zip(row["input_ids"], row["loss_mask"], strict=True) if m]
    assert processor.tokenizer.decode(learned) == f"[{ANSWER}]<eos>"
    num_patches = 3 * 2  # 42 x 28 pixels in patches of 14
    assert sum(row["mm_token_type_ids"]) == num_patches
    assert row["input_ids"].count(processor.image_token_id) == num_patches
    (pixels,) = row["multi_modal_input"]
    assert pixels["pixel_values"].shape == (num_patches, 3)
    assert pixels["image_grid_thw"].tolist() == [[1, 2, 3]]


def test_sft_rows_make_a_batch(tmp_path: Path) -> None:
    rows = get_geometry3k_sft_dataset(write(tmp_path), "train", TinyVisionProcessor())
    batch = concat_padded_tensors(collate_samples_to_list([rows[0], rows[0]]))
    assert batch["input_ids"].shape == batch["mm_token_type_ids"].shape
    assert batch["attention_mask"].dtype == torch.bool
    assert len(batch["multi_modal_input"]) == 2


def test_rows_can_be_made_in_worker_processes(tmp_path: Path) -> None:
    rows = get_geometry3k_sft_dataset(write(tmp_path), "train", TinyVisionProcessor())
    assert pickle.loads(pickle.dumps(rows))[0]["input_ids"] == rows[0]["input_ids"]


def test_large_images_are_shrunk_with_their_aspect(tmp_path: Path) -> None:
    path = write(tmp_path, images=[Image.new("RGB", (2048, 1024))])
    (row,) = get_geometry3k_rl_dataset(path, "train", TinyVisionProcessor())
    image = Image.open(io.BytesIO(row["images"][0]))
    assert image.width * image.height <= 512 * 512
    assert image.width == pytest.approx(2 * image.height, abs=2)


def test_images_without_marks_come_first(tmp_path: Path) -> None:
    two = [Image.new("RGB", (14, 14)) for _ in range(2)]
    path = write(tmp_path, "Find x.", two)
    (row,) = get_geometry3k_rl_dataset(path, "train", TinyVisionProcessor())
    assert [p["type"] for p in row["messages_chat"][0]["content"]] == ["image", "image", "text"]


def test_a_row_without_images_is_one_of_text(tmp_path: Path) -> None:
    line = {"images": None, "problem": "Find x.", "answer": "3"}
    (tmp_path / "train.jsonl").write_text(json.dumps(line))
    (row,) = get_geometry3k_rl_dataset(str(tmp_path), "train", TinyVisionProcessor())
    assert row["images"] == []
    (row,) = get_geometry3k_sft_dataset(str(tmp_path), "train", TinyVisionProcessor())
    assert row["multi_modal_input"][0]["pixel_values"].numel() == 0


def test_marks_and_images_must_agree(tmp_path: Path) -> None:
    path = write(tmp_path, "<image><image>Find x.")
    rows = get_geometry3k_sft_dataset(path, "train", TinyVisionProcessor())
    with pytest.raises(DatasetError, match="2 <image> marks but 1 images"):
        rows[0]
    # The episode of such a row fails, and the run goes on.
    (row,) = get_geometry3k_rl_dataset(path, "train", TinyVisionProcessor())
    with pytest.raises(AssertionError, match="as many placeholders as images"):
        process_vision_prompt(TinyVisionProcessor(), row["messages"], row["images"])


@pytest.mark.parametrize("load", [get_geometry3k_rl_dataset, get_geometry3k_sft_dataset])
def test_max_length_counts_image_tokens(tmp_path: Path, load: Callable[..., RowDataset]) -> None:
    path = write(tmp_path)
    assert len(load(path, "train", TinyVisionProcessor(), max_length=300)) == 1
    with pytest.raises(DatasetError, match="longer than 20 tokens"):
        load(path, "train", TinyVisionProcessor(), max_length=20)
