"""The Responses API: items in, items out, recorded as any other answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from areal.experimental.openai import ArealOpenAI, RequestError
from tests.unit.experimental.openai.scripted import ScriptedEngine, make_tokenizer

TOOL = {"type": "function", "name": "add", "parameters": {}, "strict": False}
CALL = '<tool_call>{"name": "add", "arguments": {"x": 5}}</tool_call>'


def made(*texts: str) -> tuple[ScriptedEngine, ArealOpenAI]:
    tokenizer = make_tokenizer()
    engine = ScriptedEngine(tokenizer, *texts)
    return engine, ArealOpenAI(engine, tokenizer)


def ask(client: ArealOpenAI, **params: Any) -> Any:
    return asyncio.run(client.responses.create(**params))


def test_text_in_text_out() -> None:
    engine, client = made("<think>hm</think>5")
    response = ask(client, input="2+3", instructions="Add.", max_output_tokens=9, model="m")
    assert response.output_text == "<think>hm</think>5"
    assert [item.type for item in response.output] == ["message"]
    assert response.status == "completed"
    assert response.usage.input_tokens == len(engine.requests[0].input_ids)
    assert engine.requests[0].gconfig.max_new_tokens == 9
    assert engine.prompt(0) == "[system]Add.[user]2+3[assistant]"
    recorded = client.get_interaction(response.id)
    assert recorded is not None
    assert recorded.response is response
    client.set_last_reward(1.0)
    assert client.export_interactions("individual")[response.id].reward == 1.0


def test_tools_and_what_comes_back() -> None:
    engine, client = made(f"so {CALL}", "5")
    first = ask(client, input=[{"role": "user", "content": "2+3"}], tools=[TOOL])
    assert [item.type for item in first.output] == ["message", "function_call"]
    call = first.output[1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "5"}
    second = ask(
        client, input=[{"role": "user", "content": "2+3"}, *first.output, result], tools=[TOOL]
    )
    expected = "[user]2+3[assistant]so<tool_call>add 5</tool_call><eos>[tool]5[assistant]"
    assert engine.prompt(1) == "[tools:1]" + expected
    recorded = client.get_interaction(second.id)
    assert recorded is not None
    assert recorded.parent is client.get_interaction(first.id)


def test_a_previous_response_is_gone_on_with() -> None:
    engine, client = made("4", "5")
    first = ask(client, input="2+3", instructions="Add.")
    ask(client, input="no", previous_response_id=first.id)
    assert engine.prompt(1) == "[user]2+3[assistant]4<eos>[user]no[assistant]"
    with pytest.raises(RequestError, match="no response 'x'") as caught:
        ask(client, input="no", previous_response_id="x")
    assert caught.value.status == 404


def test_an_answer_that_was_cut_off() -> None:
    _, client = made("4~")
    response = ask(client, input="2+3")
    # An agent takes an incomplete answer for a failure.
    assert response.status == response.output[0].status == "completed"
    assert response.incomplete_details is None


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"input": 3}, "input must be"),
        ({"input": [{"type": "computer_call"}]}, "computer_call"),
        ({"input": "x", "stream": True}, "stream"),
        ({"input": "x", "background": True}, "background"),
        ({"input": "x", "tools": [{"type": "web_search"}]}, "tools"),
    ],
)
def test_refused(params: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        ask(made("5")[1], **params)


@pytest.mark.parametrize(
    "params",
    [
        {"reasoning": {"effort": "low"}},
        {"text": {"verbosity": "low"}},
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}},
        {"include": ["reasoning.encrypted_content"]},
        {"truncation": "auto"},
        {"metadata": {"a": "b"}},
        {"store": True},
    ],
    ids=str,
)
def test_what_sdks_send_unasked_is_no_reason_to_refuse(params: dict[str, Any]) -> None:
    _, client = made("5", "6")
    assert ask(client, input="x", **params).output_text == "5"
    assert ask(client, input="x", **params | {"store": False}).output_text == "6"
    assert len(client._recorder.cache) == 1


def test_reasoning_apart_is_an_item_of_its_own() -> None:
    _, client = made("<think>hm</think>5")
    response = ask(client, input="2+3", extra_body={"separate_reasoning": True})
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output_text == "5"
