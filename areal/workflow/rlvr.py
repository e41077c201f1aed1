"""One prompt, one completion, one verifiable reward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from areal.api.io_struct import ModelRequest
from areal.api.registry import import_from_string
from areal.api.workflow_api import GenerationEngine, RolloutWorkflow
from areal.infra import workflow_context
from areal.utils import stats_tracker
from areal.utils.hf_utils import apply_chat_template, load_hf_tokenizer
from areal.utils.latest_prompts import LatestPrompts, Prompt
from areal.utils.perf_tracer import atrace_session_phase
from areal.workflow.episode import EpisodeReward, RewardCall
from areal.workflow.trajectory import Trajectory

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from areal.api.cli_args import GenerationHyperparameters


def default_get_input_ids_fn(
    prompt: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase, enable_thinking: bool
) -> list[int]:
    """Render messages with the tokenizer's chat template, the assistant's turn opened."""
    return apply_chat_template(
        tokenizer, prompt, add_generation_prompt=True, enable_thinking=enable_thinking
    )


def default_data_extract_prompt_fn(data: dict[str, Any]) -> Any:
    """Return the row's ``messages``."""
    return data["messages"]


class RLVRWorkflow(RolloutWorkflow):
    """Asks once and scores the answer.

    Args:
        reward_fn: Called as ``reward_fn(prompt, completion, prompt_ids, completion_ids, **row)``;
            a function, a registered name ("gsm8k") or a dotted path, looked up at the first
            episode.
        gconfig: How to sample; the tokenizer's pad and end-of-sequence tokens also stop it.
        tokenizer: A tokenizer, or the hub id or folder of one.
        enable_thinking: Passed to the chat template.
        get_input_ids_fn: ``(prompt, tokenizer, enable_thinking) -> token ids``, or its dotted path.
        data_extract_prompt_fn: Row to prompt, or its dotted path.
    """

    def __init__(
        self,
        reward_fn: Callable[..., Any] | str,
        gconfig: GenerationHyperparameters,
        tokenizer: PreTrainedTokenizerBase | str,
        enable_thinking: bool = False,
        get_input_ids_fn: Callable[..., list[int]] | str = default_get_input_ids_fn,
        data_extract_prompt_fn: Callable[[dict[str, Any]], Any]
        | str = default_data_extract_prompt_fn,
    ) -> None:
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        # One request is one sample; the executor runs a workflow once per sample of a group.
        self.gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer).new(n_samples=1)
        self.enable_thinking = enable_thinking
        self.get_input_ids_fn = _function(get_input_ids_fn)
        self._prompts = LatestPrompts(self.tokenizer)
        self.data_extract_prompt_fn = _function(data_extract_prompt_fn)
        self._reward = EpisodeReward(reward_fn, self.tokenizer)

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
            ``input_ids``, ``loss_mask``, ``versions``, ``turn_ids`` int32 [1, L] (turn -1 on the
            prompt, 0 on the completion); ``logprobs`` float32 [1, L]; ``attention_mask`` bool
            [1, L]; ``rewards`` float32 [1]. None if the reward function failed.
        """
        prompt = self._tokenized(self.data_extract_prompt_fn(data))
        # Engines copy what they change, so all requests may share one gconfig.
        request = ModelRequest(
            input_ids=list(prompt.tokens), gconfig=self.gconfig, tokenizer=self.tokenizer
        )
        async with atrace_session_phase("generate"):
            response = await engine.agenerate(request)
        text = prompt.text_of(response.input_tokens)
        reward = await self._reward.score(response, data, prompt=text)
        if reward is None:
            return None
        stats_tracker.get(workflow_context.stat_scope()).scalar(reward=reward)
        trajectory = Trajectory()
        trajectory.add_prompt(response.input_tokens)
        trajectory.add_response(response, turn=0)
        return trajectory.to_tensors(reward)

    def _tokenized(self, prompt: Any) -> Prompt:
        make, settings = self.get_input_ids_fn, (self.tokenizer, self.enable_thinking)
        if make is not default_get_input_ids_fn:
            # What somebody else wrote may give other tokens each time.
            return Prompt(list(make(prompt, *settings)))
        key = (repr(prompt), self.enable_thinking)
        return self._prompts.get(key, lambda: make(prompt, *settings))


def _function(given: Callable[..., Any] | str) -> Callable[..., Any]:
    return import_from_string(given) if isinstance(given, str) else given
