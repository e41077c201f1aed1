"""Workflow: the model answers, reads feedback and tries again."""

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

ANCHOR = "[completion]"


class PlainTurnsWorkflow(RolloutWorkflow):
    """Answers a row's messages until the reward is positive or the turns are used up.

    Args:
        reward_fn: Called as (prompt, completion, prompt_ids, completion_ids, **row), or a dotted
            path to such a function; it runs in a pool of processes, so it stands in a module.
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
        max_turns: int = 2,
        turn_discount: float = 1.0,
    ) -> None:
        if max_turns < 1 or not 0 < turn_discount <= 1:
            raise ValueError(f"{max_turns=} must be at least 1, {turn_discount=} in (0, 1]")
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer)
        self.gconfig = gconfig.new(n_samples=1)
        self.max_turns = max_turns
        self.turn_discount = turn_discount
        is_path = isinstance(reward_fn, str)
        self.reward = AsyncRewardWrapper(import_from_string(reward_fn) if is_path else reward_fn)

    def feedback(self, data: dict[str, Any], completion: str, turn: int) -> str:
        """Says what the model reads after a wrong answer; turns count from 0."""
        # YOURS: say what the model reads after a wrong answer, without giving it away
        return "Your answer is wrong. Think again and answer once more."

    def feedback_ids(self, text: str, last_token: int) -> list[int]:
        """Returns the tokens between a completion that ended in ``last_token`` and the next one."""
        chat = [("user", "?"), ("assistant", ANCHOR), ("user", text)]
        messages = [{"role": role, "content": content} for role, content in chat]
        rendered = apply_chat_template(
            self.tokenizer, messages, tokenize=False, add_generation_prompt=True
        )
        tail = rendered.partition(ANCHOR)[2]
        ids = self.tokenizer.encode(tail, add_special_tokens=False)
        # The template closes the turn; a completion that was not cut off has done so itself.
        return ids[1:] if ids[:1] == [last_token] else ids

    async def arun_episode(
        self, engine: InferenceEngine, data: dict[str, Any]
    ) -> dict[str, torch.Tensor] | None:
        """Runs one episode.

        Args:
            engine: Generates the completions.
            data: A row with the column messages and what the reward needs.

        Returns:
            The trajectory, each tensor of shape [1, L] and rewards of shape [1]; all turns are
            trained on, feedback and prompt are not. An exception rejects the episode.
        """
        tokens = list(
            apply_chat_template(self.tokenizer, data["messages"], add_generation_prompt=True)
        )
        logprobs, versions, turn_ids = [0.0] * len(tokens), [-1] * len(tokens), [-1] * len(tokens)
        for turn in range(self.max_turns):
            response = await engine.agenerate(
                ModelRequest(input_ids=tokens, gconfig=self.gconfig, tokenizer=self.tokenizer)
            )
            tokens = response.input_tokens + response.output_tokens
            logprobs += response.output_logprobs
            versions += response.output_versions
            turn_ids += [turn] * response.output_len
            completion = self.tokenizer.decode(response.output_tokens, skip_special_tokens=True)
            prompt = self.tokenizer.decode(response.input_tokens)
            reward = await self.reward(
                prompt, completion, response.input_tokens, response.output_tokens, **data
            )
            if reward > 0 or turn + 1 == self.max_turns:
                break
            ids = self.feedback_ids(self.feedback(data, completion, turn), tokens[-1])
            if len(tokens) + len(ids) >= self.gconfig.max_tokens:
                break  # no room for another completion
            tokens += ids
            logprobs += [0.0] * len(ids)
            versions += [-1] * len(ids)
            turn_ids += [-1] * len(ids)
        reward *= self.turn_discount**turn
        stats_tracker.get(workflow_context.stat_scope()).scalar(reward=reward, num_turns=turn + 1)
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
