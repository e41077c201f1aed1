"""Interactions on their way between the server and the workflow."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from areal.experimental.openai.proxy.wire import from_wire, to_wire
from areal.experimental.openai.recorder import Recorder
from tests.unit.experimental.openai.scripted import USER, ScriptedEngine, make_tokenizer

TOKENIZER = make_tokenizer()
NUM_TURNS = 12
SHOWN = ("messages", "output_message_list", "reward", "original_reward", "chat_template_type")


def recorded(kind: str, *, is_branched: bool = False) -> Recorder:
    """Records a conversation whose answers have reasoning, which the template leaves out."""
    texts = [f"<think>{i}</think>{i} is it" for i in range(NUM_TURNS)]
    recorder = Recorder(ScriptedEngine(TOKENIZER, *texts), TOKENIZER, chat_template_type=kind)
    messages: list[Any] = [USER]
    for turn in range(NUM_TURNS):
        answer = asyncio.run(recorder.complete({"messages": messages}))
        if not is_branched or turn % 3 == 0:
            said = answer.choices[0].message.content
            messages = [
                *messages,
                {"role": "assistant", "content": said},
                {"role": "user", "content": "no, " * 20},
            ]
        recorder.cache.set_reward(answer.id, 0.1 * turn)
    return recorder


@pytest.mark.parametrize("is_compact", [False, True])
@pytest.mark.parametrize("is_branched", [False, True])
@pytest.mark.parametrize("kind", ["hf", "concat"])
def test_nothing_is_lost_on_the_way(kind: str, is_branched: bool, is_compact: bool) -> None:
    cache = recorded(kind, is_branched=is_branched).cache
    arrived = from_wire(json.loads(json.dumps(to_wire(cache, is_compact=is_compact))))
    assert list(arrived) == list(cache)
    for sent, found in zip(cache.values(), arrived.values(), strict=True):
        for name in SHOWN:
            assert getattr(found, name) == getattr(sent, name), name
        parents = [x.parent and x.parent.interaction_id for x in (sent, found)]
        assert parents[0] == parents[1]
        tensors = [x.to_tensor_dict() for x in (sent, found)]
        for name, value in tensors[0].items():
            assert value.equal(tensors[1][name]), name


@pytest.mark.parametrize("kind", ["hf", "concat"])
def test_a_conversation_is_sent_once(kind: str) -> None:
    items = to_wire(recorded(kind).cache, is_compact=True)
    sizes = [len(json.dumps(item)) for item in items]
    assert max(sizes[1:]) < 1.1 * min(sizes[1:])
    assert sum(len(item["messages"]) for item in items) == 2 * NUM_TURNS - 1
