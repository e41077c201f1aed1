"""Which inference engine a run generates with."""

from __future__ import annotations

from areal.api.cli_args import InferenceEngineConfig
from areal.api.engine_api import InferenceEngine
from areal.api.registry import import_from_string
from areal.engine.model.shared_weights import SharedWeights

# Paths, so that a run in one process never imports what talks HTTP. Each is called with the
# configuration, the trainer's weights and the seed of the sampling streams; which client talks to
# servers of a backend is in ``areal.engine.remote``.
INFERENCE_ENGINES: dict[str, str] = {
    "embedded": "areal.engine.local.engine:LocalInferenceEngine",
    "servers": "areal.engine.remote:make_remote_engine",
}


def make_inference_engine(
    config: InferenceEngineConfig, weights: SharedWeights, seed: int, on_servers: bool
) -> InferenceEngine:
    """Make the engine of a run.

    Args:
        config: Rollout settings.
        weights: Of the trainer; the embedded engine generates with them, servers hold their own.
        seed: Of the sampling streams.
        on_servers: Whether rollouts come from servers of ``config.backend``.
    """
    make = import_from_string(INFERENCE_ENGINES["servers" if on_servers else "embedded"])
    engine: InferenceEngine = make(config, weights, seed)
    return engine
