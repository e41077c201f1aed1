"""Anthropic's Messages API in terms of chat completions: text, tool calls and their results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from areal.experimental.openai.errors import RequestError, refusing_malformed
from areal.experimental.openai.left_out import leave_out

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

_RENAMED = {"stop_sequences": "stop"}
_SAME = ("max_tokens", "model", "temperature", "top_k", "top_p")
_IGNORED = ("metadata", "service_tier", "stream")
_STOP_REASONS = {"length": "max_tokens", "stop": "end_turn", "tool_calls": "tool_use"}


def to_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the chat completion that a request amounts to.

    Raises:
        RequestError: A parameter or a content is of a kind that there is not.
    """
    with refusing_malformed("the request"):
        return _to_chat(body)


def _to_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    chat: dict[str, Any] = {"messages": _messages(body)}
    for name, value in body.items():
        if name in _SAME or name in _RENAMED:
            chat[_RENAMED.get(name, name)] = value
        elif name == "tools":
            chat["tools"] = [_tool(tool) for tool in value]
        elif name == "tool_choice":
            chat["tool_choice"] = value.get("type") if isinstance(value, dict) else value
        elif name == "thinking":
            if value.get("type") != "disabled":
                leave_out(name, "the chat template decides it")
        elif name not in ("messages", "system", *_IGNORED):
            leave_out(name, "nothing here honours it")
    return chat


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if body.get("system"):
        messages.append({"role": "system", "content": _plain_text(body["system"], "system")})
    given = body.get("messages")
    if not isinstance(given, list):
        raise RequestError("messages must be a list", param="messages")
    for i, message in enumerate(given):
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            messages += _blocks(message.get("role"), content, f"messages[{i}]")
        else:
            messages.append({"role": message.get("role"), "content": content})
    return messages


def _blocks(role: Any, blocks: list[Any], where: str) -> Iterator[dict[str, Any]]:
    """Yield the messages that one message with blocks amounts to; results come first."""
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text":
            texts.append(block["text"])
        elif kind == "tool_use":
            function = {"name": block["name"], "arguments": json.dumps(block.get("input", {}))}
            calls.append({"id": block["id"], "type": "function", "function": function})
        elif kind == "tool_result":
            output = _plain_text(block.get("content") or "", where)
            yield {"role": "tool", "content": output, "tool_call_id": block["tool_use_id"]}
        elif kind not in ("thinking", "redacted_thinking"):
            raise RequestError(f"{where} has content of type {kind!r}", param=where)
    if texts or calls:
        message: dict[str, Any] = {"role": role, "content": "".join(texts)}
        yield message | ({"tool_calls": calls} if calls else {})


def _plain_text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    texts = [
        block["text"]
        for block in content
        if isinstance(block, dict) and block.get("type") == "text"
    ]
    if len(texts) != len(content):
        raise RequestError(f"{where} holds content that is not text", param=where)
    return "".join(texts)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {
        "name": tool.get("name"),
        "description": tool.get("description", ""),
        "parameters": tool.get("input_schema", {}),
    }
    return {"type": "function", "function": function}


def from_chat(completion: ChatCompletion) -> dict[str, Any]:
    """Return the message as Anthropic's servers give it; its id is the interaction's."""
    plain = completion.model_dump(exclude_none=True)
    choice = plain["choices"][0]
    said = choice["message"]
    blocks: list[dict[str, Any]] = []
    if said.get("content") or not said.get("tool_calls"):
        blocks.append({"type": "text", "text": said.get("content") or ""})
    for call in said.get("tool_calls", ()):
        function = call["function"]
        blocks.append(
            {
                "type": "tool_use",
                "id": call["id"],
                "name": function["name"],
                "input": _arguments(function["arguments"]),
            }
        )
    usage = plain["usage"]
    return {
        "id": plain["id"],
        "type": "message",
        "role": "assistant",
        "model": plain["model"],
        "content": blocks,
        "stop_reason": _STOP_REASONS[choice["finish_reason"]],
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage["completion_tokens"],
        },
    }


def _arguments(text: str) -> Any:
    """Return the arguments of a call, which a model may write as it likes."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def events_of(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream that brings a finished message."""
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None}
    start["usage"] = {**usage, "output_tokens": 0}
    yield {"type": "message_start", "message": start}
    for i, block in enumerate(message["content"]):
        is_text = block["type"] == "text"
        empty = {**block, "text": ""} if is_text else {**block, "input": {}}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if is_text
            else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        )
        yield {"type": "content_block_start", "index": i, "content_block": empty}
        yield {"type": "content_block_delta", "index": i, "delta": delta}
        yield {"type": "content_block_stop", "index": i}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {
        "type": "message_delta",
        "delta": end,
        "usage": {"output_tokens": usage["output_tokens"]},
    }
    yield {"type": "message_stop"}
