"""How rows are read and answers are sampled: ``trinity.common.config`` and ``.constants``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class PromptType(Enum):
    """Whether a row holds text or messages."""

    MESSAGES = "messages"
    PLAINTEXT = "plaintext"

    @classmethod
    def _missing_(cls, value: object) -> PromptType | None:
        return next((each for each in cls if each.value == str(value).lower()), None)


@dataclass
class FormatConfig:
    """Which columns of a row hold what; a ``*_key`` names a column."""

    prompt_type: PromptType = PromptType.MESSAGES
    prompt_key: str = "prompt"
    response_key: str = "response"
    system_prompt_key: str | None = None
    system_prompt: str | None = None
    messages_key: str = "message"
    tools_key: str = "tools"
    image_key: str | None = None
    video_key: str | None = None
    reply_prefix: str | None = None
    workflow_key: str = ""
    reward_fn_key: str = ""
    chosen_key: str = "chosen"
    rejected_key: str = "rejected"
    enable_concatenated_multi_turn: bool = False
    chat_template: str | None = None
    enable_thinking: bool | None = None


@dataclass
class GenerationConfig:
    """How answers are sampled; None takes the model's own setting."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int = -1
    logprobs: int | None = None
    max_tokens: int | None = None
    n: int = 1
