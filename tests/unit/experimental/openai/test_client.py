"""The SDK's client over an engine: answers as OpenAI's, tokens as the engine made them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import openai
import pytest

from areal.experimental.openai import ArealOpenAI, RequestError
from tests.unit.experimental.openai.scripted import USER, ScriptedEngine, make_tokenizer

TOOL = {"type": "function", "function": {"name": "add", "parameters": {}}}
CALL = '<tool_call>{"name": "add", "arguments": {"x": 5}}</tool_call>'


def made(*texts: str, **options: Any) -> tuple[ScriptedEngine, ArealOpenAI]:
    tokenizer = make_tokenizer()
    engine = ScriptedEngine(tokenizer, *texts)
    return engine, ArealOpenAI(engine, tokenizer, **options)


def ask(client: ArealOpenAI, *messages: Any, **params: Any) -> Any:
    return asyncio.run(client.chat.completions.create(messages=list(messages), **params))


def test_a_completion_and_its_record() -> None:
    engine, client = made("5")
    completion = ask(client, USER, model="m", max_tokens=3, seed=None)
    (choice,) = completion.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "5")
    assert (choice.finish_reason, completion.model) == ("stop", "m")
    assert completion.usage.model_dump()["completion_tokens"] == 2
    assert engine.prompt(0) == "[user]2+3[assistant]"
    (request,) = engine.requests
    assert request.gconfig.max_new_tokens == 3
    assert engine.tokenizer.eos_token_id in request.gconfig.stop_token_ids
    recorded = client.get_interaction(completion.id)
    assert recorded is not None
    answer = recorded.model_response
    assert answer is not None
    assert answer.input_tokens == request.input_ids
    assert answer.output_tokens == [*engine.encode("5"), engine.tokenizer.eos_token_id]
    assert recorded.completion is completion
    assert client.get_interaction("other") is None


def test_rewards_reach_what_is_exported() -> None:
    _, client = made("4", "5")
    first = ask(client, USER)
    again = {"role": "user", "content": "no"}
    second = ask(client, USER, first.choices[0].message, again)
    client.set_last_reward(1.0)
    client.apply_reward_discount(0.5)
    exported = client.export_interactions("individual")
    assert {key: x.reward for key, x in exported.items()} == {first.id: 0.5, second.id: 1.0}
    assert exported[second.id].parent is exported[first.id]
    with pytest.raises(KeyError):
        client.set_reward("other", 1.0)
    with pytest.raises(ValueError, match="chat_template_type"):
        client.export_interactions("concat")


def test_an_export_passes_rewards_on_where_it_is_asked_to() -> None:
    _, client = made("4", "5")
    first = ask(client, USER)
    second = ask(client, USER, first.choices[0].message, {"role": "user", "content": "no"})
    client.set_last_reward(1.0)
    exported = client.export_interactions("individual", reward_discount=0.5)
    assert {key: x.reward for key, x in exported.items()} == {first.id: 0.5, second.id: 1.0}


def test_hf_renders_anew_and_concat_appends() -> None:
    texts = ("<think>a</think>4", "5~", "6")
    follow_ups = ("no", "still no")
    prompts = {}
    for kind in ("hf", "concat"):
        engine, client = made(*texts, chat_template_type=kind)
        messages: list[Any] = [USER]
        for words in (*follow_ups, None):
            completion = ask(client, *messages)
            messages += [completion.choices[0].message, {"role": "user", "content": words}]
        prompts[kind] = [engine.prompt(i) for i in range(3)]
        if kind == "concat":
            (leaf,) = client.export_interactions("concat").values()
            tensors = leaf.to_tensor_dict()
            for i, request in enumerate(engine.requests[1:]):
                said = client.get_interaction(list(client._recorder.cache)[i])
                assert said is not None
                assert said.model_response is not None
                before = said.model_response.input_tokens + said.model_response.output_tokens
                assert request.input_ids[: len(before)] == before
            trained = tensors["input_ids"][tensors["loss_mask"].bool()].tolist()
            assert engine.tokenizer.decode(trained) == "<think>a</think>4<eos>56<eos>"
            assert tensors["turn_ids"].max() == 2
    start = "[user]2+3[assistant]"
    # What was cut off is closed by the template; what the model ended is not ended twice.
    whole = start + "<think>a</think>4<eos>[user]no[assistant]5<eos>[user]still no[assistant]"
    assert prompts["hf"][2] == prompts["concat"][2] == whole


def test_a_tool_call_and_its_result() -> None:
    engine, client = made(f"<think>hm</think>{CALL}", "it is 5")
    apart = {"separate_reasoning": True}
    completion = ask(client, USER, tools=[TOOL], extra_body=apart)
    (choice,) = completion.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.reasoning_content == "hm"
    (call,) = choice.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("add", '{"x": 5}')
    result = {"role": "tool", "tool_call_id": call.id, "content": "5"}
    last = ask(client, USER, choice.message, result, tools=[TOOL])
    assert engine.prompt(1).startswith("[tools:1][user]2+3[assistant]<tool_call>add 5</tool_call>")
    recorded = client.get_interaction(last.id)
    assert recorded is not None
    assert recorded.parent is client.get_interaction(completion.id)


@pytest.mark.parametrize(
    ("options", "params", "content", "prompt_end"),
    [
        ({}, {"stop": ["#"]}, "12", "[assistant]"),
        ({}, {}, f"12#{CALL}", "[assistant]"),  # no tools were offered
        ({"tool_call_parser": ""}, {"tools": [TOOL]}, f"12#{CALL}", "[assistant]"),
        ({}, {"extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}, None, "!"),
    ],
)
def test_what_is_cut_out(
    options: dict[str, Any], params: dict[str, Any], content: str | None, prompt_end: str
) -> None:
    engine, client = made(f"12#{CALL}", **options)
    completion = ask(client, USER, **params)
    if content is not None:
        assert completion.choices[0].message.content == content
    assert engine.prompt(0).endswith(prompt_end)


def test_an_answer_that_was_cut_off() -> None:
    _, client = made("12~")
    assert ask(client, USER).choices[0].finish_reason == "length"


def test_a_stream_says_the_same() -> None:
    async def read() -> list[Any]:
        _, client = made(f"<think>hm</think>so {CALL}")
        stream = await client.chat.completions.create(
            messages=[USER], stream=True, tools=[TOOL], stream_options={"include_usage": True}
        )
        async with stream:
            return [chunk async for chunk in stream]

    chunks = asyncio.run(read())
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "<think>hm</think>so"
    assert deltas[0].role == "assistant"
    assert [delta.tool_calls[0].function.name for delta in deltas if delta.tool_calls] == ["add"]
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    assert chunks[-1].usage.total_tokens > 0


def test_the_sdks_own_helper_streams() -> None:
    async def read() -> Any:
        _, client = made(f"<think>hm</think>so {CALL}")
        async with client.chat.completions.stream(
            model="m", messages=[USER], tools=[TOOL]
        ) as stream:
            return await stream.get_final_completion()

    message = asyncio.run(read()).choices[0].message
    assert (message.content, message.tool_calls[0].function.name) == ("<think>hm</think>so", "add")


def test_a_client_with_other_options_goes_on_with_the_record() -> None:
    _, client = made("4", "5")
    other = client.with_options(timeout=5, max_retries=1)
    assert (other.timeout, other.max_retries) == (5, 1)
    first, second = ask(client, USER), ask(other, USER)
    other.set_reward(first.id, 0.5)
    client.set_last_reward(1.0)
    rewards = {key: x.reward for key, x in client.export_interactions("individual").items()}
    assert rewards == {first.id: 0.5, second.id: 1.0}


def test_what_cannot_be_answered_says_why() -> None:
    _, client = made("5", engine_max_tokens=10)
    with pytest.raises(RequestError, match="20 tokens") as caught:
        ask(client, USER)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(RequestError, match="n is 2"):
        ask(client, USER, n=2)
    assert client.export_interactions("individual") == {}
    with pytest.raises((RuntimeError, openai.APIConnectionError)) as caught_there:
        asyncio.run(client.embeddings.create(model="m", input="x"))
    # Some versions of the SDK wrap what its transport raises.
    cause = caught_there.value.__cause__ or caught_there.value
    assert "has no server and cannot ask /embeddings" in str(cause)


@pytest.mark.parametrize(
    "options",
    [{"tool_call_parser": "x"}, {"reasoning_parser": "x"}, {"chat_template_type": "x"}],
)
def test_unknown_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'x'; known"):
        made(**options)


def test_what_is_not_to_be_stored_is_answered_and_not_trained_on() -> None:
    _, client = made("4", "5")
    left_out = ask(client, USER, store=False)
    kept = ask(client, USER)
    assert left_out.choices[0].message.content == "4"
    assert list(client._recorder.cache) == [kept.id]


def test_a_text_that_cannot_fit_is_refused_before_it_becomes_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, client = made("4", engine_max_tokens=100)
    monkeypatch.setattr(engine.tokenizer, "apply_chat_template", None, raising=False)
    with pytest.raises(RequestError, match="20,000 characters"):
        ask(client, {"role": "user", "content": "x" * 20_000})


@pytest.mark.parametrize("chat_template_type", ["hf", "concat"])
def test_others_are_answered_while_a_text_becomes_tokens(
    chat_template_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, client = made("4", "5", chat_template_type=chat_template_type)
    render = engine.tokenizer.apply_chat_template
    has_turned = threading.Event()

    def slow(*args: Any, **kwargs: Any) -> Any:
        assert has_turned.wait(5), "the event loop stands still"
        return render(*args, **kwargs)

    async def converse() -> None:
        said = await client.chat.completions.create(messages=[USER])
        monkeypatch.setattr(engine.tokenizer, "apply_chat_template", slow)
        answer = {"role": "assistant", "content": said.choices[0].message.content}
        asyncio.get_running_loop().call_later(0.01, has_turned.set)
        await client.chat.completions.create(messages=[USER, answer, USER])

    asyncio.run(converse())
