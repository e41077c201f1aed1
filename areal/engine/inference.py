"""Which inference engine serves a rollout backend."""

from __future__ import annotations

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import InferenceEngineConfig
from areal.api.engine_api import InferenceEngine
from areal.api.registry import import_from_string
from areal.engine.model.shared_weights import SharedWeights

# Paths, so that a run in one process never imports what talks HTTP. Each is called with the
# configuration, the trainer's weights and the seed of the sampling streams.
INFERENCE_ENGINES: dict[str, str] = {
    "embedded": "areal.engine.local.engine:LocalInferenceEngine",
    "local": "areal.engine.remote:make_remote_engine",
    "sglang": "areal.engine.remote:make_remote_engine",
    "vllm": "areal.engine.remote:make_remote_engine",
}


def make_inference_engine(
    config: InferenceEngineConfig, weights: SharedWeights, seed: int, on_servers: bool
) -> InferenceEngine:
    """Make the engine of ``config.backend``.

    Args:
        config: Rollout settings.
        weights: Of the trainer; the embedded engine generates with them, servers hold their own.
        seed: Of the sampling streams.
        on_servers: Whether a "local" backend is servers, and not the embedded engine.
    """
    name = ModelAllocation.from_str(config.backend).backend if on_servers else "embedded"
    engine: InferenceEngine = import_from_string(INFERENCE_ENGINES[name])(config, weights, seed)
    return engine
