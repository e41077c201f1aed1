"""The modules that AReaL's users know the proxy by."""

from __future__ import annotations

import importlib

import pytest

from areal.experimental.openai import proxy


@pytest.mark.parametrize(
    ("module", "name"),
    [("proxy_gateway", "AgentProxy"), ("proxy_rollout_server", "ProxyServer")],
)
def test_a_module_of_the_contract_has_our_part(module: str, name: str) -> None:
    found = importlib.import_module(f"areal.experimental.openai.proxy.{module}")
    assert getattr(found, name) is getattr(proxy, name)
    assert getattr(proxy, name).__module__ == found.__name__
