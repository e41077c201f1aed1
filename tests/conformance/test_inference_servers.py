"""One list of checks for every kind of inference server."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from areal.api.cli_args import InferenceEngineConfig
from areal.engine import SGLangBackend, VLLMBackend
from areal.engine.loading.huggingface import prepare_model
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.local.server import InferenceServer
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.weight_sync import write_manifest
from tests.fake_servers import FakeSGLang, FakeVLLM
from tests.fakes import tiny_tokenizer
from tests.server_checks import CHECKS, VLLM_LACKS, Check, RunningServer
from tests.tiny_models import tiny_model


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
    yield RunningServer(fake.start(), VLLMBackend(), "/weights", lacks=VLLM_LACKS)
    fake.stop()


def areal_serve() -> Iterator[RunningServer]:
    engine = tiny_engine(seed=0)
    engine.initialize()
    server = InferenceServer(engine, tiny_tokenizer())
    with tempfile.TemporaryDirectory() as folder:
        tiny_engine(seed=1).weights.lm.write(Path(folder))
        write_manifest(Path(folder))
        address = server.start().removeprefix("http://")
        yield RunningServer(address, SGLangBackend(), folder, slow_tokens=3000)
    server.stop()
    engine.destroy()


def tiny_engine(seed: int) -> LocalInferenceEngine:
    model = tiny_model("qwen3", seed=seed, max_position_embeddings=4096)
    weights = SharedWeights(prepare_model(model, torch.device("cpu")))
    return LocalInferenceEngine(InferenceEngineConfig(), weights)


SERVERS: list[Callable[[], Iterator[RunningServer]]] = [
    areal_serve,
    fake_plain_sglang,
    fake_sglang,
    fake_vllm,
]


@pytest.fixture(scope="module", params=SERVERS, ids=lambda make: make.__name__)
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """Yields each server in turn; the checks leave it fit for the next."""
    yield from request.param()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_server_passes(server: RunningServer, check: Check) -> None:
    if check.__name__ in server.lacks:
        pytest.skip("this kind of server does not offer it")
    asyncio.run(check(server))
