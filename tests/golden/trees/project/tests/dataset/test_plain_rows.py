"""Tests of ``my_rl.dataset.plain_rows``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from areal.dataset.files import value_at
from areal.testing import check_loader, make_tokenizer, write_rows

import my_rl.dataset.plain_rows as module

# YOURS: put a few rows of your own data here
SAMPLES: list[dict[str, Any]] = [
    {
        "question": "2+3?",
        "answer": "5",
    },
    {
        "question": "How much is 12+30?",
        "answer": "42",
    },
]


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Write the samples to a folder, as a person would keep them."""
    return write_rows(tmp_path / "data", SAMPLES)


@pytest.mark.parametrize("kind", ["rl", "sft"])
def test_every_form_of_file_gives_the_same_rows(kind: str, tmp_path: Path) -> None:
    check_loader(getattr(module, f"get_plain_rows_{kind}_dataset"), SAMPLES, tmp_path)


def text_of(value: Any) -> str:
    """Return a text, or that of the last message."""
    return value[-1]["content"] if isinstance(value, list) else str(value)


def expected_of(sample: dict[str, Any]) -> tuple[str, str]:
    """Return what a sample is to be asked as and answered by; it follows `split_row`."""
    question = text_of(value_at(sample, module.QUESTION))
    return question, text_of(value_at(sample, module.ANSWER))


def test_rl_has_messages_and_answer(source: str) -> None:
    load = module.get_plain_rows_rl_dataset
    rows = load(source, "train", make_tokenizer())
    assert sorted(rows.column_names) == ["answer", "messages"]
    for row, sample in zip(rows, SAMPLES, strict=True):
        assert [set(message) for message in row["messages"]] == [{"role", "content"}] * len(
            row["messages"]
        )
        assert (row["messages"][-1]["content"], row["answer"]) == expected_of(sample)


def test_rl_drops_prompts_that_are_too_long(source: str) -> None:
    load = module.get_plain_rows_rl_dataset
    assert len(load(source, "train", make_tokenizer(), max_length=1_000_000)) == len(SAMPLES)
    with_room_for_none = load(source, "train", make_tokenizer(), max_length=1)
    assert len(with_room_for_none) == 0


def test_sft_learns_the_answer_and_nothing_else(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_plain_rows_sft_dataset
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
    load = module.get_plain_rows_sft_dataset
    lengths = sorted(len(row["input_ids"]) for row in load(source, "train", tokenizer))
    kept = load(source, "train", tokenizer, max_length=lengths[0])
    assert len(kept) == lengths.count(lengths[0])
