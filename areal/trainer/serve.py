"""From a configuration or a checkpoint to a running inference server."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from collections.abc import Sequence
from typing import Any

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import (
    InferenceEngineConfig,
    NameResolveConfig,
    PPOConfig,
    TrainEngineConfig,
    choose_config_class,
    load_expr_config,
)
from areal.api.errors import ConfigError
from areal.api.reward_pool.worker import die_with
from areal.engine.loading.huggingface import resolve_dtype
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.local.server import InferenceServer, require_key
from areal.engine.model.lora import base_model_path
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.processes import resolve_device
from areal.engine.training.backends import train_engine_class
from areal.infra.launch import KEY_VARIABLE, NAME_VARIABLE, NAMES_VARIABLE
from areal.infra.managed_process import PARENT_VARIABLE
from areal.trainer.runtime import (
    check_local_path,
    limit_threads,
    make_tokenizer,
    make_weights,
)
from areal.utils import name_resolve
from areal.utils.hf_utils import load_hf_tokenizer
from areal.utils.network import gethostip

# A server that is gone loses its name after so many seconds.
NAME_TTL_S = 60.0


def serve(
    host: str, port: int, model: str | None = None, argv: Sequence[str] = (), backend: str = ""
) -> None:
    """Serve a model until this process is told to end.

    Args:
        host: Where to listen.
        port: 0 takes a free one.
        model: A checkpoint folder or hub id; None takes the model of a configuration.
        argv: ``--config FILE key=value ...``, where there is no ``model``.
        backend: "fsdp:d1" for the model as transformers has it, "archon:d1" for the Archon one;
            "" takes the configuration's, else the first.

    Raises:
        ConfigError: The model cannot be made, or the address cannot be listened on.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    require_key(host, key)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    if PARENT_VARIABLE in os.environ:
        die_with(int(os.environ[PARENT_VARIABLE]))
    if model is not None:
        weights, tokenizer, seed = load_checkpoint(model, backend or "fsdp:d1")
    else:
        weights, tokenizer, seed = load_from_config(argv, backend)
    limit_threads(weights)
    engine = LocalInferenceEngine(InferenceEngineConfig(backend="local:d1"), weights, seed)
    server = InferenceServer(engine, tokenizer, model or "", host, port, key)
    engine.initialize()
    try:
        address = server.start()
        print(f"areal serve: listening on {address}", flush=True)
        _give_name(address)
        ended.wait()
    finally:
        server.stop()
        engine.destroy()


def _give_name(address: str) -> None:
    """Name the address where a launcher on another machine has asked for that."""
    if (folder := os.environ.get(NAMES_VARIABLE)) is None:
        return
    host, _, port = address.removeprefix("http://").rpartition(":")
    reached = gethostip() if host == "0.0.0.0" else host
    name_resolve.reconfigure(NameResolveConfig(type="nfs", nfs_record_root=folder))
    name_resolve.add(
        os.environ[NAME_VARIABLE], f"{reached}:{port}", keepalive_ttl=NAME_TTL_S, replace=True
    )


def load_checkpoint(path: str, backend: str) -> tuple[SharedWeights, Any, int]:
    """Return the model of a checkpoint whole, its tokenizer and a seed.

    Raises:
        ConfigError: It cannot be loaded.
    """
    check_local_path(path)
    settings = TrainEngineConfig(
        experiment_name="serve", trial_name="serve", path=path, backend=backend
    )
    try:
        tokenizer = load_hf_tokenizer(base_model_path(path))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load the tokenizer of {path!r}: {error}") from error
    device = resolve_device()
    model = train_engine_class(backend).load_model(
        settings, resolve_dtype(settings.dtype, device), device
    )
    return SharedWeights(model), tokenizer, 1


def load_from_config(argv: Sequence[str], backend: str = "") -> tuple[SharedWeights, Any, int]:
    """Return the model of a configuration whole, its tokenizer and the run's seed.

    Raises:
        ConfigError: The configuration is of a training without rollouts, or names no model.
    """
    kind = choose_config_class(argv)
    if not issubclass(kind, PPOConfig):
        raise ConfigError(f"{kind.__name__} has no rollouts to serve; train_dataset.type rl has")
    config = load_expr_config(argv, kind)[0]
    # However many processes train it, a server holds the whole model.
    family = ModelAllocation.from_str(backend or config.actor.backend).backend
    # A trainer's adapter comes with its first update, alone or merged.
    actor = dataclasses.replace(config.actor, backend=f"{family}:d1", use_lora=False)
    tokenizer = make_tokenizer(config, actor)
    weights = make_weights(config, actor, tokenizer)
    weights.lm.turn_off_dropout()
    return weights, tokenizer, config.seed
