"""Which client talks to the servers of a rollout backend."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import InferenceEngineConfig
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.sglang_remote import SGLangBackend
from areal.engine.vllm_remote import VLLMBackend
from areal.infra.launch import KEY_VARIABLE
from areal.infra.remote_inf_engine import RemoteInfBackendProtocol, RemoteInfEngine

_BACKENDS: dict[str, Callable[[], RemoteInfBackendProtocol]] = {
    # ``areal serve`` answers as SGLang does.
    "local": partial(SGLangBackend, updates_in_place=True),
    "sglang": SGLangBackend,
    "vllm": VLLMBackend,
}


def make_remote_engine(
    config: InferenceEngineConfig, weights: SharedWeights | None = None, seed: int = 1
) -> RemoteInfEngine:
    """Return an engine over the servers of ``config.backend``.

    The servers' key is that of the environment, where there is one.

    Args:
        config: Rollout settings.
        weights: Not used: servers hold their own.
        seed: Of the sampling streams.
    """
    name = ModelAllocation.from_str(config.backend).backend
    key = os.environ.get(KEY_VARIABLE) or config.provider_api_key
    return RemoteInfEngine(config, _BACKENDS[name](), seed, api_key=key)
