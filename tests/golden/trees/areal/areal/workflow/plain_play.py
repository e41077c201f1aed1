"""Workflow: the model plays an environment that it reads and answers as text."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium

from areal import workflow_context
from areal.api import InferenceEngine, RolloutWorkflow
from areal.api.cli_args import GenerationHyperparameters
from areal.utils import stats_tracker
from areal.utils.dynamic_import import import_from_string
from areal.utils.hf_utils import apply_chat_template, load_hf_tokenizer
from areal.workflow.trajectory import Trajectory, next_turn_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NO_ACTION = "That is no valid action. Write one that is."


class PlainPlayWorkflow(RolloutWorkflow):
    """Play one episode of an environment; its turns are one trajectory.

    Args:
        gconfig: How to sample each turn.
        tokenizer: A tokenizer with a chat template, or the path of one.
        env: A Gymnasium id, a callable that makes an environment, or a dotted path to one.
        env_kwargs: What the environment is made with.
        system_prompt: Read before the first observation; empty for none.
        max_turns: Completions per episode, at least 1.
        turn_discount: Multiplies a reward once per turn before it, in (0, 1].
    """

    def __init__(
        self,
        gconfig: GenerationHyperparameters,
        tokenizer: PreTrainedTokenizerBase | str,
        env: Callable[..., gymnasium.Env] | str,
        env_kwargs: dict[str, Any] | None = None,
        system_prompt: str = "",
        max_turns: int = 8,
        turn_discount: float = 1.0,
    ) -> None:
        if max_turns < 1 or not 0 < turn_discount <= 1:
            raise ValueError(f"{max_turns=} must be at least 1, {turn_discount=} in (0, 1]")
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer).new(n_samples=1)
        if isinstance(env, str):
            is_path = "." in env and env.replace(".", "_").isidentifier()
            env = import_from_string(env) if is_path else functools.partial(gymnasium.make, env)
        self.make_env = functools.partial(env, **(env_kwargs or {}))
        self.preface = [{"role": "system", "content": system_prompt}] if system_prompt else []
        self.max_turns, self.turn_discount = max_turns, turn_discount

    def describe(self, observation: Any) -> str:
        """Say what the model reads about an observation."""
        # YOURS: put an observation into words; text can stay as it is
        return str(observation)

    def read_action(self, completion: str, space: gymnasium.Space) -> Any:
        """Return the action that a completion names; what is not in the space is none."""
        # YOURS: read an action; this serves spaces of text and of numbered actions
        if isinstance(space, gymnasium.spaces.Discrete):
            numbers = re.findall(r"(?<!\d)-?\d{1,18}(?!\d)", completion)
            return int(numbers[-1]) if numbers else None
        return completion.strip()

    async def play(
        self, engine: InferenceEngine, env: gymnasium.Env, data: dict[str, Any]
    ) -> tuple[Trajectory, list[float]]:
        """Return what was read and generated, and what each turn earned."""
        reset = functools.partial(env.reset, seed=data["seed"], options=data.get("options"))
        observation, _ = await asyncio.to_thread(reset)
        messages = [*self.preface, {"role": "user", "content": self.describe(observation)}]
        trajectory, rewards = Trajectory(), list[float]()
        trajectory.add_prompt(
            apply_chat_template(self.tokenizer, messages, add_generation_prompt=True)
        )
        while True:
            response = await trajectory.generate(engine, self.gconfig, self.tokenizer)
            completion = self.tokenizer.decode(response.output_tokens, skip_special_tokens=True)
            action = self.read_action(completion, env.action_space)
            is_action, reward, is_over = env.action_space.contains(action), 0.0, False
            if is_action:
                step = await asyncio.to_thread(env.step, action)
                observation, reward, terminated, truncated, _ = step
                is_over = terminated or truncated
            rewards.append(float(reward))
            if is_over or len(rewards) == self.max_turns:
                return trajectory, rewards
            text = self.describe(observation) if is_action else NO_ACTION
            reply = {"role": "user", "content": text}
            ids = next_turn_ids(self.tokenizer, [reply], trajectory.input_ids[-1])
            if len(trajectory) + len(ids) >= self.gconfig.max_tokens:
                return trajectory, rewards  # no room for another completion
            trajectory.add_prompt(ids)

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> dict[str, Any]:
        """Run one episode, the environment in threads: a slow one holds up no other episode.

        Args:
            engine: Generates the completions.
            data: A row with the column seed and, for environments that take them, options.

        Returns:
            The trajectory, each tensor of shape [1, L] and rewards of shape [1]; completions are
            trained on, the rest is not. An exception, the environment's too, rejects the episode.
        """
        making = asyncio.create_task(asyncio.to_thread(self.make_env))
        try:
            trajectory, rewards = await self.play(engine, await asyncio.shield(making), data)
        finally:
            await asyncio.to_thread((await making).close)
        reward = rewards[-1] * self.turn_discount ** (len(rewards) - 1)
        scope = stats_tracker.get(workflow_context.stat_scope())
        scope.scalar(reward=reward, num_turns=len(rewards))
        return trajectory.to_tensors(reward)
