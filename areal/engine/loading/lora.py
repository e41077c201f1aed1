"""Loads a Hugging Face model and puts a LoRA adapter into it, a new one or one from disk."""

from __future__ import annotations

import torch

from areal.api.cli_args import TrainEngineConfig
from areal.api.errors import ConfigError
from areal.engine.loading.huggingface import load_model, require_path, takes_images
from areal.engine.model.lora import (
    LoraCausalLM,
    base_model_path,
    is_adapter,
    make_config,
    read_config,
)


def load_with_adapter(
    actor: TrainEngineConfig, dtype: torch.dtype, device: torch.device
) -> LoraCausalLM:
    """Load the model of ``actor.path`` with the adapter that is to be trained.

    A path of an adapter gives the model that it names, and the adapter goes on from there.

    Raises:
        ConfigError: There is no such model, or the adapter does not fit the settings.
    """
    require_path(actor.path)
    base = base_model_path(actor.path)
    config = make_config(base, actor.lora_rank, actor.lora_alpha, actor.target_modules)
    if is_adapter(actor.path):
        begun = read_config(actor.path)
        for key, found in (("lora_rank", begun.r), ("lora_alpha", begun.lora_alpha)):
            if getattr(actor, key) != found:
                raise ConfigError(
                    f"actor.{key} is {getattr(actor, key)}, and the adapter actor.path "
                    f"{actor.path!r} has {found}; set actor.{key}={found}"
                )
        if actor.target_modules:
            begun.target_modules = config.target_modules
        config = begun
    try:
        if takes_images(base):
            raise ConfigError(
                "an adapter is not available for a model that takes images; set "
                "actor.use_lora=false, which trains all weights"
            )
        module = load_model(base, dtype, device)
        lm = LoraCausalLM(module, config)
        if is_adapter(actor.path):
            lm.read(actor.path)
    except ConfigError as error:
        raise ConfigError(f"actor.use_lora on {actor.path!r}: {error}") from error
    return lm
