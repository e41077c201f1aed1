"""From the text that a model wrote to reasoning, tool calls and the words for the reader."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from typing import Any

_OPEN, _CLOSE = "<think>", "</think>"
# Source: the format that the chat templates of Qwen 2.5 and Qwen 3 ask for.
_TOOL_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)

REASONING_PARSERS = ("qwen3", "deepseek-r1", "")
TOOL_CALL_PARSERS = ("qwen", "qwen25", "hermes", "")


@dataclass(frozen=True)
class ParsedText:
    """What a model wrote, taken apart."""

    content: str
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)


def check_parsers(tool_call_parser: str, reasoning_parser: str) -> None:
    """Refuse names of parsers that there are not; an empty name turns parsing off.

    Raises:
        ValueError: Lists the names there are.
    """
    for name, kind, known in (
        (tool_call_parser, "tool_call_parser", TOOL_CALL_PARSERS),
        (reasoning_parser, "reasoning_parser", REASONING_PARSERS),
    ):
        if name not in known:
            raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(known[:-1])}, or ''")


def parse_text(
    text: str, *, has_reasoning: bool, has_tools: bool, separates_reasoning: bool = False
) -> ParsedText:
    """Take a completion apart.

    Args:
        text: Without the tokens that ended it.
        has_reasoning: Look for ``<think>``; what is called in there is no tool call.
        has_tools: Look for ``<tool_call>``.
        separates_reasoning: The reasoning does not stay in the content.
    """
    reasoning, said = _split_reasoning(text) if has_reasoning else ("", text)
    calls: list[dict[str, Any]] = []

    def take(match: re.Match[str]) -> str:
        call = _tool_call(match[1])
        if call is None:
            return match[0]  # no call after all; the reader may see why
        calls.append(call)
        return ""

    rest = _TOOL_CALL.sub(take, said) if has_tools else said
    rest = rest.strip() if calls else rest
    if separates_reasoning:
        return ParsedText(rest, reasoning, calls)
    return ParsedText(text[: len(text) - len(said)] + rest, "", calls)


def _split_reasoning(text: str) -> tuple[str, str]:
    """Split at ``</think>``; the opening may be in the prompt, the end may never have come."""
    before, end, after = text.partition(_CLOSE)
    if end:
        return before.replace(_OPEN, "", 1).strip("\n"), after.lstrip("\n")
    if text.lstrip().startswith(_OPEN):
        return text.lstrip()[len(_OPEN) :].strip("\n"), ""
    return "", text


def _tool_call(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found.get("name"), str):
        return None
    arguments = found.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    function = {"name": found["name"], "arguments": arguments}
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}
