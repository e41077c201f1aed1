"""Workflow: one prompt, one completion, one reward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from areal import workflow_context
from areal.api import AsyncRewardWrapper, InferenceEngine, ModelRequest, RolloutWorkflow
from areal.api.cli_args import GenerationHyperparameters
from areal.utils import stats_tracker
from areal.utils.dynamic_import import import_from_string
from areal.utils.hf_utils import apply_chat_template, load_hf_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SYSTEM_PROMPT = 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""'


class ToldWorkflow(RolloutWorkflow):
    """Answers a row's messages once and scores the completion.

    Args:
        reward_fn: Called as (prompt, completion, prompt_ids, completion_ids, **row), or a dotted
            path to such a function; it runs in a pool of processes, so it stands in a module.
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
        gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer)
        self.gconfig = gconfig.new(n_samples=1)
        self.enable_thinking = enable_thinking
        is_path = isinstance(reward_fn, str)
        self.reward = AsyncRewardWrapper(import_from_string(reward_fn) if is_path else reward_fn)

    def build_messages(self, data: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the conversation that the model is to continue."""
        return [{"role": "system", "content": SYSTEM_PROMPT}, *data["messages"]]

    async def arun_episode(
        self, engine: InferenceEngine, data: dict[str, Any]
    ) -> dict[str, torch.Tensor] | None:
        """Runs one episode.

        Args:
            engine: Generates the completion.
            data: A row with the column messages and what the reward needs.

        Returns:
            The trajectory, each tensor of shape [1, L] and rewards of shape [1]. An exception,
            of the reward too, rejects the episode; the trainer counts it by name.
        """
        prompt_ids = apply_chat_template(
            self.tokenizer,
            self.build_messages(data),
            add_generation_prompt=True,
            enable_thinking=self.enable_thinking,
        )
        request = ModelRequest(
            input_ids=list(prompt_ids), gconfig=self.gconfig, tokenizer=self.tokenizer
        )
        response = await engine.agenerate(request)
        reward = await self.reward(
            self.tokenizer.decode(response.input_tokens),
            self.tokenizer.decode(response.output_tokens, skip_special_tokens=True),
            response.input_tokens,
            response.output_tokens,
            **data,
        )
        stats_tracker.get(workflow_context.stat_scope()).scalar(reward=reward)

        # On the prompt: no loss, log-probability 0, version and turn -1.
        prompt, output = response.input_len, response.output_len
        tokens = response.input_tokens + response.output_tokens
        logprobs = [0.0] * prompt + response.output_logprobs
        versions = [-1] * prompt + response.output_versions
        return {
            "input_ids": torch.tensor([tokens], dtype=torch.int32),
            "attention_mask": torch.ones(1, len(tokens), dtype=torch.bool),
            "loss_mask": torch.tensor([[0] * prompt + [1] * output], dtype=torch.int32),
            "logprobs": torch.tensor([logprobs], dtype=torch.float32),
            "versions": torch.tensor([versions], dtype=torch.int32),
            "turn_ids": torch.tensor([[-1] * prompt + [0] * output], dtype=torch.int32),
            "rewards": torch.tensor([reward], dtype=torch.float32),
        }
