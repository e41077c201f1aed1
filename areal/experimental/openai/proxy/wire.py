"""Interactions as JSON, and back; numbers survive the way exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from areal.api.io_struct import ModelResponse
from areal.experimental.openai.cache import InteractionCache
from areal.experimental.openai.messages import is_prefix
from areal.experimental.openai.types import InteractionWithTokenLogpReward

_TOKENS = ("input_tokens", "output_tokens", "output_logprobs", "output_versions", "stop_reason")
_PLAIN = ("reward", "original_reward", "chat_template_type", "messages", "output_message_list")


def to_wire(cache: InteractionCache, *, is_compact: bool = False) -> list[dict[str, Any]]:
    """Return the interactions in their order as plain lists and dicts.

    Args:
        cache: Holds them.
        is_compact: Only counts what an interaction begins with as its parent does; else a
            conversation grows with the square of its turns.
    """
    return [_to_wire(key, interaction, is_compact) for key, interaction in cache.items()]


def _to_wire(
    key: str, interaction: InteractionWithTokenLogpReward, is_compact: bool
) -> dict[str, Any]:
    parent, answer = interaction.parent, interaction.model_response
    assert answer is not None
    plain: dict[str, Any] = {name: getattr(interaction, name) for name in _PLAIN}
    plain |= {name: getattr(answer, name) for name in _TOKENS}
    if is_compact and parent is not None:
        assert parent.model_response is not None
        before = {"messages": parent.messages, "input_tokens": parent.model_response.input_tokens}
        for name, start in before.items():
            if is_prefix(start, plain[name]):
                plain[name] = plain[name][len(start) :]
                plain[f"num_parent_{name}"] = len(start)
    return {**plain, "id": key, "parent": parent.interaction_id if parent is not None else None}


def from_wire(items: Sequence[dict[str, Any]]) -> InteractionCache:
    """Return the interactions that ``to_wire`` gave, compact or not; changes the items."""
    cache = InteractionCache()
    for item in items:
        parent = cache.get(item["parent"])
        if parent is not None:
            assert parent.model_response is not None
            before = parent.model_response.input_tokens
            item["input_tokens"][:0] = before[: item.get("num_parent_input_tokens", 0)]
            item["messages"][:0] = parent.messages[: item.get("num_parent_messages", 0)]
        interaction = InteractionWithTokenLogpReward(
            model_response=ModelResponse(**{name: item[name] for name in _TOKENS}),
            parent=parent,
            **{name: item[name] for name in _PLAIN},
        )
        interaction._id = item["id"]
        cache.add(interaction)
    return cache
