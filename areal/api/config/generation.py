"""How an answer is sampled."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from copy import copy
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from areal.api.config.check import at_least, fail

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger("GenerationHyperparameters")

# What each API calls the budget of new tokens.
_MAX_NEW_TOKENS_NAME = {
    "completions": "max_completion_tokens",
    "responses": "max_output_tokens",
    "openai-agents": "max_tokens",
}
# Parameters that an API does not know: left out at their default, passed on when set, so that
# the client refuses them instead of sampling otherwise than asked.
_UNKNOWN_TO_API: dict[str, frozenset[str]] = {
    "completions": frozenset(),
    "responses": frozenset({"n_samples", "frequency_penalty"}),
    "openai-agents": frozenset({"n_samples"}),
}
_DROPPED_WITH_WARNING = frozenset(
    {
        "greedy",
        "ignore_eos",
        "lora_name",
        "max_tokens",
        "min_new_tokens",
        "skip_special_tokens",
        "stop_token_ids",
        "top_k",
        "use_beam_search",
    }
)
# These two steer the executor and mean nothing to a server.
_DROPPED_SILENTLY = frozenset({"drop_incomplete_group", "reward_normalization"})


@dataclass
class GenerationHyperparameters:
    """How many answers are sampled for a prompt, how long they get and from what distribution.

    ``max_new_tokens`` bounds the answer and ``max_tokens`` prompt plus answer; both count tokens.
    ``top_k`` of 1e8 (or -1) and ``top_p`` of 1.0 leave the distribution whole. ``greedy`` takes the
    likeliest token and counts as temperature 1 in log-probabilities.
    """

    n_samples: int = 1
    max_new_tokens: int = 16384
    min_new_tokens: int = 0
    max_tokens: int = 32768
    greedy: bool = False
    top_p: float = 1.0
    top_k: int = int(1e8)
    temperature: float = 1.0
    stop_token_ids: list[int] = field(default_factory=list)
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    stop: list[str] | None = None
    frequency_penalty: float = 0.0
    seed: int | None = None
    lora_name: str = "default_lora"
    use_beam_search: bool = False
    reward_normalization: bool = False
    drop_incomplete_group: bool = False

    def __post_init__(self) -> None:
        at_least(self, 1, "n_samples", "max_new_tokens", "max_tokens")
        at_least(self, 0, "min_new_tokens", "temperature")
        if not 0 < self.top_p <= 1:
            fail(self, "top_p", "lie in (0, 1]", self.top_p)
        if self.top_k < 1 and self.top_k != -1:
            fail(self, "top_k", "be positive, or -1 for no limit", self.top_k)

    def new(self, **kwargs: Any) -> GenerationHyperparameters:
        """Return a deep copy with the given fields replaced.

        Raises:
            TypeError: A keyword is no field.
        """
        # Each request has a copy. All but lists is immutable, and asdict takes ten times as long.
        own = {name: copy(x) if isinstance(x, list) else x for name, x in vars(self).items()}
        return type(self)(**own | kwargs)

    def new_with_stop_and_pad_token_ids(
        self, tokenizer: PreTrainedTokenizerBase
    ) -> GenerationHyperparameters:
        """Return a copy that also stops at the tokenizer's pad and end-of-sequence tokens."""
        stop_token_ids = list(self.stop_token_ids)
        # transformers types them by what any special token may be; these two are single ids.
        ids: list[Any] = [tokenizer.pad_token_id, tokenizer.eos_token_id]
        for token_id in ids:
            if token_id is not None and token_id not in stop_token_ids:
                stop_token_ids.append(token_id)
        return self.new(stop_token_ids=stop_token_ids)

    def to_openai_args_dict(
        self, exclude_args: Iterable[str] | None = None, api_format: str = "completions"
    ) -> dict[str, Any]:
        """Return the keyword arguments that ask an OpenAI-compatible client for this sampling.

        A field that has no counterpart is dropped, with a logged warning when it was changed.
        None means unset and is left out.

        Args:
            exclude_args: Names to leave out, as they are called here or in the API.
            api_format: "completions" (chat completions), "responses" or "openai-agents".

        Raises:
            ValueError: The format is unknown.
        """
        if api_format not in _MAX_NEW_TOKENS_NAME:
            known = ", ".join(_MAX_NEW_TOKENS_NAME)
            raise ValueError(f"unknown api_format {api_format!r}; known: {known}")
        renamed = {"n_samples": "n", "max_new_tokens": _MAX_NEW_TOKENS_NAME[api_format]}
        excluded = set(exclude_args or ())
        defaults = asdict(GenerationHyperparameters())
        args: dict[str, Any] = {}
        for option in fields(self):
            name, value = option.name, getattr(self, option.name)
            is_default = value == defaults.get(name)
            if name in excluded or renamed.get(name) in excluded or name in _DROPPED_SILENTLY:
                continue
            if name in _DROPPED_WITH_WARNING:
                if not is_default:
                    logger.warning("%s=%r has no counterpart in %s", name, value, api_format)
                continue
            if value is None or (is_default and name in _UNKNOWN_TO_API[api_format]):
                continue
            args[renamed.get(name, name)] = value
        return args

    def to_openai_completions_args_dict(
        self, exclude_args: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return the arguments for ``client.chat.completions.create``."""
        return self.to_openai_args_dict(exclude_args, api_format="completions")

    def to_openai_responses_args_dict(
        self, exclude_args: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return the arguments for ``client.responses.create``."""
        return self.to_openai_args_dict(exclude_args, api_format="responses")

    def to_openai_agents_model_settings_dict(
        self, exclude_args: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return the arguments for ``agents.ModelSettings``."""
        return self.to_openai_args_dict(exclude_args, api_format="openai-agents")
