"""Workflow: the model answers, reads feedback and tries again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from areal import workflow_context
from areal.api import AsyncRewardWrapper, InferenceEngine, RolloutWorkflow
from areal.api.cli_args import GenerationHyperparameters
from areal.utils import stats_tracker
from areal.utils.dynamic_import import import_from_string
from areal.utils.hf_utils import apply_chat_template, load_hf_tokenizer
from areal.workflow.trajectory import Trajectory, next_turn_ids, score

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


class FedBackWorkflow(RolloutWorkflow):
    """Answer a row's messages until the reward is positive or the turns are used up.

    Args:
        reward_fn: Called as (prompt, completion, prompt_ids, completion_ids, **row), or a dotted
            path to such a function; it runs in a pool of processes, so it is in a module.
        gconfig: How to sample each turn.
        tokenizer: A tokenizer with a chat template, or the path of one.
        max_turns: Completions per episode, at least 1.
        turn_discount: Multiplies the reward once per turn after the first, in (0, 1].
    """

    def __init__(
        self,
        reward_fn: Callable[..., float] | str,
        gconfig: GenerationHyperparameters,
        tokenizer: PreTrainedTokenizerBase | str,
        max_turns: int = 5,
        turn_discount: float = 1.0,
    ) -> None:
        if max_turns < 1 or not 0 < turn_discount <= 1:
            raise ValueError(f"{max_turns=} must be at least 1, {turn_discount=} in (0, 1]")
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer).new(n_samples=1)
        self.max_turns = max_turns
        self.turn_discount = turn_discount
        is_path = isinstance(reward_fn, str)
        self.reward = AsyncRewardWrapper(import_from_string(reward_fn) if is_path else reward_fn)

    def feedback(self, data: dict[str, Any], completion: str, turn: int) -> str:
        """Say what the model reads after a wrong answer; turns count from 0."""
        return 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand 😀 \'\'\'"""'

    async def arun_episode(
        self, engine: InferenceEngine, data: dict[str, Any]
    ) -> dict[str, torch.Tensor] | None:
        """Run one episode.

        Args:
            engine: Generates the completions.
            data: A row with the column messages and what the reward needs.

        Returns:
            The trajectory, each tensor of shape [1, L] and rewards of shape [1]; all turns are
            trained on, feedback and prompt are not. An exception rejects the episode.
        """
        trajectory = Trajectory()
        trajectory.add_prompt(
            apply_chat_template(self.tokenizer, data["messages"], add_generation_prompt=True)
        )
        for turn in range(self.max_turns):
            response = await trajectory.generate(engine, self.gconfig, self.tokenizer)
            reward = await score(self.reward, self.tokenizer, response, data)
            if reward > 0 or turn + 1 == self.max_turns:
                break
            completion = self.tokenizer.decode(response.output_tokens, skip_special_tokens=True)
            reply = {"role": "user", "content": self.feedback(data, completion, turn)}
            ids = next_turn_ids(self.tokenizer, [reply], trajectory.input_ids[-1])
            if len(trajectory) + len(ids) >= self.gconfig.max_tokens:
                break  # no room for another completion
            trajectory.add_prompt(ids)
        reward *= self.turn_discount**turn
        stats_tracker.get(workflow_context.stat_scope()).scalar(reward=reward, num_turns=turn + 1)
        return trajectory.to_tensors(reward)
