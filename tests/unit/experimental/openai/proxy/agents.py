"""Agents that answer right, and some that do not."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from openai import AsyncOpenAI


class AddingAgent:
    """Asks until it reads a 5; its reward is a float.

    Args:
        max_turns: Completions at most.
    """

    def __init__(self, max_turns: int = 2) -> None:
        self.max_turns = max_turns

    async def run(self, data: dict[str, Any], **extra: Any) -> Any:
        client = AsyncOpenAI(
            base_url=extra.get("base_url"),
            api_key=extra.get("api_key"),
            http_client=extra.get("http_client"),
        )
        messages = list(data["messages"])
        answer = ""
        for _ in range(self.max_turns):
            completion = await client.chat.completions.create(model="default", messages=messages)
            answer = completion.choices[0].message.content or ""
            if "5" in answer:
                break
            messages += [completion.choices[0].message, {"role": "user", "content": "no"}]
        return self.result(float("5" in answer), completion.id)

    def result(self, reward: float, last_id: str) -> Any:
        return reward


class ClosingAgent(AddingAgent):
    """Closes the client that it shares with other agents."""

    async def run(self, data: dict[str, Any], **extra: Any) -> Any:
        reward = await super().run(data, **extra)
        await extra["http_client"].aclose()
        return reward


class ReturningAgent(AddingAgent):
    """Returns whatever it is told; "id" stands for the id of the last answer."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def result(self, reward: float, last_id: str) -> Any:
        if isinstance(self.value, dict):
            return {last_id if key == "id" else key: each for key, each in self.value.items()}
        return self.value


class SilentAgent:
    """Never asks."""

    async def run(self, data: dict[str, Any], **extra: Any) -> float:
        return 1.0


class RaisingAgent(AddingAgent):
    """Raises after its answer."""

    def result(self, reward: float, last_id: str) -> Any:
        raise KeyError("gold")


class RefusedAgent:
    """Asks for what the proxy refuses."""

    async def run(self, data: dict[str, Any], **extra: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra.get("base_url"),
            api_key=extra.get("api_key"),
            http_client=extra.get("http_client"),
        )
        await client.chat.completions.create(model="m", messages=data["messages"], n=2)
        return 1.0


class ExitingAgent:
    """Ends its process."""

    async def run(self, data: dict[str, Any], **extra: Any) -> float:
        os._exit(3)


class HangingAgent:
    """Never ends."""

    async def run(self, data: dict[str, Any], **extra: Any) -> float:
        await asyncio.sleep(1000)
        return 1.0
