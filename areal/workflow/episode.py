"""Ask for the reward of a completion, by whatever name it is known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

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
        tokenizer: Turns prompt and completion into text.
    """

    def __init__(self, reward_fn: Callable[..., Any] | str, tokenizer: Any) -> None:
        self.reward_fn = reward_fn
        self._wrapper: RewardCall | None = None
        self._tokenizer = tokenizer
        # Once, as transformers takes longer to find them than to decode a short text.
        self._stops = (tokenizer.eos_token_id, tokenizer.pad_token_id)

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
        response: ModelResponse,
        data: dict[str, Any],
        *,
        prompt: str | None = None,
        by_keyword: bool = False,
    ) -> float | None:
        """Return the reward of a response, or None if the function failed on its last attempt.

        ``AsyncRewardWrapper`` has counted the failure and logged its cause by then, and training
        stops when most calls fail; one failed call rejects one episode.

        Args:
            response: What was generated.
            data: The row; its columns go to the function by keyword.
            prompt: The text of the prompt; None decodes its tokens.
            by_keyword: Whether prompt, completion and their tokens do so too.

        Raises:
            ConfigError: The function cannot be called at all.
            UnknownNameError: There is no such reward.
        """
        wrapper = self.wrapper
        sample = (
            self._tokenizer.decode(response.input_tokens) if prompt is None else prompt,
            self._completion_text(response.output_tokens),
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

    def _completion_text(self, tokens: list[int]) -> str:
        """Return a completion as text, without the tokens that ended it.

        Only a trailing run of end-of-sequence and padding goes, so that a reward that compares text
        exactly sees what the model said; other special tokens stay.
        """
        end = len(tokens)
        while end and tokens[end - 1] in self._stops:
            end -= 1
        text: str = self._tokenizer.decode(tokens[:end])
        return text


def _reward_columns(data: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a row that do not collide with what describes the sample."""
    if data.keys().isdisjoint(_SAMPLE):
        return data
    return {key: value for key, value in data.items() if key not in _SAMPLE}
