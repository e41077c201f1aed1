"""The Responses API in terms of chat completions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from areal.experimental.openai.cache import InteractionCache
from areal.experimental.openai.errors import RequestError, refusing_malformed
from areal.experimental.openai.left_out import leave_out
from areal.experimental.openai.messages import Message, content_text, to_plain
from areal.experimental.openai.parsing import ParsedText
from areal.experimental.openai.types import InteractionWithTokenLogpReward

if TYPE_CHECKING:
    from openai.types.responses import Response

_RENAMED = {"max_output_tokens": "max_completion_tokens"}
_HANDLED = ("input", "instructions", "previous_response_id", "tools")
# With the values that ask for nothing; another answer than the client expects would be the wrong
# one.
_REFUSED: dict[str, tuple[Any, ...]] = {"background": (False,), "stream": (False,)}
# With the values that ask for nothing; others are left out.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "include": ([],),
    "text": ({"format": {"type": "text"}}, {}),
    "truncation": ("disabled",),
}


def to_chat(params: Mapping[str, Any], cache: InteractionCache) -> dict[str, Any]:
    """Return the parameters of the chat completion that a Responses request amounts to.

    Args:
        params: Of ``responses.create``; None is unset.
        cache: Where a previous response is looked up.

    Raises:
        RequestError: An item or a tool is of a kind that there is not, or the previous response is
            unknown.
    """
    with refusing_malformed("the request"):
        given = {key: to_plain(value) for key, value in params.items() if value is not None}
        return _to_chat(given, cache)


def _to_chat(given: dict[str, Any], cache: InteractionCache) -> dict[str, Any]:
    for name, neutral in _NEUTRAL.items():
        value = given.pop(name, None)
        if value is not None and value not in neutral:
            leave_out(name, "nothing here honours it")
    for name, neutral in _REFUSED.items():
        value = given.pop(name, None)
        if value is not None and value not in neutral:
            raise RequestError(f"{name} is {value!r}; only {neutral[0]!r} is supported", param=name)
    chat = {_RENAMED.get(k, k): v for k, v in given.items() if k not in _HANDLED}
    messages = _previous(given.get("previous_response_id"), cache)
    if given.get("instructions"):
        messages.insert(0, {"role": "system", "content": given["instructions"]})
    _add_items(messages, given.get("input"))
    chat["messages"] = messages
    if given.get("tools"):
        chat["tools"] = [_tool(tool) for tool in given["tools"]]
    return chat


def _previous(response_id: str | None, cache: InteractionCache) -> list[Message]:
    if response_id is None:
        return []
    if response_id not in cache:
        raise RequestError(
            f"there is no response {response_id!r}", status=404, param="previous_response_id"
        )
    previous = cache[response_id]
    said = [*previous.messages, *(previous.output_message_list or ())]
    # Instructions hold for one request and are not carried over.
    had_instructions = previous.response is not None and bool(previous.response.instructions)
    return said[1:] if had_instructions else said


def _add_items(messages: list[Message], items: Any) -> None:
    """Append the input, which is a text or a list of items."""
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise RequestError("input must be a string or a list of items", param="input")
    reasoning = ""
    for i, item in enumerate(items):
        kind = item.get("type", "message") if isinstance(item, dict) else type(item).__name__
        if kind == "message":
            message = {"role": item.get("role"), "content": item.get("content")}
        elif kind == "function_call":
            _add_call(messages, item, reasoning)
            reasoning = ""
            continue
        elif kind == "function_call_output":
            output = content_text(item.get("output"), f"input[{i}]")
            message = {"role": "tool", "content": output, "tool_call_id": item.get("call_id")}
        elif kind == "reasoning":
            reasoning = "".join(part.get("text", "") for part in item.get("content") or ())
            continue
        else:
            raise RequestError(f"input[{i}] is of type {kind!r}, which is not supported")
        if reasoning and message["role"] == "assistant":
            message["reasoning_content"], reasoning = reasoning, ""
        messages.append(message)


def _add_call(messages: list[Message], item: Mapping[str, Any], reasoning: str) -> None:
    """Add a tool call to the assistant's message that it belongs to."""
    if not messages or messages[-1]["role"] != "assistant":
        opened: Message = {"role": "assistant", "content": ""}
        messages.append(opened | ({"reasoning_content": reasoning} if reasoning else {}))
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    call = {"id": item.get("call_id"), "type": "function", "function": function}
    last = messages[-1] = dict(messages[-1])
    last["tool_calls"] = [*last.get("tool_calls", ()), call]


def _tool(tool: Any) -> dict[str, Any]:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise RequestError("only tools of type 'function' are supported", param="tools")
    return {
        "type": "function",
        "function": {k: v for k, v in tool.items() if k not in ("type", "strict")},
    }


def build_response(
    interaction: InteractionWithTokenLogpReward, parsed: ParsedText, params: Mapping[str, Any]
) -> Response:
    """Return the answer as the Responses API gives it."""
    from openai.types.responses import Response

    answer = interaction.model_response
    assert answer is not None
    model = params.get("model")
    return Response.construct(
        id=f"resp_{uuid.uuid4().hex}",
        object="response",
        created_at=float(int(time.time())),
        model=model if isinstance(model, str) else "default",
        # Also where it was cut off: agents take an incomplete answer for a failure.
        status="completed",
        incomplete_details=None,
        instructions=params.get("instructions"),
        previous_response_id=params.get("previous_response_id"),
        output=_output(parsed),
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=to_plain(params.get("tools") or []),
        metadata=params.get("metadata") or {},
        error=None,
        usage={
            "input_tokens": answer.input_len,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": answer.output_len,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.input_len + answer.output_len,
        },
    )


def _output(parsed: ParsedText) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if parsed.reasoning:
        text = {"type": "reasoning_text", "text": parsed.reasoning}
        items.append({"id": _new_id("rs"), "type": "reasoning", "summary": [], "content": [text]})
    if parsed.content or not parsed.tool_calls:
        text = {"type": "output_text", "text": parsed.content, "annotations": []}
        message = {"type": "message", "role": "assistant", "content": [text], "status": "completed"}
        items.append({"id": _new_id("msg"), **message})
    items += [
        {
            "id": _new_id("fc"),
            "type": "function_call",
            "call_id": call["id"],
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
            "status": "completed",
        }
        for call in parsed.tool_calls
    ]
    return items


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"
