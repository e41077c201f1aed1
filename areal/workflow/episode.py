"""What the built-in workflows share: asking for the reward, and building the trajectory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from areal.api.errors import ConfigError
from areal.api.registry import import_from_string, resolve
from areal.api.reward_api import AsyncRewardWrapper
from areal.utils.perf_tracer import atrace_session_phase

if TYPE_CHECKING:
    from areal.api.io_struct import ModelResponse

# An ``AsyncRewardWrapper``, or a coroutine function in the place of one.
RewardCall = Callable[..., Awaitable[float]]

# What a reward is told about the sample; a column of such a name would collide with it.
_SAMPLE = ("prompt", "completions", "prompt_ids", "completion_ids")


class EpisodeReward:
    """Scores completions with a reward function that is looked up on first use.

    Args:
        reward_fn: A function, a registered name, a dotted path, or an ``AsyncRewardWrapper``.
    """

    def __init__(self, reward_fn: Callable[..., Any] | str) -> None:
        self.reward_fn = reward_fn
        self._wrapper: RewardCall | None = None

    @property
    def wrapper(self) -> RewardCall:
        """The wrapper around the function; another one may be set, or None for a new one.

        Raises:
            UnknownNameError: The reward is no registered name and no importable path.
        """
        if self._wrapper is None:
            found = self.reward_fn
            if isinstance(found, str):
                # By name, because workflows do not import rewards: the two meet in the table.
                found = resolve(import_from_string("areal.reward:REWARDS"), "reward", found)
            is_wrapped = isinstance(found, AsyncRewardWrapper)
            self._wrapper = found if is_wrapped else AsyncRewardWrapper(found)
        return self._wrapper

    @wrapper.setter
    def wrapper(self, wrapper: RewardCall | None) -> None:
        self._wrapper = wrapper

    async def score(
        self,
        tokenizer: Any,
        response: ModelResponse,
        data: dict[str, Any],
        *,
        by_keyword: bool = False,
    ) -> float | None:
        """Return the reward of a response, or None if the function failed on its last attempt.

        ``AsyncRewardWrapper`` has counted the failure and logged its cause by then, and training
        stops when most calls fail; one failed call rejects one episode.

        Args:
            tokenizer: Turns prompt and completion into text.
            response: What was generated.
            data: The row; its columns go to the function by keyword.
            by_keyword: Whether prompt, completion and their tokens do so too.

        Raises:
            ConfigError: The function cannot be called at all.
            UnknownNameError: There is no such reward.
        """
        wrapper = self.wrapper
        sample = (
            tokenizer.decode(response.input_tokens),
            completion_text(tokenizer, response),
            response.input_tokens,
            response.output_tokens,
        )
        columns = _reward_columns(data)
        try:
            async with atrace_session_phase("reward"):
                if by_keyword:
                    return await wrapper(**dict(zip(_SAMPLE, sample, strict=True)), **columns)
                return await wrapper(*sample, **columns)
        except ConfigError:
            raise
        except Exception:
            return None


def _reward_columns(data: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a row that do not collide with what describes the sample."""
    if data.keys().isdisjoint(_SAMPLE):
        return data
    return {key: value for key, value in data.items() if key not in _SAMPLE}


def completion_text(tokenizer: Any, response: ModelResponse) -> str:
    """Return the completion as text, without the tokens that ended it.

    Only a trailing run of end-of-sequence and padding goes, so that a reward that compares text
    exactly sees what the model said; other special tokens stay.
    """
    tokens = response.output_tokens
    stops = (tokenizer.eos_token_id, tokenizer.pad_token_id)
    end = len(tokens)
    while end and tokens[end - 1] in stops:
        end -= 1
    return tokenizer.decode(tokens[:end])


class Trajectory:
    """Collects one episode's tokens in the order in which the engine saw and made them."""

    def __init__(self) -> None:
        self.input_ids: list[int] = []
        self._loss_mask: list[int] = []
        self._logprobs: list[float] = []
        self._versions: list[int] = []
        self._turn_ids: list[int] = []

    def __len__(self) -> int:
        return len(self.input_ids)

    def add_prompt(self, tokens: Sequence[int]) -> None:
        """Append tokens that were given: no loss, log-probability 0, version and turn -1."""
        count = len(tokens)
        self.input_ids += tokens
        self._loss_mask += [0] * count
        self._logprobs += [0.0] * count
        self._versions += [-1] * count
        self._turn_ids += [-1] * count

    def add_response(self, response: ModelResponse, turn: int) -> None:
        """Append tokens that the engine generated in a turn."""
        count = len(response.output_tokens)
        self.input_ids += response.output_tokens
        self._loss_mask += [1] * count
        self._logprobs += response.output_logprobs
        self._versions += response.output_versions
        self._turn_ids += [turn] * count

    def to_tensors(self, reward: float) -> dict[str, torch.Tensor]:
        """Return the trajectory as the trainer takes it.

        Returns:
            ``input_ids``, ``loss_mask``, ``versions``, ``turn_ids`` int32 [1, L]; ``logprobs``
            float32 [1, L]; ``attention_mask`` bool [1, L]; ``rewards`` float32 [1].
        """
        return {
            "input_ids": _row(self.input_ids, np.int32),
            "loss_mask": _row(self._loss_mask, np.int32),
            "logprobs": _row(self._logprobs, np.float32),
            "versions": _row(self._versions, np.int32),
            "turn_ids": _row(self._turn_ids, np.int32),
            "attention_mask": torch.ones((1, len(self.input_ids)), dtype=torch.bool),
            "rewards": torch.from_numpy(np.array([reward], np.float32)),
        }


def _row(values: list[Any], dtype: type) -> torch.Tensor:
    # Three times as fast as torch.tensor on a list.
    return torch.from_numpy(np.array([values], dtype))
