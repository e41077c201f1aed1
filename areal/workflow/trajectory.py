"""What workflows share: the tokens of an episode, of the next turn, and the call of the reward."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from areal.api.io_struct import ModelRequest
from areal.utils.data import concat_padded_tensors
from areal.utils.hf_utils import apply_chat_template

if TYPE_CHECKING:
    from areal.api.io_struct import ModelResponse

_ANCHOR = "[completion]"


async def score(
    reward: Callable[..., Awaitable[float]],
    tokenizer: Any,
    response: ModelResponse,
    data: dict[str, Any],
) -> float:
    """Return the reward of a completion.

    Args:
        reward: An ``AsyncRewardWrapper``, called as (prompt, completion, prompt_ids,
            completion_ids, **row).
        tokenizer: Turns prompt and completion into text, special tokens of the latter left out.
        response: What was generated, which may be nothing.
        data: The row.
    """
    return await reward(
        tokenizer.decode(response.input_tokens),
        tokenizer.decode(response.output_tokens, skip_special_tokens=True),
        response.input_tokens,
        response.output_tokens,
        **data,
    )


def next_turn_ids(tokenizer: Any, replies: Sequence[dict[str, Any]], last_token: int) -> list[int]:
    """Return the tokens between a completion and the next one.

    Args:
        tokenizer: A tokenizer with a chat template.
        replies: The messages that the model reads, of the user or of tools.
        last_token: What the completion ended in. The template closes the turn, and a completion
            that was not cut off has done so itself.
    """
    before = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _ANCHOR}]
    rendered = apply_chat_template(
        tokenizer, [*before, *replies], tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer.encode(rendered.partition(_ANCHOR)[2], add_special_tokens=False)
    return ids[1:] if ids[:1] == [last_token] else ids


class _Turn(NamedTuple):
    """What the engine generated in one go, from ``start`` up to ``end`` of the sequence."""

    number: int
    start: int
    end: int
    logprobs: Sequence[float]
    versions: Sequence[int]


class Trajectory:
    """Collect one episode's tokens in the order in which the engine saw and made them."""

    def __init__(self) -> None:
        self.input_ids: list[int] = []
        self._turns: list[_Turn] = []
        self.num_turns = 0

    def __len__(self) -> int:
        return len(self.input_ids)

    def add_prompt(self, tokens: Sequence[int]) -> None:
        """Append tokens that were given: no loss, log-probability 0, version and turn -1."""
        self.input_ids += tokens

    def add_response(self, response: ModelResponse, turn: int) -> None:
        """Append tokens that the engine generated in a turn.

        Raises:
            ValueError: It has more or fewer log-probabilities or versions than tokens.
        """
        start, logprobs, versions = len(self), response.output_logprobs, response.output_versions
        self.input_ids += response.output_tokens
        count = len(response.output_tokens)
        if not count == len(logprobs) == len(versions):
            raise ValueError(
                f"the engine generated {count} tokens with {len(logprobs)} log-probabilities and "
                f"{len(versions)} versions, expected one for each token"
            )
        self._turns.append(_Turn(turn, start, len(self), logprobs, versions))

    async def generate(self, engine: Any, gconfig: Any, tokenizer: Any) -> ModelResponse:
        """Have the engine go on from here, and append what it generates as the next turn."""
        # A copy, as the request is kept by whoever gets it.
        tokens = list(self.input_ids)
        response = await engine.agenerate(
            ModelRequest(input_ids=tokens, gconfig=gconfig, tokenizer=tokenizer)
        )
        self.add_response(response, self.num_turns)
        self.num_turns += 1
        return response

    def to_tensors(self, reward: float) -> dict[str, torch.Tensor]:
        """Return the trajectory as the trainer takes it.

        Returns:
            ``input_ids``, ``loss_mask``, ``versions``, ``turn_ids`` int32 [1, L]; ``logprobs``
            float32 [1, L]; ``attention_mask`` bool [1, L]; ``rewards`` float32 [1].
        """
        return _tensors(self.input_ids, self._turns, reward)

    def to_tensors_per_turn(self, rewards: Sequence[float]) -> dict[str, torch.Tensor]:
        """Return a sequence for each completion, with a reward of its own.

        A sequence ends where its completion ends, and is trained on that completion alone.

        Args:
            rewards: One for each completion, in turn.

        Returns:
            As `to_tensors`, with B = len(rewards) rows: [B, L] padded at the end, rewards [B].

        Raises:
            ValueError: There are more or fewer rewards than completions.
        """
        return concat_padded_tensors(
            [
                _tensors(self.input_ids[: turn.end], [turn], reward)
                for turn, reward in zip(self._turns, rewards, strict=True)
            ]
        )


def _tensors(
    input_ids: Sequence[int], turns: Sequence[_Turn], reward: float
) -> dict[str, torch.Tensor]:
    """Return a sequence of which these turns are trained; everything else in it was given."""
    shape = (1, len(input_ids))
    loss_mask, logprobs = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    versions = np.full(shape, -1, np.int32)
    turn_ids = versions.copy()
    for turn in turns:
        generated = np.s_[0, turn.start : turn.end]
        loss_mask[generated] = 1
        logprobs[generated] = turn.logprobs
        versions[generated] = turn.versions
        turn_ids[generated] = turn.number
    # Through numpy, as torch takes three times as long to read a list and to fill a short tensor.
    return {
        "input_ids": torch.from_numpy(np.array([input_ids], np.int32)),
        "loss_mask": torch.from_numpy(loss_mask),
        "logprobs": torch.from_numpy(logprobs),
        "versions": torch.from_numpy(versions),
        "turn_ids": torch.from_numpy(turn_ids),
        "attention_mask": torch.from_numpy(np.ones(shape, np.bool_)),
        "rewards": torch.from_numpy(np.array([reward], np.float32)),
    }
