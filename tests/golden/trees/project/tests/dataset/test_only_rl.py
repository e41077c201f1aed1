"""Tests of ``my_rl.dataset.only_rl``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from areal.dataset.files import value_at
from areal.testing import check_loader, make_tokenizer, write_rows

import my_rl.dataset.only_rl as module

SAMPLES: list[dict[str, Any]] = [
    {
        'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""': "2+3?",
        "a\\b": "5",
    },
    {
        'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""': "How much is 12+30?",
        "a\\b": "42",
    },
]


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Write the samples to a folder, as a person would keep them."""
    return write_rows(tmp_path / "data", SAMPLES)


@pytest.mark.parametrize("kind", ["rl"])
def test_every_form_of_file_gives_the_same_rows(kind: str, tmp_path: Path) -> None:
    check_loader(getattr(module, f"get_only_rl_{kind}_dataset"), SAMPLES, tmp_path)


def text_of(value: Any) -> str:
    """Return a text, or that of the last message."""
    return value[-1]["content"] if isinstance(value, list) else str(value)


def expected_of(sample: dict[str, Any]) -> tuple[str, str]:
    """Return what a sample is to be asked as and answered by; it follows `split_row`."""
    question = text_of(value_at(sample, module.QUESTION))
    return question, text_of(value_at(sample, module.ANSWER))


def test_rl_has_messages_and_answer(source: str) -> None:
    load = module.get_only_rl_rl_dataset
    rows = load(source, "train", make_tokenizer())
    assert sorted(rows.column_names) == ["answer", "messages"]
    for row, sample in zip(rows, SAMPLES, strict=True):
        assert [set(message) for message in row["messages"]] == [{"role", "content"}] * len(
            row["messages"]
        )
        assert (row["messages"][-1]["content"], row["answer"]) == expected_of(sample)


def test_rl_drops_prompts_that_are_too_long(source: str) -> None:
    load = module.get_only_rl_rl_dataset
    assert len(load(source, "train", make_tokenizer(), max_length=1_000_000)) == len(SAMPLES)
    with_room_for_none = load(source, "train", make_tokenizer(), max_length=1)
    assert len(with_room_for_none) == 0
