"""Tests of ``my_rl.dataset.only_dpo``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from areal.dataset.files import value_at
from areal.testing import check_loader, make_tokenizer, write_rows

import my_rl.dataset.only_dpo as module

SAMPLES: list[dict[str, Any]] = [
    {
        'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""': "2+3?",
        "better": "5",
        "worse": "6",
    },
    {
        'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""': "How much is 12+30?",
        "better": "42",
        "worse": "41",
    },
]


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Write the samples to a folder, as a person would keep them."""
    return write_rows(tmp_path / "data", SAMPLES)


@pytest.mark.parametrize("kind", ["dpo"])
def test_every_form_of_file_gives_the_same_rows(kind: str, tmp_path: Path) -> None:
    check_loader(getattr(module, f"get_only_dpo_{kind}_dataset"), SAMPLES, tmp_path)


def text_of(value: Any) -> str:
    """Return a text, or that of the last message."""
    return value[-1]["content"] if isinstance(value, list) else str(value)


def test_dpo_masks_what_both_sides_begin_with(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_only_dpo_dpo_dataset
    rows = load(source, "train", tokenizer)
    assert sorted(rows.column_names) == sorted(
        ["chosen_ids", "chosen_loss_mask", "rejected_ids", "rejected_loss_mask"]
    )
    for row, sample in zip(rows, SAMPLES, strict=True):
        for side, column in module.SIDES.items():
            ids, mask = row[f"{side}_ids"], row[f"{side}_loss_mask"]
            assert mask == sorted(mask)
            assert len(mask) == len(ids)
            assert tokenizer.decode(ids).endswith(text_of(value_at(sample, column)) + "<eos>")
        shared = row["chosen_loss_mask"].count(0)
        assert row["rejected_loss_mask"].count(0) == shared
        assert row["chosen_ids"][:shared] == row["rejected_ids"][:shared]
        assert row["chosen_ids"][shared:][:1] != row["rejected_ids"][shared:][:1]


def test_dpo_leaves_out_pairs_that_do_not_differ(source: str, tmp_path: Path) -> None:
    load = module.get_only_dpo_dpo_dataset
    chosen, rejected = (value_at(SAMPLES[0], column) for column in module.SIDES.values())
    same = json.loads(json.dumps(SAMPLES[0]).replace(json.dumps(rejected), json.dumps(chosen)))
    rows = load(write_rows(tmp_path / "more", [*SAMPLES, same]), "train", make_tokenizer())
    assert len(rows) == len(SAMPLES)


def test_dpo_drops_pairs_with_a_side_that_is_too_long(source: str) -> None:
    load = module.get_only_dpo_dpo_dataset
    assert len(load(source, "train", make_tokenizer(), max_length=1)) == 0
