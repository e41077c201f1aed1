"""What verify finds in a reward, without the processes that it is called in."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

RUNNERS = Path(__file__).parents[5] / "scaffold" / "runners"
BESIDE = "tests/reward/test_sums.jsonl"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, str]]]:
    """Gives a function that probes a reward in this process, and returns its checks."""
    monkeypatch.syspath_prepend(str(RUNNERS))
    from unit_probe import kit, reward

    class Wrapper:
        def __init__(self, function: Callable[..., float], **options: Any) -> None:
            self.function = function

        async def __call__(self, *args: Any, **kwargs: Any) -> float:
            return self.function(*args, **kwargs)

    class Tokenizer:
        def encode(self, text: str) -> list[int]:
            return []

    monkeypatch.setattr("areal.api.AsyncRewardWrapper", Wrapper)
    monkeypatch.setattr(kit, "make_tokenizer", Tokenizer)

    def probe(function: Callable[..., float], **request: Any) -> list[dict[str, str]]:
        monkeypatch.setattr(kit, "load_symbol", lambda *_: function)
        place = tmp_path / "found.jsonl"
        place.unlink(missing_ok=True)
        findings = kit.Findings(str(place))
        empty = {"completions": [], "completions_file": BESIDE, "case_rewards": []}
        with suppress(kit.Stop):
            reward.main({"symbol": "", "call_timeout_s": 5, **empty, **request}, findings)
        findings.done()
        rows = map(json.loads, place.read_text().splitlines())
        return [row for row in rows if row["event"] == "check" and row["status"] != "passed"]

    return probe


def gold(prompt: str, completion: str, *ids: Any, answer: str, **row: Any) -> float:
    if not answer.startswith("GOLD<"):
        raise ValueError(f"the row's answer {answer!r} is none")
    return float(completion == answer[5:-1])


def zero(prompt: str, completion: str, *ids: Any, **row: Any) -> float:
    return 0.0


def test_gold_answers_of_a_form_of_their_own_are_no_failure(run: Any) -> None:
    (check,) = run(gold)
    assert (check["check"], check["status"]) == ("rows", "skipped")
    assert "is none" in check["message"]
    assert f"--data FILE, or completions in {BESIDE}" in check["message"]
    own = {"answer": "GOLD<7>", "completions": ["7"]}
    assert not run(gold, completions=[own])
    assert not run(gold, completions=[{**own, "reward": 1.0}])
    assert not run(gold, rows=[{"answer": "GOLD<7>"}], completions=[own])
    (check,) = run(gold, completions=[{**own, "reward": 0.0}])
    assert check["status"] == "failed"
    assert "scored 1.0; you expected 0.0" in check["message"]


def test_one_reward_for_every_completion_proves_nothing(run: Any) -> None:
    (check,) = run(zero)
    assert check["status"] == "skipped"
    assert f"give one that deserves a different score in {BESIDE}" in check["message"]
    # The cases of the unit's own test, which ran, show the other end.
    (check,) = run(zero, case_rewards=[0.0, 1.0])
    assert check["status"] == "warning"


def test_a_completion_that_no_reward_can_score_is_a_failure(run: Any) -> None:
    def number(prompt: str, completion: str, *ids: Any, answer: str, **row: Any) -> float:
        return float(float(completion) == float(answer))

    (check,) = run(number)
    assert check["status"] == "failed"
    assert "a reward must score any completion" in check["message"]
