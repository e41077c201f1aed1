"""Workflow: the model calls tools, reads their results and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from areal import workflow_context
from areal.api import AsyncRewardWrapper, InferenceEngine, RolloutWorkflow
from areal.api.cli_args import GenerationHyperparameters
from areal.utils import stats_tracker
from areal.utils.dynamic_import import import_from_string
from areal.utils.hf_utils import apply_chat_template, load_hf_tokenizer
from areal.workflow.toolbox import Toolbox
from areal.workflow.trajectory import Trajectory, score

from my_rl.workflow.told_calls_tools import TOOLS

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

SYSTEM_PROMPT = 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""'


class ToldCallsWorkflow(RolloutWorkflow):
    """Answer a row's messages, with calls of tools until a completion has none.

    Args:
        reward_fn: Called on the last completion as (prompt, completion, prompt_ids,
            completion_ids, **row), or a dotted path to such a function; it runs in a pool of
            processes, so it is in a module.
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
        tool_timeout_s: float = 2.5,
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
        messages = [{"role": "system", "content": SYSTEM_PROMPT}, *data["messages"]]
        trajectory = Trajectory()
        trajectory.add_prompt(
            apply_chat_template(
                self.tokenizer, messages, tools=self.toolbox.schemas, add_generation_prompt=True
            )
        )
        num_calls = 0
        for turn in range(self.max_turns):
            response = await trajectory.generate(engine, self.gconfig, self.tokenizer)
            calls = self.toolbox.read_calls(self.tokenizer.decode(response.output_tokens))
            if not calls or turn + 1 == self.max_turns:
                break
            ids = await self.toolbox.run(calls, trajectory.input_ids[-1])
            num_calls += len(calls)
            if len(trajectory) + len(ids) >= self.gconfig.max_tokens:
                break  # no room for another completion
            trajectory.add_prompt(ids)
        reward = await score(self.reward, self.tokenizer, response, data)
        scope = stats_tracker.get(workflow_context.stat_scope())
        scope.scalar(reward=reward, num_turns=turn + 1, num_calls=num_calls)
        return trajectory.to_tensors(reward)
