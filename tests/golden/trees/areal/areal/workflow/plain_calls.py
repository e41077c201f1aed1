"""Workflow: the model calls tools, reads their results and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from areal import workflow_context
from areal.api import AsyncRewardWrapper, InferenceEngine, ModelRequest, RolloutWorkflow
from areal.api.cli_args import GenerationHyperparameters
from areal.utils import stats_tracker
from areal.utils.dynamic_import import import_from_string
from areal.utils.hf_utils import apply_chat_template, load_hf_tokenizer
from areal.workflow.plain_calls_tools import TOOLS
from areal.workflow.toolbox import Toolbox

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PlainCallsWorkflow(RolloutWorkflow):
    """Answers a row's messages, with calls of tools until a completion has none.

    Args:
        reward_fn: Called on the last completion as (prompt, completion, prompt_ids,
            completion_ids, **row), or a dotted path to such a function; it runs in a pool of
            processes, so it stands in a module.
        gconfig: How to sample each turn.
        tokenizer: A tokenizer whose chat template takes tools, or the path of one.
        tools: Plain functions that the model may call, with types and docstrings.
        max_turns: Completions per episode, at least 1; calls of the last one are not run.
        tool_timeout_s: What one call may take, above 0.
        max_result_chars: Where the result of a call is cut.
    """

    def __init__(
        self,
        reward_fn: Callable[..., float] | str,
        gconfig: GenerationHyperparameters,
        tokenizer: PreTrainedTokenizerBase | str,
        tools: Sequence[Callable[..., Any]] = TOOLS,
        max_turns: int = 4,
        tool_timeout_s: float = 10.0,
        max_result_chars: int = 4096,
    ) -> None:
        if max_turns < 1 or tool_timeout_s <= 0:
            raise ValueError(f"{max_turns=} must be at least 1, {tool_timeout_s=} above 0")
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer).new(n_samples=1)
        self.toolbox = Toolbox(self.tokenizer, tools, tool_timeout_s, max_result_chars)
        self.max_turns = max_turns
        is_path = isinstance(reward_fn, str)
        self.reward = AsyncRewardWrapper(import_from_string(reward_fn) if is_path else reward_fn)

    async def arun_episode(
        self, engine: InferenceEngine, data: dict[str, Any]
    ) -> dict[str, torch.Tensor] | None:
        """Run one episode.

        Args:
            engine: Generates the completions.
            data: A row with the column messages and what the reward needs.

        Returns:
            The trajectory, each tensor of shape [1, L] and rewards of shape [1]; all completions
            are trained on, results of tools are not. An exception rejects the episode.
        """
        messages = list(data["messages"])
        tokens = apply_chat_template(
            self.tokenizer, messages, tools=self.toolbox.schemas, add_generation_prompt=True
        )
        logprobs, versions, turn_ids = [0.0] * len(tokens), [-1] * len(tokens), [-1] * len(tokens)
        num_calls = 0
        for turn in range(self.max_turns):
            response = await engine.agenerate(
                ModelRequest(input_ids=tokens, gconfig=self.gconfig, tokenizer=self.tokenizer)
            )
            tokens = response.input_tokens + response.output_tokens
            logprobs += response.output_logprobs
            versions += response.output_versions
            turn_ids += [turn] * response.output_len
            calls = self.toolbox.read_calls(self.tokenizer.decode(response.output_tokens))
            if not calls or turn + 1 == self.max_turns:
                break
            ids = await self.toolbox.run(calls, tokens[-1])
            num_calls += len(calls)
            if len(tokens) + len(ids) >= self.gconfig.max_tokens:
                break  # no room for another completion
            tokens += ids
            logprobs += [0.0] * len(ids)
            versions += [-1] * len(ids)
            turn_ids += [-1] * len(ids)
        reward = await self.reward(
            self.tokenizer.decode(response.input_tokens),
            self.tokenizer.decode(response.output_tokens, skip_special_tokens=True),
            response.input_tokens,
            response.output_tokens,
            **data,
        )
        scope = stats_tracker.get(workflow_context.stat_scope())
        scope.scalar(reward=reward, num_turns=turn + 1, num_calls=num_calls)
        turn_ids_t = torch.tensor([turn_ids], dtype=torch.int32)
        return {
            "input_ids": torch.tensor([tokens], dtype=torch.int32),
            "attention_mask": torch.ones(1, len(tokens), dtype=torch.bool),
            "loss_mask": (turn_ids_t >= 0).to(torch.int32),
            "logprobs": torch.tensor([logprobs], dtype=torch.float32),
            "versions": torch.tensor([versions], dtype=torch.int32),
            "turn_ids": turn_ids_t,
            "rewards": torch.tensor([reward], dtype=torch.float32),
        }
