"""Tests of ``my_rl.dataset.only_rw``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from areal.dataset.files import value_at
from areal.testing import check_loader, make_tokenizer, write_rows

import my_rl.dataset.only_rw as module

SAMPLES: list[dict[str, Any]] = [
    {
        "better": [
            {
                "role": "user",
                "content": 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""',
            },
            {
                "role": "assistant",
                "content": "better 1",
            },
        ],
        "worse": [
            {
                "role": "user",
                "content": 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""',
            },
            {
                "role": "assistant",
                "content": "worse 1",
            },
        ],
    },
    {
        "better": [
            {
                "role": "user",
                "content": 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""',
            },
            {
                "role": "assistant",
                "content": "better 2",
            },
        ],
        "worse": [
            {
                "role": "user",
                "content": 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""',
            },
            {
                "role": "assistant",
                "content": "worse 2",
            },
        ],
    },
]


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Write the samples to a folder, as a person would keep them."""
    return write_rows(tmp_path / "data", SAMPLES)


@pytest.mark.parametrize("kind", ["rw"])
def test_every_form_of_file_gives_the_same_rows(kind: str, tmp_path: Path) -> None:
    check_loader(getattr(module, f"get_only_rw_{kind}_dataset"), SAMPLES, tmp_path)


def text_of(value: Any) -> str:
    """Return a text, or that of the last message."""
    return value[-1]["content"] if isinstance(value, list) else str(value)


def test_rw_encodes_both_sides_up_to_the_end(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_only_rw_rw_dataset
    rows = load(source, "train", tokenizer)
    assert sorted(rows.column_names) == ["chosen_ids", "rejected_ids"]
    for row, sample in zip(rows, SAMPLES, strict=True):
        for side, column in module.SIDES.items():
            text = tokenizer.decode(row[f"{side}_ids"])
            before, reply, end = text.rpartition(text_of(value_at(sample, column)))
            assert (bool(reply), end) == (True, "<eos>")
            is_whole = isinstance(value_at(sample, column), str)
            assert not before if is_whole else before.endswith("<eos><assistant>")


def test_rw_drops_pairs_with_a_side_that_is_too_long(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_only_rw_rw_dataset
    lengths = [max(map(len, row.values())) for row in load(source, "train", tokenizer)]
    kept = load(source, "train", tokenizer, max_length=min(lengths))
    assert len(kept) == lengths.count(min(lengths))
