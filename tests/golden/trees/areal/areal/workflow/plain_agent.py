"""Agent: answers through the OpenAI SDK, reads feedback and tries again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openai import AsyncOpenAI

from areal.api import AsyncRewardWrapper
from areal.utils.dynamic_import import import_from_string


class PlainAgentWorkflow:
    """Answer a row's messages until the reward is positive or the turns are used up.

    It knows no tokens: the trainer's proxy records them, and any OpenAI-compatible server will do.

    Args:
        reward_fn: Called as (prompt, completion, prompt_ids, completion_ids, **row), with no ids in
            either list, or a dotted path to such a function; it runs in a pool of processes, so it
            is in a module.
        max_turns: Completions per episode, at least 1.
        **sampling: Goes with every request, such as max_completion_tokens; what is left out is
            sampled by the trainer's gconfig.
    """

    def __init__(
        self,
        reward_fn: Callable[..., float] | str,
        max_turns: int = 2,
        **sampling: Any,
    ) -> None:
        if max_turns < 1:
            raise ValueError(f"{max_turns=} must be at least 1")
        self.reward_fn = reward_fn
        self.max_turns = max_turns
        self.sampling = sampling
        # Made in the process where the agent runs, which may be another one.
        self.reward: AsyncRewardWrapper | None = None

    def build_messages(self, data: dict[str, Any]) -> list[Any]:
        """Return the conversation that the model is to continue."""
        return list(data["messages"])

    def feedback(self, data: dict[str, Any], completion: str, turn: int) -> str:
        """Say what the model reads after a wrong answer; turns count from 0."""
        # YOURS: say what the model reads after a wrong answer, without giving it away
        return "Your answer is wrong. Think again and answer once more."

    async def score(self, data: dict[str, Any], messages: list[Any], completion: str) -> float:
        """Return the reward of a completion."""
        if self.reward is None:
            is_path = isinstance(self.reward_fn, str)
            reward_fn = import_from_string(self.reward_fn) if is_path else self.reward_fn
            self.reward = AsyncRewardWrapper(reward_fn)
        prompt = "\n".join(str(message["content"]) for message in messages)
        # After a time-out the wrapper may say 0, which is no float.
        return float(await self.reward(prompt, completion, [], [], **data))

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """Run one episode.

        Args:
            data: A row with the column messages and what the reward needs.
            **extra_kwargs: Where the trainer runs the agent in its own process, base_url, api_key
                and http_client; else the SDK reads OPENAI_BASE_URL and OPENAI_API_KEY.

        Returns:
            The reward of the last completion. An exception, of the reward too, rejects the episode;
            the trainer counts it by name.
        """
        http_client = extra_kwargs.get("http_client")
        client = AsyncOpenAI(
            base_url=extra_kwargs.get("base_url"),
            api_key=extra_kwargs.get("api_key"),
            http_client=http_client,
            max_retries=0,  # a second request would be a second sample
        )
        try:
            return await self.converse(client, data)
        finally:
            if http_client is None:  # else all agents share it
                await client.close()

    async def converse(self, client: AsyncOpenAI, data: dict[str, Any]) -> float:
        """Run the turns of an episode and return the reward of the last one."""
        messages = self.build_messages(data)
        for turn in range(self.max_turns):
            answer = await client.chat.completions.create(
                model="default", messages=messages, **self.sampling
            )
            completion = answer.choices[0].message.content or ""
            reward = await self.score(data, messages, completion)
            if reward > 0 or turn + 1 == self.max_turns:
                break
            messages += [
                {"role": "assistant", "content": completion},
                {"role": "user", "content": self.feedback(data, completion, turn)},
            ]
        return reward
