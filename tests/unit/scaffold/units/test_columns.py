"""Columns are found by name and content, shown with their evidence, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from scaffold.errors import RequestError
from scaffold.units.columns import (
    ALIASES,
    ROLES,
    ColumnMap,
    content_of,
    describe_columns,
    find_columns,
)

USER = {"role": "user", "content": "2+3?"}
ASSISTANT = {"role": "assistant", "content": "5"}
WRONG = {"role": "assistant", "content": "6"}
HUMAN = "\n\nHuman: 2+3?\n\nAssistant:"

Row = dict[str, Any]


ASKED = {
    "rl": ["question", "answer"],
    "sft": ["question", "answer"],
    "rw": ["prompt", "chosen", "rejected"],
    "dpo": ["prompt", "chosen", "rejected"],
}
"""What the types of a dataset ask for."""


def found(row: Row | list[Row], *types: str, **given: str) -> dict[str, str]:
    rows = row if isinstance(row, list) else [row, row]
    roles = [role for each in types for role in ASKED[each]]
    named = {role: name.split("+") for role, name in given.items()}
    matches = find_columns(rows, roles, named, is_learnt="sft" in types).matches
    return {match.role: "+".join(match.columns) for match in matches}


QUESTIONS: list[tuple[Row, str, str]] = [
    ({"question": "2+3?", "answer": "#### 5"}, "question", "answer"),
    ({"problem": "x", "level": "3", "solution": "y"}, "problem", "solution"),
    ({"Question": "x", "Final Answer": 5}, "Question", "Final Answer"),
    ({"instruction": "x", "input": "z", "output": "y"}, "instruction", "output"),
    ({"问题": "一加一等于几？", "答案": "2"}, "问题", "答案"),
    ({"question": "x", "prompt": "do: x", "answer": "y"}, "question", "answer"),
    ({"question": "x", "answer": "y", "solution": "z"}, "question", "answer"),
    ({"id": 7, "frage": "Wie viel?", "antwort": "fünf"}, "frage", "antwort"),
    ({"messages": [USER], "answer": "5"}, "messages", "answer"),
    ({"messages": [USER, ASSISTANT]}, "messages", "messages"),
    ({"q": "x", "a": 5}, "q", "a"),
    ({"question": "x", "answer": {"text": "y"}}, "question", "answer.text"),
    (
        {"prompt": [USER], "reward_model": {"ground_truth": "5"}},
        "prompt",
        "reward_model.ground_truth",
    ),
    ({"response": "5", "data": {"problem": "x", "answer": "y"}}, "data.problem", "response"),
    ({"data": {"in": {"question": "x", "n": 1}}, "answer": "y"}, "data.in.question", "answer"),
    ({"data.in": "x?", "data": {"in": "z"}, "answer": "y"}, "data.in", "answer"),
    ({"question": "x", "a": True}, "question", "a"),
    ({"image": b"\xff\xd8\xff", "question": "x", "label": "y"}, "question", "label"),
]


@pytest.mark.parametrize(("row", "question", "answer"), QUESTIONS)
def test_questions_and_answers(row: Row, question: str, answer: str) -> None:
    assert found(row, "rl") == {"question": question, "answer": answer}


PAIRS: list[tuple[Row, str]] = [
    ({"chosen": HUMAN + " 5", "rejected": HUMAN + " 6"}, ""),
    ({"chosen": [USER, ASSISTANT], "rejected": [USER, WRONG]}, ""),
    ({"prompt": "2+3?", "chosen": "5", "rejected": "6"}, "prompt"),
    ({"prompt": "2+3?", "chosen": "2+3? 5", "rejected": "2+3? 6"}, ""),
    ({"prompt": "2+3?", "chosen": [USER, ASSISTANT], "rejected": [USER, WRONG]}, "prompt"),
    ({"prompt": [USER], "chosen": [ASSISTANT], "rejected": [WRONG], "score": 1.0}, "prompt"),
    ({"question": "2+3?", "chosen": "5", "rejected": "6"}, "question"),
]


@pytest.mark.parametrize(("row", "prompt"), PAIRS)
@pytest.mark.parametrize("kind", ["rw", "dpo"])
def test_pairs(row: Row, prompt: str, kind: str) -> None:
    expected = {"chosen": "chosen", "rejected": "rejected", "prompt": prompt}
    assert found(row, kind) == expected


def test_types_share_their_columns() -> None:
    row = {"prompt": "2+3?", "chosen": "5", "rejected": "6"}
    assert found(row, "sft", "rw", answer="chosen") == {
        "question": "prompt",
        "answer": "chosen",
        "chosen": "chosen",
        "rejected": "rejected",
        "prompt": "prompt",
    }


UNCLEAR: list[tuple[Row, str, str]] = [
    (
        {"question": "x", "problem": "z", "answer": "y"},
        "rl",
        "the question may be in 2 columns: give --question-column question or --question-column "
        "problem",
    ),
    ({"question": "x", "answer": "y", "solution": "z"}, "sft", "--answer-column solution"),
    ({"one": "x", "two": "y"}, "rl", "--question-column one or --question-column two"),
    ({"question": "x", "answer": ["y"]}, "rl", "no column fits the answer"),
    (
        {"ask": "x?", "id": "a", "solution": {"steps": ["y"], "final": 5}},
        "rl",
        "the answer may be in 2 columns: give --answer-column id or --answer-column solution.final",
    ),
    (
        {"prompt": "x", "made": {"ground_truth": "5"}, "extra": {"answer": "z"}},
        "rl",
        "--answer-column made.ground_truth or --answer-column extra.answer",
    ),
    ({"question": "x", "answer": ""}, "rl", "no column fits the answer"),
    ({"left": "x", "right": "y"}, "dpo", "--chosen-column left or --chosen-column right"),
    ({"question": "x", "score": 0.5}, "rl", "no column fits the answer"),
    ({"chosen": "x"}, "rw", "no column fits the rejected"),
    ({}, "rl", "no column fits the question; no column fits the answer"),
]


@pytest.mark.parametrize(("row", "kind", "message"), UNCLEAR)
def test_what_is_not_clear_is_refused_with_candidates(row: Row, kind: str, message: str) -> None:
    with pytest.raises(RequestError) as refusal:
        found(row, kind)
    assert refusal.value.code == "columns_unclear"
    assert message in refusal.value.message
    for name in row:
        assert name in refusal.value.hint


def test_two_columns_that_hold_the_same_are_no_choice() -> None:
    assert found({"question": "x", "problem": "x", "answer": "y"}, "rl")["question"] == "question"


def test_a_column_that_was_named_wins_and_is_checked() -> None:
    row = {"question": "x", "problem": "z", "answer": "y", "tags": ["a"]}
    assert found(row, "rl", question="problem")["question"] == "problem"
    with pytest.raises(RequestError, match="there is no column 'nothing'"):
        found(row, "rl", question="nothing")
    with pytest.raises(RequestError, match="tags holds lists, 2 of 2 rows"):
        found(row, "rl", question="tags")


def test_several_columns_make_up_a_question() -> None:
    row = {"story": "x", "ask": "y?", "tags": ["z"], "answer": "5", "turns": [USER]}
    assert found(row, "rl", question="story+ask")["question"] == "story+ask"
    told = find_columns([row], ASKED["rl"], {"question": ["story", "ask"]}).lines()
    assert told[0] == (
        "question_column = story, ask: texts, 1 of 1 rows + texts, 1 of 1 rows, as you said"
    )
    assert told[-1] == "not used: tags (lists, 1 of 1 rows), turns (messages, 1 of 1 rows)"
    for wrong in ("tags", "turns"):
        with pytest.raises(RequestError, match=f"{wrong} holds .* has to be texts or numbers"):
            found(row, "rl", question=f"story+{wrong}")


def test_objects_of_names_of_their_own_are_no_columns() -> None:
    rows = [{"question": "x?", "answer": "y", "counts": {f"word{n}": n}} for n in range(9)]
    lines = find_columns(rows, ASKED["rl"], {}).lines()
    assert lines[-1] == "not used: counts (objects, 9 of 9 rows)"
    named = find_columns(rows, ASKED["rl"], {"answer": ["counts.word3"]})
    assert named.column("answer") == "counts.word3"


def test_the_evidence_counts_rows_and_names_what_is_left_out() -> None:
    rows = [{"question": "2+3?", "answer": "5", "level": 3}, {"question": "x", "answer": None}]
    assert find_columns(rows, ASKED["rl"], {}).lines() == (
        "question_column = question: texts, 2 of 2 rows, by its name",
        "answer_column = answer: texts, 1 of 2 rows, by its name",
        "not used: level (numbers, 1 of 2 rows)",
    )


def test_names_are_shown_on_one_line_and_given_as_shell_words() -> None:
    lines = find_columns([{"q": "x", "a": "y", "b\n\x1b[1m": 1}], ASKED["rl"], {}).lines()
    assert lines[-1] == "not used: 'b\\n\\x1b[1m' (numbers, 1 of 1 rows)"
    with pytest.raises(RequestError, match=r"--question-column 'it is'"):
        found({"it is": "x", "that": "y"}, "rl")


def test_a_map_gives_columns_by_role() -> None:
    columns = find_columns([{"q": "x", "a": "y"}], ASKED["rl"], {})
    assert (columns.column("question"), columns.column("prompt")) == ("q", "")
    assert ColumnMap(()).lines() == ()


CONTENTS = [
    ("x", "texts"),
    (True, "truth values"),
    (1.5, "numbers"),
    ([USER, ASSISTANT], "messages"),
    ([{"role": "user", "content": None}], "lists"),
    ([{"from": "human", "value": "x"}], "conversations with from and value instead of role and"),
    ({"bytes": b"", "path": None}, "images"),
    ([{"bytes": b"", "path": None}], "images"),
    (b"\x89PNG", "images"),
    (b"abc", "bytes"),
    ({"text": "x"}, "objects"),
    (["a"], "lists"),
    (3j, "values of the type complex"),
]


@pytest.mark.parametrize(("value", "content"), CONTENTS)
def test_contents_have_names(value: Any, content: str) -> None:
    assert content_of(value).startswith(content)


def test_mixed_columns_say_so() -> None:
    rows = [{"a": "x"}, {"a": 5}, {"a": float("nan")}, {}]
    assert describe_columns(rows)["a"].described == "texts or numbers, 2 of 4 rows"


def test_aliases_are_folded_and_stand_once() -> None:
    for role, tiers in ALIASES.items():
        names = " ".join(tiers).split()
        assert names == list(dict.fromkeys(names)), role
        assert all(name == name.casefold() for name in names)
    assert set(ROLES) == set(ALIASES)
