"""The HTTP side: a server that agents talk to, and the workflow that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.experimental.openai.proxy.proxy_gateway import AgentProxy
    from areal.experimental.openai.proxy.proxy_rollout_server import ProxyServer
    from areal.experimental.openai.proxy.workflow import OpenAIProxyWorkflow

_LAZY_IMPORTS: dict[str, str] = {
    "AgentProxy": "areal.experimental.openai.proxy.proxy_gateway",
    "OpenAIProxyWorkflow": "areal.experimental.openai.proxy.workflow",
    "ProxyServer": "areal.experimental.openai.proxy.proxy_rollout_server",
}

__all__ = ["AgentProxy", "OpenAIProxyWorkflow", "ProxyServer"]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
