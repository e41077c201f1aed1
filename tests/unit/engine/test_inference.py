"""Which inference engine serves a rollout backend."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from areal.api.cli_args import InferenceEngineConfig
from areal.engine.inference import make_inference_engine
from areal.engine.remote import ArealBackend
from areal.engine.sglang_remote import SGLangBackend
from areal.engine.vllm_remote import VLLMBackend
from areal.infra.remote_inf_engine import RemoteInfEngine


@pytest.mark.parametrize(
    ("backend", "spoken"),
    [("local:d2", ArealBackend), ("sglang:d1", SGLangBackend), ("vllm:d1", VLLMBackend)],
)
def test_servers_are_spoken_to_in_their_own_format(backend: str, spoken: type) -> None:
    config = InferenceEngineConfig(backend=backend)
    engine = make_inference_engine(config, Mock(), seed=1, on_servers=True)
    assert isinstance(engine, RemoteInfEngine)
    assert type(engine.backend) is spoken
    assert engine.addresses == []
