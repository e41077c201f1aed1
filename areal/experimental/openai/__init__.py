"""Agents that speak to the model as to OpenAI's servers, their tokens recorded for training.

Every name is loaded on first use; the client needs the extra ``areal-lite[agent]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.experimental.openai.cache import InteractionCache
    from areal.experimental.openai.client import ArealOpenAI
    from areal.experimental.openai.errors import AgentProcessError, RequestError
    from areal.experimental.openai.proxy import AgentProxy, OpenAIProxyWorkflow
    from areal.experimental.openai.types import InteractionWithTokenLogpReward

_LAZY_IMPORTS: dict[str, str] = {
    "AgentProcessError": "areal.experimental.openai.errors",
    "AgentProxy": "areal.experimental.openai.proxy",
    "ArealOpenAI": "areal.experimental.openai.client",
    "InteractionCache": "areal.experimental.openai.cache",
    "InteractionWithTokenLogpReward": "areal.experimental.openai.types",
    "OpenAIProxyWorkflow": "areal.experimental.openai.proxy",
    "RequestError": "areal.experimental.openai.errors",
}

__all__ = [
    "AgentProcessError",
    "AgentProxy",
    "ArealOpenAI",
    "InteractionCache",
    "InteractionWithTokenLogpReward",
    "OpenAIProxyWorkflow",
    "RequestError",
]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
