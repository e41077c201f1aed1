"""Does the real vLLM do what its client, and the fake one, take for granted?"""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.servers.conftest import VLLM
from tests.server_checks import CHECKS, Check

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_passes(vllm: VLLM, check: Check) -> None:
    if check.__name__ in vllm.lacks:
        pytest.skip("vLLM does not offer it")
    asyncio.run(check(vllm))
