from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from areal.api.errors import DatasetError
from areal.trainer.trinity.taskset import (
    get_taskset_dpo_dataset,
    get_taskset_rl_dataset,
    get_taskset_sft_dataset,
)
from tests.fakes import tiny_tokenizer

TOKENIZER = tiny_tokenizer("0123456789+=")
EOS = TOKENIZER.eos_token_id


def written(folder: Path, *rows: dict[str, Any]) -> str:
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


def test_rows_of_tasks_stay_as_they_are(tmp_path: Path) -> None:
    rows = get_taskset_rl_dataset(written(tmp_path, {"q": "1+1=", "a": "2"}))
    assert list(rows) == [{"q": "1+1=", "a": "2"}]


def test_answers_are_found_by_the_keys_of_the_format(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "1+1="}, {"role": "assistant", "content": "2"}]
    path = written(tmp_path, {"q": "1+1=", "a": "2", "m": said})
    by_text = {"prompt_type": "plaintext", "prompt_key": "q", "response_key": "a"}
    expected = {
        "input_ids": [*TOKENIZER.encode("1+1="), *TOKENIZER.encode("2"), EOS],
        "loss_mask": [0, 0, 0, 0, 1, 1],
    }
    for keys in (by_text, {"messages_key": "m"}):
        (row,) = get_taskset_sft_dataset(path, tokenizer=TOKENIZER, format_args=keys)
        assert row == expected


def test_a_conversation_has_to_end_in_an_answer(tmp_path: Path) -> None:
    path = written(tmp_path, {"message": [{"role": "user", "content": "1"}]})
    with pytest.raises(DatasetError, match="does not end in an answer"):
        get_taskset_sft_dataset(path, tokenizer=TOKENIZER)


def test_pairs_carry_loss_where_they_differ_and_equal_ones_are_left_out(tmp_path: Path) -> None:
    pair = {"prompt": "1+1=", "chosen": "2", "rejected": [{"role": "assistant", "content": "3"}]}
    path = written(tmp_path, pair, {**pair, "rejected": "2"})
    keys = {"prompt_type": "plaintext"}
    (row,) = get_taskset_dpo_dataset(path, tokenizer=TOKENIZER, format_args=keys)
    assert row["chosen_ids"] == [*TOKENIZER.encode("1+1=2"), EOS]
    assert row["rejected_ids"] == [*TOKENIZER.encode("1+1=3"), EOS]
    assert row["chosen_loss_mask"] == [0, 0, 0, 0, 1, 1]


def test_a_column_that_the_rows_lack_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="response"):
        get_taskset_sft_dataset(
            written(tmp_path, {"prompt": "1"}),
            tokenizer=TOKENIZER,
            format_args={"prompt_type": "plaintext"},
        )
