"""Messages of a conversation: from whatever a client sends to plain dicts with text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from areal.experimental.openai.errors import RequestError

Message = dict[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool")
_TEXT_PARTS = ("text", "input_text", "output_text")
_KEPT = ("name", "tool_call_id", "reasoning_content")


def to_plain(value: Any) -> Any:
    """Return dicts and list for the SDK's objects, however deep they are."""
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude_none=True)
    if isinstance(value, Mapping):
        return {key: to_plain(each) for key, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [to_plain(each) for each in value]
    return value


def parse_messages(messages: Any) -> list[Message]:
    """Return messages with text contents, ready for comparing and for a chat template.

    Args:
        messages: Dicts or objects of the SDK.

    Raises:
        RequestError: There are none, a role is unknown, or a content is not text.
    """
    plain = to_plain(messages)
    if not isinstance(plain, list) or not plain:
        raise RequestError("messages must be a list with at least one message", param="messages")
    return [_parse(message, f"messages[{i}]") for i, message in enumerate(plain)]


def _parse(message: Any, where: str) -> Message:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ROLES:
        raise RequestError(f"{where} has the role {role!r}; known: {', '.join(ROLES)}", param=where)
    # Templates know no developer, who is the system under another name.
    parsed: Message = {"role": "system" if role == "developer" else role}
    parsed["content"] = content_text(message.get("content"), where)
    parsed |= {key: message[key] for key in _KEPT if message.get(key)}
    if message.get("tool_calls"):
        parsed["tool_calls"] = [_parse_call(call, where) for call in message["tool_calls"]]
    return parsed


def content_text(content: Any, where: str) -> str:
    """Return the text of a content, which may be None, a string or a list of parts.

    Raises:
        RequestError: A part is no text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        if kind not in _TEXT_PARTS:
            raise RequestError(
                f"{where} has content of type {kind!r}; only text can be trained on", param=where
            )
        texts.append(part["text"])
    return "".join(texts)


def _parse_call(call: Any, where: str) -> Message:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise RequestError(f"{where} has a tool call without a function", param=where)
    arguments = function.get("arguments") or "{}"
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    named = {"name": function["name"], "arguments": arguments}
    return {"id": call.get("id") or "", "type": "function", "function": named}


def for_template(messages: Sequence[Message]) -> list[Message]:
    """Return messages as chat templates take them: the arguments of a tool call as a dict."""
    rendered = []
    for message in messages:
        if "tool_calls" in message:
            calls = [
                {**call, "function": {**call["function"], "arguments": _arguments(call)}}
                for call in message["tool_calls"]
            ]
            message = {**message, "tool_calls": calls}
        rendered.append(message)
    return rendered


def _arguments(call: Message) -> Any:
    text = call["function"]["arguments"]
    try:
        return json.loads(text)
    except ValueError:  # what a model wrote need not be JSON
        return text


# --- comparing ----------------------------------------------------------------------------------


def comparable(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """Return what two conversations must share to be one.

    Clients send messages back in their own way: without the reasoning, or with other spaces in the
    arguments of a tool call.
    """
    return [
        (
            message["role"],
            message["content"],
            message.get("name"),
            message.get("tool_call_id"),
            tuple(
                (call["function"]["name"], json.dumps(_arguments(call), sort_keys=True))
                for call in message.get("tool_calls", ())
            ),
        )
        for message in messages
    ]


def is_prefix(start: Sequence[Any], whole: Sequence[Any]) -> bool:
    """Return whether a sequence begins with another."""
    return len(start) <= len(whole) and list(whole[: len(start)]) == list(start)
