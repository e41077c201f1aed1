from __future__ import annotations

import re
from typing import Any

import pytest

from areal.api.errors import DatasetError
from areal.dataset.arithmetic import (
    get_arithmetic_dpo_dataset,
    get_arithmetic_rl_dataset,
    get_arithmetic_rw_dataset,
    get_arithmetic_sft_dataset,
)
from areal.reward.arithmetic import arithmetic_reward_fn
from tests.fakes import tiny_tokenizer

PROBLEM = re.compile(r"(\d+)([-+*])(\d+)=")


def problems(**options: object) -> list[str]:
    return [row["messages"][0]["content"] for row in get_arithmetic_rl_dataset(**options)]


@pytest.mark.parametrize("operators", ["+", "-", "*", "+-*"])
@pytest.mark.parametrize("max_digits", [1, 2, 5])
def test_problems_are_well_formed_and_answers_right(operators: str, max_digits: int) -> None:
    rows = get_arithmetic_rl_dataset(size=60, operators=operators, max_digits=max_digits)
    assert len(rows) == 60
    for row in rows:
        match = PROBLEM.fullmatch(row["messages"][0]["content"])
        assert match is not None
        left, sign, right = int(match[1]), match[2], int(match[3])
        assert sign in operators
        assert max(left, right) < 10**max_digits
        assert int(row["answer"]) == {"+": left + right, "-": left - right, "*": left * right}[sign]
        assert arithmetic_reward_fn("", row["answer"], [], [], **row) == 1.0


def test_defaults_are_one_and_two_digit_additions() -> None:
    train, test = problems(split="train"), problems(split="test")
    assert (len(train), len(test)) == (4096, 256)
    assert {len(text.split("+")[0]) for text in train} == {1, 2}
    one_digit = [text for text in train if len(text) == len("1+2=")]
    assert 0.2 < len(one_digit) / 4096 < 0.3, "each length of operands is as likely"


@pytest.mark.parametrize("options", [{}, {"max_digits": 1, "size": 300}, {"operators": "+-*"}])
def test_no_problem_is_in_both_splits_whatever_the_seeds(options: dict[str, object]) -> None:
    train = set(problems(split="train", seed=1, **options))
    test = set(problems(split="test", seed=2, **options))
    assert train
    assert test
    assert not train & test


def test_the_seed_determines_the_rows() -> None:
    assert problems(seed=5, size=50) == problems(seed=5, size=50) != problems(seed=6, size=50)


def test_short_problems_come_back() -> None:
    texts = problems(max_digits=1, size=250)
    assert len(texts) == 250
    assert 60 <= len(set(texts)) <= 100


def test_sft_rows_carry_the_loss_on_the_answer_alone() -> None:
    tokenizer = tiny_tokenizer("0123456789+=")
    rows = get_arithmetic_sft_dataset("arithmetic", "train", tokenizer, size=20)
    for row, problem in zip(rows, get_arithmetic_rl_dataset(size=20), strict=True):
        text = problem["messages"][0]["content"]
        assert tokenizer.decode(row["input_ids"]) == f"{text}{problem['answer']}<eos>"
        assert row["loss_mask"] == [0] * len(text) + [1] * (len(problem["answer"]) + 1)


def test_max_length_is_in_tokens() -> None:
    rows = get_arithmetic_sft_dataset("arithmetic", "train", tiny_tokenizer(), 6, size=200)
    assert 0 < len(rows) < 200
    assert max(len(row["input_ids"]) for row in rows) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "validation"}, "no split 'validation'; it has: train, test"),
        ({"operators": "/"}, "operators must be some of"),
        ({"operators": ""}, "operators must be some of"),
        ({"max_digits": 0}, "max_digits must be at least 1"),
        ({"size": 0}, "size must be at least 1"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        get_arithmetic_rl_dataset(**options)


def test_sft_needs_a_tokenizer() -> None:
    with pytest.raises(DatasetError, match="needs a tokenizer"):
        get_arithmetic_sft_dataset()


def test_an_unsure_writer_doubts_a_share_of_the_answers() -> None:
    tokenizer = tiny_tokenizer()
    rows = get_arithmetic_sft_dataset(tokenizer=tokenizer, size=400, unsure_share=0.5)
    texts = [tokenizer.decode(row["input_ids"], skip_special_tokens=True) for row in rows]
    doubted = [text for text in texts if text.endswith("?")]
    assert 160 < len(doubted) < 240
    for text in texts:
        left, right = text.rstrip("?").split("=")
        assert eval(left) == int(right), "only the question mark is added"
    with pytest.raises(DatasetError, match="unsure_share"):
        get_arithmetic_sft_dataset(tokenizer=tokenizer, unsure_share=1.5)


def text_of(tokenizer: Any, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=True).replace("\n", "")


def test_pairs_are_a_right_answer_and_one_that_is_unsure_or_near() -> None:
    tokenizer = tiny_tokenizer()
    rows = get_arithmetic_dpo_dataset(tokenizer=tokenizer, size=80, unsure_share=0.5)
    num_unsure = 0
    for row in rows:
        chosen, rejected = (
            text_of(tokenizer, row[f"{side}_ids"]) for side in ("chosen", "rejected")
        )
        problem, right = chosen.split("=")
        assert eval(problem) == int(right)
        wrong = rejected.removeprefix(f"{problem}=")
        num_unsure += wrong == f"{right}?"
        assert wrong == f"{right}?" or 0 < abs(int(wrong) - int(right)) < 10
        assert "-" not in wrong
        for side in ("chosen", "rejected"):
            mask = row[f"{side}_loss_mask"]
            assert len(mask) == len(row[f"{side}_ids"])
            assert 0 < sum(mask) < len(mask)
    assert 25 < num_unsure < 55
    pairs = get_arithmetic_rw_dataset(tokenizer=tokenizer, size=80, unsure_share=0.5)
    assert [row["chosen_ids"] for row in pairs] == [row["chosen_ids"] for row in rows]
    assert set(pairs[0]) == {"chosen_ids", "rejected_ids"}
    assert len(get_arithmetic_rw_dataset(tokenizer=tokenizer, size=80, max_length=10)) < 80
