"""A tokenizer with roles and an engine that says prepared texts."""

from __future__ import annotations

import string
from typing import Any

from transformers import PreTrainedTokenizerFast

from areal.api.io_struct import ModelRequest
from areal.experimental.openai.messages import parse_messages
from areal.experimental.openai.types import InteractionWithTokenLogpReward
from areal.utils.character_tokenizer import character_tokenizer
from tests.fakes import InstantEngine

# Drops the reasoning of earlier answers, and writes the arguments of calls, as Qwen's does.
TEMPLATE = (
    "{% if tools %}[tools:{{ tools | length }}]{% endif %}"
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}"
    "{% for call in m['tool_calls'] or [] %}"
    "<tool_call>{{ call['function']['name'] }} {{ call['function']['arguments']['x'] }}</tool_call>"
    "{% endfor %}{% if m['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
    "{% if enable_thinking is defined and enable_thinking %}!{% endif %}"
)
USER = {"role": "user", "content": "2+3"}


def make_tokenizer() -> PreTrainedTokenizerFast:
    return character_tokenizer(string.printable, chat_template=TEMPLATE)


class ScriptedEngine(InstantEngine):
    """Says texts in turn; ``<eos>`` is added unless a text ends in "~", which means cut off."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *texts: str, version: int = 7) -> None:
        self.texts = list(texts)
        self.tokenizer = tokenizer
        super().__init__(self._say, version)

    def _say(self, request: ModelRequest) -> list[int]:
        text = self.texts.pop(0)
        if text.endswith("~"):
            return self.encode(text[:-1])
        return [*self.encode(text), self.tokenizer.eos_token_id]

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def prompt(self, index: int) -> str:
        return self.tokenizer.decode(self.requests[index].input_ids)


def interaction(
    key: str,
    asked: list[tuple[str, str]],
    said: str,
    parent: InteractionWithTokenLogpReward | None = None,
    **fields: Any,
) -> InteractionWithTokenLogpReward:
    """Makes an interaction from pairs of role and content."""
    messages = parse_messages([{"role": role, "content": content} for role, content in asked])
    made = InteractionWithTokenLogpReward(
        messages=messages,
        output_message_list=[{"role": "assistant", "content": said}],
        parent=parent,
        **fields,
    )
    made._id = key
    return made
