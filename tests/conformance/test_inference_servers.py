"""One list of checks for every kind of inference server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from areal.engine import SGLangBackend, VLLMBackend
from tests.fake_servers import FakeSGLang, FakeVLLM
from tests.server_checks import CHECKS, Check, RunningServer


def fake_sglang() -> Iterator[RunningServer]:
    fake = FakeSGLang(token_s=0.002)
    yield RunningServer(fake.start(), SGLangBackend(), "/weights")
    fake.stop()


def fake_plain_sglang() -> Iterator[RunningServer]:
    """SGLang itself names neither its process nor the versions of tokens."""
    fake = FakeSGLang(names_instance=False, token_s=0.002)
    yield RunningServer(fake.start(), SGLangBackend(), "/weights")
    fake.stop()


def fake_vllm() -> Iterator[RunningServer]:
    fake = FakeVLLM(token_s=0.002)
    yield RunningServer(fake.start(), VLLMBackend(), "/weights")
    fake.stop()


SERVERS: list[Callable[[], Iterator[RunningServer]]] = [fake_sglang, fake_plain_sglang, fake_vllm]


@pytest.fixture(scope="module", params=SERVERS, ids=lambda make: make.__name__)
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """Yields each server in turn; the checks leave it fit for the next."""
    yield from request.param()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_server_passes(server: RunningServer, check: Check) -> None:
    asyncio.run(check(server))
