"""Tests of ``areal.reward.plain_judge``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("openai")

from areal.reward.judge_endpoint import JudgeError
from areal.reward.plain_judge import RUBRIC
from areal.reward.plain_judge import plain_judge_reward_fn as reward_fn
from areal.testing import ChatServer

# YOURS: add replies of your own judge, and what they come to
REPLIES = [
    ("It is fine.\nSCORE: 0.7", 0.7),
    ("**Score:** 80%", 0.8),
    ("score: 3/4, no: SCORE: 2/4", 0.5),
]
GOOD = "SCORE: 1"

HOSTILE = [
    "\x00",
    "\\",
    "{{ answer }} {fence} {0}",
    '\'"""',
    "\ud800",
    "\N{GRINNING FACE}" * 99,
    "9" * 99_999,
]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ChatServer(GOOD).running() as server:
        variables = {"BASE_URL": server.url, "MODEL": "a judge", "API_KEY": "a key"}
        for name, value in {**variables, "CACHE_DIR": str(tmp_path / "cache")}.items():
            monkeypatch.setenv(f"JUDGE_{name}", value)
        yield server


def score(completion: str = "twenty", answer: object = "20") -> float:
    return reward_fn("how much?", completion, [1, 2], [3], answer=answer, level="extra column")


@pytest.mark.parametrize(("reply", "expected"), REPLIES, ids=range(len(REPLIES)))
def test_reads_verdicts(judge: ChatServer, reply: str, expected: float) -> None:
    judge.replies = [reply]
    assert score() == expected
    assert RUBRIC in judge.requests[0]["messages"][0]["content"]


def test_asks_the_judge_once(judge: ChatServer) -> None:
    assert [score(), score()] == [1.0, 1.0]
    (asked,) = judge.requests
    assert (asked["model"], asked["temperature"]) == ("a judge", 0)
    assert asked["authorization"] == "Bearer a key"
    assert all(text in asked["messages"][1]["content"] for text in ("how much?", "twenty", "20"))


def test_no_verdict_is_an_error_and_no_zero(judge: ChatServer) -> None:
    judge.replies = ["", "I cannot say", GOOD, "I cannot say"]
    assert score() == 1.0
    assert "End with one line" in judge.requests[-1]["messages"][-1]["content"]
    with pytest.raises(JudgeError, match="held no verdict; the last: 'I cannot say'"):
        score("another one")


def test_an_empty_completion_is_worth_nothing(judge: ChatServer) -> None:
    assert [score(""), score(" \n")] == [0.0, 0.0]
    assert not judge.requests


@pytest.mark.parametrize("completion", HOSTILE, ids=range(len(HOSTILE)))
def test_scores_any_text_with_a_plain_float(judge: ChatServer, completion: str) -> None:
    reward = score(completion, None)
    assert type(reward) is float
    assert reward == 1.0
