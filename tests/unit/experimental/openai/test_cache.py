"""Interactions in order: parents, rewards and what is exported."""

from __future__ import annotations

import pytest

from areal.api.io_struct import ModelResponse
from areal.experimental.openai.cache import InteractionCache
from areal.experimental.openai.messages import parse_messages
from tests.unit.experimental.openai.scripted import interaction

ANSWER = ModelResponse(input_tokens=[3], output_tokens=[4], output_logprobs=[-1.0])


def chain(kind: str = "concat") -> InteractionCache:
    """a - b - c, and d beside them."""
    cache = InteractionCache()
    fields = {"model_response": ANSWER, "chat_template_type": kind}
    a = interaction("a", [("user", "1")], "one", **fields)
    said = [("user", "1"), ("assistant", "one"), ("user", "2")]
    b = interaction("b", said, "two", a, **fields)
    said = [*said, ("assistant", "two"), ("user", "3")]
    c = interaction("c", said, "three", b, **fields)
    d = interaction("d", [("user", "other")], "four", **fields)
    for each in (a, b, c, d):
        cache.add(each)
    return cache


@pytest.mark.parametrize(
    ("messages", "parent"),
    [
        ([("user", "1")], None),
        ([("user", "1"), ("assistant", "one")], "a"),
        ([("user", "1"), ("assistant", "one"), ("user", "2")], "a"),
        ([("user", "1"), ("assistant", "one"), ("user", "2"), ("assistant", "two")], "b"),
        ([("user", "1"), ("assistant", "ones"), ("user", "2")], None),
        ([("user", "other"), ("assistant", "four"), ("user", "x")], "d"),
        ([("system", "1"), ("user", "1"), ("assistant", "one")], None),
    ],
)
def test_the_parent_is_the_longest_beginning(
    messages: list[tuple[str, str]], parent: str | None
) -> None:
    parsed = parse_messages([{"role": role, "content": text} for role, text in messages])
    found = chain().find_parent(parsed)
    assert (found.interaction_id if found else None) == parent


def test_of_equal_beginnings_the_newest_is_the_parent() -> None:
    cache = InteractionCache()
    for key in ("a", "b"):
        cache.add(interaction(key, [("user", "1")], "one", model_response=ANSWER))
    found = cache.find_parent(parse_messages([*cache["a"].messages, *said(cache, "a")]))
    assert found is cache["b"]


def said(cache: InteractionCache, key: str) -> list[dict[str, object]]:
    output = cache[key].output_message_list
    assert output is not None
    return output


def test_rewards() -> None:
    cache = chain()
    cache.set_reward("a", 0.5)
    cache.set_last_reward(2.0)
    assert cache.last_interaction_id == "d"
    assert cache.total_reward == 2.5
    with pytest.raises(KeyError, match="no interaction 'x'"):
        cache.set_reward("x", 1.0)
    with pytest.raises(KeyError, match="has not been asked"):
        InteractionCache().set_last_reward(1.0)


@pytest.mark.parametrize(
    ("discount", "rewards"),
    [
        (1.0, [3.0, 3.0, 2.0, 2.0]),
        (0.5, [0.75, 1.5, 1.0, 2.0]),
        (0.0, [0.0, 1.0, 0.0, 2.0]),
    ],
)
def test_a_reward_reaches_what_came_before(discount: float, rewards: list[float]) -> None:
    cache = chain()
    cache.set_reward("b", 1.0)
    cache.set_reward("d", 2.0)
    cache.apply_reward_discount(discount)
    assert [x.reward for x in cache.values()] == rewards
    with pytest.raises(RuntimeError, match="discounted already"):
        cache.apply_reward_discount(discount)


def test_a_missing_last_reward_counts_as_zero_and_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = chain()
    cache.apply_reward_discount(0.5)
    assert [x.reward for x in cache.values()] == [0.0] * 4
    assert "no reward" in caplog.text


def test_export() -> None:
    assert list(chain().export_interactions("individual")) == ["a", "b", "c", "d"]
    assert list(chain().export_interactions("concat")) == ["c", "d"]
    with pytest.raises(ValueError, match="unknown export style 'all'"):
        chain().export_interactions("all")
    with pytest.raises(ValueError, match="needs chat_template_type"):
        chain("hf").export_interactions("concat")


@pytest.mark.parametrize(("style", "kept"), [("individual", "abcd"), ("concat", "cd")])
def test_an_export_discounts_rewards_once(style: str, kept: str) -> None:
    cache = chain()
    cache.set_reward("b", 1.0)
    cache.set_reward("d", 2.0)
    by_hand = chain()
    by_hand.set_reward("b", 1.0)
    by_hand.set_reward("d", 2.0)
    by_hand.apply_reward_discount(0.5)
    for _ in range(2):
        exported = cache.export_interactions(style, reward_discount=0.5)
        assert {k: x.reward for k, x in exported.items()} == {k: by_hand[k].reward for k in kept}
    with pytest.raises(RuntimeError, match=r"by 0\.5;"):
        cache.export_interactions(style, reward_discount=0.9)


def test_an_answer_that_was_asked_for_again_is_dropped() -> None:
    cache = chain()
    again = interaction("e", [("user", "other")], "five", model_response=ANSWER)
    cache.add(again)
    rewarded = interaction("f", [("user", "other")], "six", model_response=ANSWER, reward=1.0)
    cache.add(rewarded)
    cache.drop_retry_orphans()
    assert list(cache) == ["a", "b", "c", "f"]
    # One that the conversation went on from is no orphan, though it was asked for again.
    cache.add(interaction("g", [("user", "1")], "uno", model_response=ANSWER))
    cache.drop_retry_orphans()
    assert list(cache) == ["a", "b", "c", "f", "g"]
