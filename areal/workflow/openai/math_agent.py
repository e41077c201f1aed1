"""Agents for mathematical problems, written with OpenAI's SDK and with its Agents SDK.

They know nothing of training: a proxy takes the place of OpenAI's servers and keeps their tokens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from areal.workflow.math_episode import DEFAULT_MAX_TURNS, FEEDBACK, TOOLS, score

try:
    from openai import AsyncOpenAI
except ImportError as error:
    raise ImportError(
        f"this agent needs the package openai ({error}): pip install 'areal-lite[agents]'"
    ) from error


class MathAgent:
    """Answers once.

    Args:
        **kwargs: Of each request: ``temperature``, ``top_p``, ``max_tokens``,
            ``max_completion_tokens``.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.pop("max_turns", None)
        self.max_turns = 1
        self.kwargs = kwargs

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """Answer the messages of a row and return the score of the last answer."""
        messages = list(data["messages"])
        reward = 0.0
        async with connect(extra_kwargs) as client:
            for turn in range(self.max_turns):
                completion = await client.chat.completions.create(
                    model="default", messages=messages, **self.kwargs
                )
                message = completion.choices[0].message
                reward = await score(message.content, data)
                if reward == 1.0 or turn + 1 == self.max_turns:
                    break
                messages += [
                    message.model_dump(exclude_none=True),
                    {"role": "user", "content": FEEDBACK},
                ]
        return reward


class MultiTurnMathAgent(MathAgent):
    """Tries again after a wrong answer.

    Args:
        **kwargs: As for ``MathAgent``; ``max_turns`` bounds the answers.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_turns = kwargs.get("max_turns", DEFAULT_MAX_TURNS)


class MathToolAgent:
    """Calculates with tools, in the loop of the Agents SDK (``pip install openai-agents``).

    Args:
        **kwargs: ``temperature``, ``top_p``, ``max_tokens`` (or ``max_completion_tokens``) of each
            request; ``max_turns`` bounds the requests of an episode.
    """

    def __init__(self, **kwargs: Any) -> None:
        self.max_turns: int = kwargs.pop("max_turns", DEFAULT_MAX_TURNS)
        max_tokens = kwargs.pop("max_completion_tokens", None)
        self.kwargs = kwargs | ({} if max_tokens is None else {"max_tokens": max_tokens})

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """Solve the problem of a row and return the score of the final output, 0 without one."""
        # Optional, and the other agents of this module do without.
        from agents import (
            Agent,
            MaxTurnsExceeded,
            ModelSettings,
            OpenAIProvider,
            RunConfig,
            Runner,
            function_tool,
        )

        agent = Agent(name="Math", model="default", tools=[function_tool(tool) for tool in TOOLS])
        async with connect(extra_kwargs) as client:
            try:
                result = await Runner.run(
                    agent,
                    list(data["messages"]),
                    max_turns=self.max_turns,
                    run_config=RunConfig(
                        model_provider=OpenAIProvider(openai_client=client),
                        model_settings=ModelSettings(**self.kwargs),
                        tracing_disabled=True,
                    ),
                )
            except MaxTurnsExceeded:
                return 0.0
        return await score(str(result.final_output), data)


@asynccontextmanager
async def connect(extra_kwargs: dict[str, Any]) -> AsyncIterator[AsyncOpenAI]:
    """Give a client of the episode's proxy; without arguments the environment names it."""
    client = AsyncOpenAI(
        base_url=extra_kwargs.get("base_url"),
        api_key=extra_kwargs.get("api_key"),
        http_client=extra_kwargs.get("http_client"),
        # What the proxy refuses once, it refuses again.
        max_retries=0,
    )
    try:
        yield client
    finally:
        # One that is shared by all episodes stays open.
        if extra_kwargs.get("http_client") is None:
            await client.close()
