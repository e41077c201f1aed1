"""Which client talks to the servers of a rollout backend."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import InferenceEngineConfig
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.sglang_remote import NamedServersEngine, SGLangBackend
from areal.engine.vllm_remote import VLLMBackend
from areal.infra.launch import KEY_VARIABLE
from areal.infra.managed_process import PARENT_VARIABLE
from areal.infra.remote_inf_engine import RemoteInfBackendProtocol, RemoteInfEngine


class ArealBackend(SGLangBackend):
    """Speaks to ``areal serve``, which answers as SGLang does."""

    def __init__(self) -> None:
        super().__init__(updates_in_place=True)

    def launch_server(self, server_args: dict[str, Any]) -> subprocess.Popen[Any]:
        """Start a server of ``model_path`` at ``host`` and ``port``, which ends with its parent."""
        program = [sys.executable, "-m", "areal.trainer.cli", "serve", server_args["model_path"]]
        options = [f"--{name}={server_args[name]}" for name in ("host", "port")]
        environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
        return subprocess.Popen([*program, *options], env=environment, start_new_session=True)


class RemoteLocalEngine(NamedServersEngine):
    """Rollouts from the embedded engine in processes of its own, ``areal serve``."""

    server_kind = "local"

    @staticmethod
    def _make_backend(config: InferenceEngineConfig) -> ArealBackend:
        return ArealBackend()


_BACKENDS: dict[str, Callable[[], RemoteInfBackendProtocol]] = {
    "local": ArealBackend,
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
