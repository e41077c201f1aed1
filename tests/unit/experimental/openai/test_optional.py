"""The SDK is an extra: without it the rest works, and the message says what to install."""

from __future__ import annotations

import importlib
import sys

import pytest

HINT = r"pip install 'areal-lite\[agent\]'"


@pytest.fixture
def no_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the SDK, and what was imported with it."""
    for name in list(sys.modules):
        if name.partition(".")[0] == "openai" or name.startswith("areal.experimental.openai."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openai", None)


@pytest.mark.usefixtures("no_openai")
@pytest.mark.parametrize("name", ["client", "proxy.proxy_gateway"])
def test_what_needs_the_sdk_says_so(name: str) -> None:
    with pytest.raises(ImportError, match=HINT):
        importlib.import_module(f"areal.experimental.openai.{name}")


@pytest.mark.usefixtures("no_openai")
@pytest.mark.parametrize("name", ["cache", "types", "errors", "recorder"])
def test_the_rest_does_without(name: str) -> None:
    importlib.import_module(f"areal.experimental.openai.{name}")
