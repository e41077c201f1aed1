from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from areal.api.errors import DatasetError
from areal.dataset import hh_rlhf, hhrlhf
from tests.fakes import tiny_tokenizer

PROMPT = "\n\nHuman: Tea or coffee?\n\nAssistant:"
ROWS = [
    {"chosen": PROMPT + " Tea.", "rejected": PROMPT + " Take coffee, " + "please " * 20},
    {"chosen": PROMPT + " Both.", "rejected": PROMPT + " None."},
    {"chosen": PROMPT + " Same.", "rejected": PROMPT + " Same."},
]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "train.jsonl").write_text(text, encoding="utf-8")
    return str(tmp_path)


def test_rw_rows_are_both_conversations_with_end_of_sequence(folder: str) -> None:
    tokenizer = tiny_tokenizer()
    rows = hh_rlhf.get_hh_rlhf_rw_dataset(folder, "train", tokenizer)
    assert len(rows) == 3
    assert rows[1].keys() == {"chosen_ids", "rejected_ids"}
    assert tokenizer.decode(rows[1]["chosen_ids"]) == ROWS[1]["chosen"] + "<eos>"
    assert tokenizer.decode(rows[1]["rejected_ids"]) == ROWS[1]["rejected"] + "<eos>"


def test_dpo_rows_mask_the_common_prefix(folder: str) -> None:
    rows = hh_rlhf.get_hh_rlhf_dpo_dataset(folder, "train", tiny_tokenizer())
    row = rows[0]
    assert row.keys() == {"chosen_ids", "rejected_ids", "chosen_loss_mask", "rejected_loss_mask"}
    shared = len(PROMPT + " T")
    for side in ("chosen", "rejected"):
        length = len(ROWS[0][side]) + 1
        assert row[f"{side}_loss_mask"] == [0] * shared + [1] * (length - shared)


def test_pairs_that_do_not_differ_teach_nothing(
    folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert len(hh_rlhf.get_hh_rlhf_dpo_dataset(folder, "train", tiny_tokenizer())) == 2
    assert "dropped 1 pairs that do not differ" in caplog.text


@pytest.mark.parametrize("chosen", [None, 5, {"text": "a"}, [{"role": "user", "content": "a"}]])
def test_a_conversation_that_is_no_text_is_named(tmp_path: Path, chosen: Any) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps({"chosen": chosen, "rejected": "b"}))
    with pytest.raises(DatasetError, match=r"column 'chosen' holds .* and no text"):
        list(hh_rlhf.get_hh_rlhf_rw_dataset(str(tmp_path), "train", tiny_tokenizer()))


def test_the_longer_side_decides_about_the_length(folder: str) -> None:
    rows = hh_rlhf.get_hh_rlhf_rw_dataset(folder, "train", tiny_tokenizer(), max_length=80)
    assert len(rows) == 2


def test_areals_names_are_the_same_loaders() -> None:
    assert hhrlhf.get_hhrlhf_rw_dataset is hh_rlhf.get_hh_rlhf_rw_dataset
    assert hhrlhf.get_hhrlhf_dpo_dataset is hh_rlhf.get_hh_rlhf_dpo_dataset
