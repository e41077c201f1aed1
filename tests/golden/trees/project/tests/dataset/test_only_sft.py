"""Tests of ``my_rl.dataset.only_sft``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from areal.dataset.files import value_at
from areal.testing import check_loader, make_tokenizer, write_rows

import my_rl.dataset.only_sft as module

SAMPLES: list[dict[str, Any]] = [
    {
        "q": "2+3?",
        "a": "5",
    },
    {
        "q": "How much is 12+30?",
        "a": "42",
    },
]


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Write the samples to a folder, as a person would keep them."""
    return write_rows(tmp_path / "data", SAMPLES)


@pytest.mark.parametrize("kind", ["sft"])
def test_every_form_of_file_gives_the_same_rows(kind: str, tmp_path: Path) -> None:
    check_loader(getattr(module, f"get_only_sft_{kind}_dataset"), SAMPLES, tmp_path)


def text_of(value: Any) -> str:
    """Return a text, or that of the last message."""
    return value[-1]["content"] if isinstance(value, list) else str(value)


def expected_of(sample: dict[str, Any]) -> tuple[str, str]:
    """Return what a sample is to be asked as and answered by; it follows `split_row`."""
    question = text_of(value_at(sample, module.QUESTION))
    return question, text_of(value_at(sample, module.ANSWER))


def test_sft_learns_the_answer_and_nothing_else(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_only_sft_sft_dataset
    rows = load(source, "train", tokenizer)
    assert rows.column_names == ["input_ids", "loss_mask"]
    for row, sample in zip(rows, SAMPLES, strict=True):
        learnt = [i for i, keep in zip(row["input_ids"], row["loss_mask"], strict=True) if keep]
        prompt = tokenizer.decode(row["input_ids"][: -len(learnt)])
        question, answer = expected_of(sample)
        assert tokenizer.decode(learnt) == answer + "<eos>"
        assert prompt.endswith(question + "<eos><assistant>")


def test_sft_drops_rows_that_are_too_long(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_only_sft_sft_dataset
    lengths = sorted(len(row["input_ids"]) for row in load(source, "train", tokenizer))
    kept = load(source, "train", tokenizer, max_length=lengths[0])
    assert len(kept) == lengths.count(lengths[0])
