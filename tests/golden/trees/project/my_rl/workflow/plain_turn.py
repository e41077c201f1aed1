"""Workflow: one prompt, one completion, one reward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from areal import workflow_context
from areal.api import AsyncRewardWrapper, InferenceEngine, RolloutWorkflow
from areal.api.cli_args import GenerationHyperparameters
from areal.utils import stats_tracker
from areal.utils.dynamic_import import import_from_string
from areal.utils.hf_utils import apply_chat_template, load_hf_tokenizer
from areal.workflow.trajectory import Trajectory, score

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


class PlainTurnWorkflow(RolloutWorkflow):
    """Answer a row's messages once and score the completion.

    Args:
        reward_fn: Called as (prompt, completion, prompt_ids, completion_ids, **row), or a dotted
            path to such a function; it runs in a pool of processes, so it is in a module.
        gconfig: How to sample; each episode draws one sample.
        tokenizer: A tokenizer with a chat template, or the path of one.
        enable_thinking: Passed to the chat template.
    """

    def __init__(
        self,
        reward_fn: Callable[..., float] | str,
        gconfig: GenerationHyperparameters,
        tokenizer: PreTrainedTokenizerBase | str,
        enable_thinking: bool = False,
    ) -> None:
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer).new(n_samples=1)
        self.enable_thinking = enable_thinking
        is_path = isinstance(reward_fn, str)
        self.reward = AsyncRewardWrapper(import_from_string(reward_fn) if is_path else reward_fn)

    def build_messages(self, data: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the conversation that the model is to continue."""
        return list(data["messages"])

    async def arun_episode(
        self, engine: InferenceEngine, data: dict[str, Any]
    ) -> dict[str, torch.Tensor] | None:
        """Run one episode.

        Args:
            engine: Generates the completion.
            data: A row with the column messages and what the reward needs.

        Returns:
            The trajectory, each tensor of shape [1, L] and rewards of shape [1]. An exception,
            of the reward too, rejects the episode; the trainer counts it by name.
        """
        trajectory = Trajectory()
        trajectory.add_prompt(
            apply_chat_template(
                self.tokenizer,
                self.build_messages(data),
                add_generation_prompt=True,
                enable_thinking=self.enable_thinking,
            )
        )
        response = await trajectory.generate(engine, self.gconfig, self.tokenizer)
        reward = await score(self.reward, self.tokenizer, response, data)
        stats_tracker.get(workflow_context.stat_scope()).scalar(reward=reward)
        return trajectory.to_tensors(reward)
