from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from areal.api.errors import RewardError
from areal.reward.gsm8k import gsm8k_reward_fn

QUESTION = "Natalia sold 48 clips in April and half as many in May. How many is that together?"


def score(completion: str, answer: object = "She sold 24 in May.\n#### 72") -> float:
    return gsm8k_reward_fn(QUESTION, completion, [1], [2], answer=answer, messages=[])


@pytest.mark.parametrize(
    "completion",
    [
        r"\boxed{72}",
        r"48 in April, 24 in May, so \boxed{72}.",
        r"\boxed{72 \text{ clips}}",
        r"\boxed{72 clips}",
        r"\boxed{\$72}",
        r"\boxed{72.00}",
        r"\boxed{\frac{144}{2}}",
        r"\boxed{71} is wrong, \boxed{72}",
        "#### 72",
        "#### 72.",
        "#### $72",
        "#### 71\nNo.\n#### 72",
        "The answer is 72.",
        "The final answer is: 72",
        "**Answer:** 72",
        "48 + 24 = 72",
        QUESTION + " She sold 72.",
        "72",
        "1. Add.\n#### Final answer\n\n\\boxed{72}",
    ],
)
def test_right_answers_score_one(completion: str) -> None:
    assert score(completion) == 1.0


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "I cannot say.",
        QUESTION,
        r"\boxed{}",
        r"\boxed{73}",
        r"\boxed{-72}",
        r"\boxed{72} or rather \boxed{73}",
        r"\boxed{71, 72}",
        r"\boxed{72 million}",
        r"\boxed{720}",
        r"\boxed{7.2}",
        "#### 72\n#### 73",
        "The answer is 73, not 72.",
        "72 72 72 and 73",
    ],
)
def test_wrong_or_unreadable_answers_score_zero(completion: str) -> None:
    assert score(completion) == 0.0


@pytest.mark.parametrize(
    ("answer", "completion"),
    [
        ("#### 1,234", r"\boxed{1234}"),
        ("#### 1234", r"\boxed{1,234}"),
        ("1,234", "#### 1,234"),
        (1234, "It is 1,234."),
        ("#### -5", r"\boxed{-5}"),
        ("#### 0.5", r"\boxed{\frac{1}{2}}"),
        ("#### 50%", r"\boxed{50}"),
        ("#### 50", r"\boxed{50\%}"),
        ("#### $18", "So it is $18."),
        ("#### 18 dollars", r"\boxed{18}"),
        (r"\boxed{72}", "#### 72"),
    ],
)
def test_gold_answers_come_in_several_spellings(answer: object, completion: str) -> None:
    assert score(completion, answer) == 1.0
    assert score(r"\boxed{7777}", answer) == 0.0


@pytest.mark.parametrize(
    ("answer", "right", "wrong"),
    [
        ("2^3", r"\boxed{8}", r"\boxed{6}"),
        ("2**3", "8", "9"),
        ("2*pi", r"\boxed{2\pi}", r"\boxed{3\pi}"),
        ("2*pi", r"\boxed{2*pi}", r"\boxed{2*pi^2}"),
        ("#### 2*pi", "It is 6.283185", "It is 6.29"),
        (
            r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
            r"\boxed{\begin{pmatrix}1&2\\3&4\end{pmatrix}}",
            r"\boxed{\begin{pmatrix}1&2\\4&3\end{pmatrix}}",
        ),
        ("[1,2)", r"\boxed{[1,2)}", r"\boxed{[1,2]}"),
        (r"(-\infty,3]", r"so $(-\infty,3]$", r"so $(-\infty,3)$"),
        ("6.82", "6.82%", "6.83%"),
        ("6.82", "The answer is 6.82%", "The answer is 6.83%"),
        ("6.82%", "The answer is 6.82", "The answer is 6.83"),
        ("6.82%", "0.0682", "0.0683"),
    ],
)
def test_gold_answers_may_be_any_mathematics(answer: str, right: str, wrong: str) -> None:
    assert score(right, answer) == 1.0
    assert score(wrong, answer) == 0.0


@pytest.mark.parametrize("answer", ["", "#### ", "no number here", None, "#### two"])
def test_a_gold_answer_of_words_is_an_error(answer: object) -> None:
    with pytest.raises(RewardError, match="has no number or formula"):
        score(r"\boxed{72}", answer)


def test_a_completion_that_is_no_text_is_an_error() -> None:
    nothing: Any = None
    with pytest.raises(TypeError):
        gsm8k_reward_fn("p", nothing, [], [], answer="#### 72")


@pytest.fixture(scope="module")
def gsm8k_answers() -> list[str]:
    folder = os.environ.get("AREAL_GSM8K_DIR")
    if not folder:
        pytest.skip("AREAL_GSM8K_DIR is not set: it names the folder with GSM8K's JSONL files")
    lines = [
        line
        for name in ("train.jsonl", "test.jsonl")
        for line in (Path(folder) / name).read_text(encoding="utf-8").splitlines()
    ]
    return [json.loads(line)["answer"] for line in lines]


def test_every_gold_answer_of_gsm8k_scores_one_in_each_form(gsm8k_answers: list[str]) -> None:
    assert len(gsm8k_answers) == 8792
    for answer in gsm8k_answers:
        number = answer.rpartition("#### ")[2]
        assert score(answer, answer) == 1.0, answer
        assert score(rf"Together \boxed{{{number}}}.", answer) == 1.0, answer
        assert score(f"#### {number.replace(',', '')}", answer) == 1.0, answer
        assert score(answer, number) == 1.0, answer


def test_every_wrong_answer_on_gsm8k_scores_zero(gsm8k_answers: list[str]) -> None:
    for answer in gsm8k_answers:
        solution, _, number = answer.rpartition("#### ")
        value = int(number.replace(",", ""))
        for wrong in (value + 1, -value - 1, value * 10 + 1):
            assert score(rf"\boxed{{{wrong}}}", answer) == 0.0, answer
            assert score(f"{solution}#### {wrong}", answer) == 0.0, answer


def test_unmarked_gold_numbers_of_gsm8k_are_found_too(gsm8k_answers: list[str]) -> None:
    # Every 40th row: these go through math-verify, at about a millisecond each.
    for answer in gsm8k_answers[::40]:
        number = answer.rpartition("#### ")[2]
        assert score(f"So the answer is {number}.", answer) == 1.0, answer
        assert score(f"Out of 3, that makes ${number}", answer) == 1.0, answer
        assert score(f"So the answer is 9{number}.", answer) == 0.0, answer
