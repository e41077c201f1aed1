"""Agents for mathematical problems, written with LangChain (``pip install langchain-openai``)."""

from __future__ import annotations

from typing import Any

from areal.workflow.math_episode import DEFAULT_MAX_TURNS, TOOLS, score

try:
    from langchain_core.messages import BaseMessage, ToolMessage, convert_to_messages
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
except ImportError as error:
    raise ImportError(
        f"this agent needs the package langchain-openai ({error}): pip install 'areal-lite[agents]'"
    ) from error


class MathAgent:
    """Answers once.

    Args:
        **kwargs: Of ``ChatOpenAI``: ``temperature``, ``top_p``, ``max_tokens`` (or
            ``max_completion_tokens``).
    """

    def __init__(self, **kwargs: Any) -> None:
        self.max_turns: int = kwargs.pop("max_turns", DEFAULT_MAX_TURNS)
        max_tokens = kwargs.pop("max_completion_tokens", None)
        self.kwargs = kwargs | ({} if max_tokens is None else {"max_tokens": max_tokens})

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """Answer the messages of a row and return the score of the answer."""
        answer = await self._model(extra_kwargs).ainvoke(convert_to_messages(data["messages"]))
        return await score(str(answer.content), data)

    def _model(self, extra_kwargs: dict[str, Any]) -> ChatOpenAI:
        """Return a client of the episode's proxy; without arguments the environment names it."""
        place = {
            name: extra_kwargs[name] for name in ("base_url", "api_key") if name in extra_kwargs
        }
        if "http_client" in extra_kwargs:
            place["http_async_client"] = extra_kwargs["http_client"]
        # What the proxy refuses once, it refuses again.
        return ChatOpenAI(model="default", max_retries=0, **place, **self.kwargs)


class MathToolAgent(MathAgent):
    """Calculates with tools until it calls none.

    Args:
        **kwargs: As for ``MathAgent``; ``max_turns`` bounds the requests of an episode.
    """

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """Solve the problem of a row and return the score of the last text, 0 without one."""
        tools = {function.__name__: tool(function) for function in TOOLS}
        model = self._model(extra_kwargs).bind_tools(list(tools.values()))
        messages: list[BaseMessage] = convert_to_messages(data["messages"])
        for _ in range(self.max_turns):
            answer = await model.ainvoke(messages)
            if not (answer.tool_calls or answer.invalid_tool_calls):
                return await score(str(answer.content), data)
            messages.append(answer)
            calls = [*answer.tool_calls, *answer.invalid_tool_calls]
            messages += [await _result(tools, call) for call in calls]
        return 0.0


async def _result(tools: dict[str, Any], call: Any) -> ToolMessage:
    """Call a tool; what the model did wrong is for it to read."""
    try:
        return await tools[call["name"]].ainvoke({**call, "type": "tool_call"})
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        text = f"{type(error).__name__}: {error}"
        return ToolMessage(text, tool_call_id=call["id"], status="error")
