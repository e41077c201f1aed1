from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from areal.api.errors import DatasetError
from areal.dataset.gsm8k import get_gsm8k_rl_dataset, get_gsm8k_sft_dataset
from areal.dataset.rows import RowDataset
from areal.reward.gsm8k import gsm8k_reward_fn
from areal.utils.hf_utils import apply_chat_template
from tests.fakes import tiny_tokenizer

ROWS = [
    {"question": "What is 1+1?", "answer": "1+1=<<1+1=2>>2\n#### 2"},
    {"question": "What is {the set} of 10 " + "long " * 40 + "words?", "answer": "#### 1,234"},
]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "train.jsonl").write_text(text, encoding="utf-8")
    return str(tmp_path)


def test_rl_rows_ask_for_a_boxed_answer_and_keep_the_gold_solution(folder: str) -> None:
    rows = get_gsm8k_rl_dataset(folder, "train", tiny_tokenizer())
    assert [dict(row) for row in rows] == [
        {
            "answer": given["answer"],
            "messages": [
                {
                    "role": "user",
                    "content": given["question"]
                    + "\nPlease put your final answer within \\boxed{}.",
                }
            ],
        }
        for given in ROWS
    ]


def test_sft_rows_carry_the_loss_on_what_follows_the_question(folder: str) -> None:
    tokenizer = tiny_tokenizer()
    for given, row in zip(ROWS, get_gsm8k_sft_dataset(folder, "train", tokenizer), strict=True):
        text = given["question"] + given["answer"] + tokenizer.eos_token
        question = tokenizer.encode(given["question"])
        assert row == {
            "input_ids": tokenizer.encode(text),
            "loss_mask": [int(i >= len(question)) for i in range(len(tokenizer.encode(text)))],
        }
        assert row["input_ids"][-1] == tokenizer.eos_token_id
        assert tokenizer.decode(row["input_ids"]) == text, "without a chat"


def test_only_the_content_of_a_message_is_counted(folder: str) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "Q: {% for m in messages %}{{ m.content }}{% endfor %} A: "
    (message,) = get_gsm8k_rl_dataset(folder, "train")[0]["messages"]
    num_tokens = len(tokenizer.encode(message["content"]))
    rendered = apply_chat_template(tokenizer, [message], add_generation_prompt=True)
    assert len(rendered) > num_tokens
    assert len(get_gsm8k_rl_dataset(folder, "train", tokenizer, max_length=num_tokens)) == 1
    with pytest.raises(DatasetError, match="all 2 rows"):
        get_gsm8k_rl_dataset(folder, "train", tokenizer, max_length=num_tokens - 1)


@pytest.mark.parametrize("load", [get_gsm8k_rl_dataset, get_gsm8k_sft_dataset])
def test_a_solution_that_is_no_text_is_named(
    tmp_path: Path, load: Callable[..., RowDataset]
) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps({"question": "1+1?", "answer": None}))
    with pytest.raises(DatasetError, match="column 'answer' holds None, and no text"):
        list(load(str(tmp_path), "train", tiny_tokenizer()))


@pytest.mark.parametrize("load", [get_gsm8k_rl_dataset, get_gsm8k_sft_dataset])
def test_longer_rows_are_dropped_and_counted(
    folder: str, load: Callable[..., RowDataset], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        rows = load(folder, "train", tiny_tokenizer(), max_length=200)
    assert len(rows) == 1
    assert "dropped 1 of 2 rows longer than 200 tokens" in caplog.text
    with pytest.raises(DatasetError, match=r"all 2 rows .* longer than 3 tokens"):
        load(folder, "train", tiny_tokenizer(), max_length=3)


def test_counting_tokens_needs_a_tokenizer(folder: str) -> None:
    with pytest.raises(DatasetError, match="needs a tokenizer"):
        get_gsm8k_rl_dataset(folder, "train", max_length=10)


@pytest.mark.parametrize(("split", "num_rows"), [("train", 7473), ("test", 1319)])
def test_the_real_data_loads_and_its_own_solutions_are_right(split: str, num_rows: int) -> None:
    if not os.environ.get("AREAL_GSM8K_DIR"):
        pytest.skip("AREAL_GSM8K_DIR is not set: it names the folder with GSM8K's JSONL files")
    rows = get_gsm8k_rl_dataset("gsm8k", split)
    assert len(rows) == num_rows
    for row in rows[:: num_rows // 50]:
        assert gsm8k_reward_fn(None, row["answer"], None, None, **row) == 1.0
