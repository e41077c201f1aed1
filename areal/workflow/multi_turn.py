"""One problem, several attempts: a wrong answer is told so and may be tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from areal.api.errors import ConfigError, TrajectoryError
from areal.api.io_struct import ModelRequest, ModelResponse
from areal.api.workflow_api import GenerationEngine, RolloutWorkflow
from areal.infra import workflow_context
from areal.utils import stats_tracker
from areal.utils.hf_utils import apply_chat_template, load_hf_tokenizer
from areal.utils.latest_prompts import LatestPrompts
from areal.utils.perf_tracer import atrace_session_phase
from areal.workflow.episode import EpisodeReward, RewardCall
from areal.workflow.trajectory import Trajectory

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from areal.api.cli_args import GenerationHyperparameters

FEEDBACK = (
    "That answer is not correct. Look for the mistake, then solve the problem again and give the "
    "final answer in the form that was asked for."
)
# A stand-in for what the model said; it must not occur in any chat template.
_ANSWER_MARK = "\u2063answer-of-the-model\u2063"


class MultiTurnWorkflow(RolloutWorkflow):
    """Asks again, up to ``max_turns`` times, while the reward is 0.

    All attempts are one trajectory with the reward of the last one, discounted once per retry.

    Args:
        reward_fn: Called as ``reward_fn(prompt, completion, prompt_ids, completion_ids, **row)``
            on each attempt; a function, a registered name or a dotted path, looked up at the first
            episode.
        gconfig: How to sample; the tokenizer's pad and end-of-sequence tokens also stop it.
        tokenizer: A tokenizer, or the hub id or folder of one.
        max_turns: How many attempts there are at most.
        turn_discount: In (0, 1]; what each retry multiplies the reward by.
        feedback: The user's reply to a wrong answer.

    Raises:
        ConfigError: ``max_turns`` or ``turn_discount`` is out of range.
    """

    def __init__(
        self,
        reward_fn: Callable[..., Any] | str,
        gconfig: GenerationHyperparameters,
        tokenizer: PreTrainedTokenizerBase | str,
        max_turns: int,
        turn_discount: float,
        feedback: str = FEEDBACK,
    ) -> None:
        if max_turns <= 0:
            raise ConfigError(f"max_turns must be at least 1, but is {max_turns}")
        if not 0 < turn_discount <= 1:
            raise ConfigError(f"turn_discount must lie in (0, 1], but is {turn_discount}")
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer).new(n_samples=1)
        self.max_turns = max_turns
        self.turn_discount = turn_discount
        self.feedback = feedback
        self._reward = EpisodeReward(reward_fn, self.tokenizer)
        self._prompts = LatestPrompts(self.tokenizer)
        self._retry_ids: list[int] | None = None

    @property
    def reward_fn(self) -> Callable[..., Any] | str:
        """The reward as it was given."""
        return self._reward.reward_fn

    @property
    def async_reward_fn(self) -> RewardCall:
        """The wrapped reward; the first look resolves its name. A subclass may set another."""
        return self._reward.wrapper

    @async_reward_fn.setter
    def async_reward_fn(self, async_reward_fn: RewardCall | None) -> None:
        self._reward.wrapper = async_reward_fn

    async def arun_episode(
        self, engine: GenerationEngine, data: dict[str, Any]
    ) -> dict[str, torch.Tensor] | None:
        """Run one episode.

        Returns:
            ``input_ids``, ``loss_mask``, ``versions``, ``turn_ids`` int32 [1, L] (turn -1 on
            prompts and feedback, t on the completion of attempt t); ``logprobs`` float32 [1, L];
            ``attention_mask`` bool [1, L]; ``rewards`` float32 [1]. None if the reward function
            failed.

        Raises:
            TrajectoryError: The engine continued another prompt than it was given.
        """
        messages, trajectory = data["messages"], Trajectory()
        prompt = self._prompts.get(
            repr(messages),
            lambda: apply_chat_template(self.tokenizer, messages, add_generation_prompt=True),
        )
        trajectory.add_prompt(prompt.tokens)
        reward: float | None = 0.0
        for turn in range(self.max_turns):
            response = await self._generate(engine, trajectory)
            trajectory.add_response(response, turn)
            reward = await self._reward.score(response, data)
            if reward is None:
                return None
            if reward != 0 or turn == self.max_turns - 1:
                break
            retry_ids = self._tokens_to_retry(response)
            # A prompt that fills the context leaves no room for another attempt.
            if len(trajectory) + len(retry_ids) >= self.gconfig.max_tokens:
                break
            trajectory.add_prompt(retry_ids)
        reward *= self.turn_discount**turn
        scope = stats_tracker.get(workflow_context.stat_scope())
        scope.scalar(reward=reward, num_turns=turn + 1)
        return trajectory.to_tensors(reward)

    async def _generate(self, engine: GenerationEngine, trajectory: Trajectory) -> ModelResponse:
        """Continue the trajectory so far: its tokens, never its text rendered again.

        A chat template applied to the whole conversation would be simpler, but text does not
        survive the way back to tokens: the model's own split into tokens is lost, and templates
        drop earlier reasoning. The log-probabilities would then belong to a sequence that the
        engine never saw. So each prompt is, token for token, what was given and generated before.
        """
        prompt = list(trajectory.input_ids)
        request = ModelRequest(input_ids=prompt, gconfig=self.gconfig, tokenizer=self.tokenizer)
        async with atrace_session_phase("generate"):
            response = await engine.agenerate(request)
        if response.input_tokens != trajectory.input_ids:
            raise TrajectoryError(
                f"the engine continued {len(response.input_tokens)} prompt tokens that are not "
                f"the {len(trajectory)} it was given; a trajectory of several turns needs the same"
            )
        return response

    def _tokens_to_retry(self, response: ModelResponse) -> list[int]:
        """Return what comes between an answer and the next: its end, feedback, a new turn."""
        if self._retry_ids is None:
            self._retry_ids = self._render_retry()
        output, retry = response.output_tokens, self._retry_ids
        # The template ends a turn itself, and so did the model, unless it ran out of tokens.
        if output and retry and output[-1] == retry[0] == self.tokenizer.eos_token_id:
            return retry[1:]
        return retry

    def _render_retry(self) -> list[int]:
        """Render what the template puts behind an answer when a user's message follows it.

        The rendering is cut at a mark in the answer's place. Comparing two renderings, with and
        without the feedback, would be wrong for templates that write the last answer differently.
        """
        messages = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": _ANSWER_MARK},
            {"role": "user", "content": self.feedback},
        ]
        text = apply_chat_template(
            self.tokenizer, messages, tokenize=False, add_generation_prompt=True
        )
        _, mark, tail = text.partition(_ANSWER_MARK)
        if not mark:
            raise ConfigError("the chat template leaves out what the assistant said before")
        return list(self.tokenizer.encode(tail, add_special_tokens=False))
