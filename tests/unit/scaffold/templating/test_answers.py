"""Answers: completed from defaults, checked, and refused with the option's name."""

from __future__ import annotations

import pytest

from scaffold.errors import RequestError
from scaffold.templating.answers import MAX_TEXT, check_answer, complete_answers, parse_answer
from scaffold.templating.spec import Answer

TEXT = Answer("name", "str", "A text.", option="--name")
COUNT = Answer("count", "int", "A number.", default=2, minimum=1, maximum=9, option="--count")
CHOICE = Answer("take", "str", "One of two.", default="a", choices=("a", "b"), option="--take")


def test_defaults_fill_what_was_not_given():
    questions = {"count": COUNT, "take": CHOICE}
    assert complete_answers(questions, {"count": 3, "take": None}) == {"count": 3, "take": "a"}


def test_all_missing_answers_are_named():
    other = Answer("other", "str", "Another text.", option="--other")
    with pytest.raises(RequestError) as refusal:
        complete_answers({"name": TEXT, "other": other}, {})
    assert refusal.value.code == "answer_missing"
    assert "--name (A text.), --other (Another text.)" in refusal.value.message


def test_an_answer_that_nobody_asked_for_is_refused():
    with pytest.raises(RequestError, match="has no option --colour"):
        complete_answers({"count": COUNT}, {"colour": "red"})


@pytest.mark.parametrize(
    ("question", "value"),
    [
        (TEXT, "anything \N{GRINNING FACE} \"'\\ {{ x }} \n"),
        (COUNT, 9),
        (CHOICE, "b"),
        (Answer("r", "float", "Float.", option="--r"), 1.5),
        (Answer("b", "bool", "Bool.", option="--b"), False),
        (Answer("p", "str", "Pattern.", check="regex", option="--p"), r"(\d+)$"),
        (Answer("p", "str", "Path.", check="dotted", option="--p"), "a.b:c"),
        (Answer("p", "str", "Name.", check="identifier", option="--p"), "abc"),
        (Answer("p", "str", "Short.", pattern="[a-z]+", option="--p"), "abc"),
    ],
)
def test_good_answers_come_back(question: Answer, value: object):
    assert check_answer(question, value) == value


def test_an_int_will_do_for_a_float():
    assert check_answer(Answer("r", "float", "Float.", option="--r"), 2) == 2.0


@pytest.mark.parametrize(
    ("question", "value", "reason"),
    [
        (COUNT, 0, "is 0; 1 is the least"),
        (COUNT, 10, "is 10; 9 is the most"),
        (COUNT, 10**400, "between -1.8e+308 and 1.8e+308"),
        (
            Answer("r", "float", "Float.", option="--r"),
            -(10**400),
            "between -1.8e+308 and 1.8e+308",
        ),
        (COUNT, True, "must be int, not bool"),
        (COUNT, "3", "must be int, not str"),
        (Answer("r", "float", "Float.", option="--r"), float("nan"), "finite"),
        (Answer("r", "float", "Float.", option="--r"), float("-inf"), "finite"),
        (CHOICE, "c", "must be one of a, b"),
        (TEXT, "x" * (MAX_TEXT + 1), "is the limit"),
        (TEXT, "\udcff", "not UTF-8"),
        (
            Answer("p", "str", "Pattern.", check="regex", option="--p"),
            "(",
            "not a regular expression",
        ),
        (Answer("p", "str", "Path.", check="dotted", option="--p"), "abc", "dotted path"),
        (Answer("p", "str", "Path.", check="dotted", option="--p"), "a.b c", "dotted path"),
        (Answer("p", "str", "Name.", check="identifier", option="--p"), "a b", "identifier"),
        (Answer("p", "str", "Short.", pattern="[a-z]+", option="--p"), "abc\n", "cannot be"),
        (Answer("p", "str", "Short.", maximum=2, option="--p"), "abc", "3 characters"),
    ],
)
def test_bad_answers_are_refused_with_the_option(question: Answer, value: object, reason: str):
    with pytest.raises(RequestError) as refusal:
        check_answer(question, value)
    assert refusal.value.code == "answer_invalid"
    assert refusal.value.message.startswith(question.option)
    assert reason in refusal.value.message


def test_an_option_that_may_be_repeated_gives_a_text_or_a_list() -> None:
    question = Answer("column", "str", "help", "", option="--column", multiple=True)
    questions = {"column": question}
    for given, value in [(["a"], "a"), (("a", "b"), ["a", "b"]), ("a", "a"), (None, "")]:
        assert complete_answers(questions, {"column": given}) == {"column": value}
    assert parse_answer(question, '["a", "b"]') == ["a", "b"]
    assert parse_answer(question, "a,b") == "a,b"
    for wrong in ("[1]", "[", "[{}]"):
        with pytest.raises(RequestError, match="--column"):
            parse_answer(question, wrong)
