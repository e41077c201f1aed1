"""What a configuration of policy optimisation is refused for, before anything is made."""

from __future__ import annotations

from areal.api.cli_args import PPOConfig
from areal.api.config.field_check import check_fields
from areal.api.errors import ConfigError
from areal.api.registry import import_from_string
from areal.trainer.runtime import uses_servers


def check_ppo_config(config: PPOConfig) -> None:
    """Refuse combinations that would train on something else than what was asked for.

    Raises:
        ConfigError: Says which keys, and what to set.
    """
    check_fields(config)
    temperature = 1.0 if config.gconfig.greedy else config.gconfig.temperature
    if config.actor.temperature != temperature:
        raise ConfigError(
            f"actor.temperature is {config.actor.temperature} and gconfig.temperature "
            f"{temperature}: the "
            "log-probabilities of trainer and rollout would differ; set both to one value"
        )
    if config.actor.kl_ctl > 0 and config.ref is None:
        raise ConfigError(
            f"actor.kl_ctl is {config.actor.kl_ctl} and there is no ref model to stay "
            "close to; describe one in ref, "
            "or set actor.kl_ctl=0"
        )
    _check_lora(config)
    _check_functions(config)


def _check_lora(config: PPOConfig) -> None:
    if not config.rollout.use_lora:
        return
    if not config.actor.use_lora:
        raise ConfigError(
            "rollout.use_lora has servers generate with the adapter that actor.use_lora trains, "
            "which is false; set both"
        )
    mode = config.actor.weight_update_mode
    if uses_servers(config) and mode != "disk":
        raise ConfigError(
            f"actor.weight_update_mode is {mode!r}, and servers take adapters from disk: set it to "
            "disk, or rollout.use_lora to false, and they get merged weights"
        )
    assert config.eval_gconfig is not None
    names = config.gconfig.lora_name, config.eval_gconfig.lora_name
    if names[0] != names[1]:
        raise ConfigError(
            f"gconfig.lora_name is {names[0]!r} and eval_gconfig.lora_name {names[1]!r}: a run has "
            "one adapter; set both to one name"
        )


def _check_functions(config: PPOConfig) -> None:
    """Refuse import paths of functions that lead nowhere."""
    paths = {"run.dynamic_filter": config.run.dynamic_filter}
    if isinstance(config.actor.gae_lambda, str):
        paths["actor.gae_lambda"] = config.actor.gae_lambda
    for key, path in paths.items():
        if not path:
            continue
        try:
            found = import_from_string(path)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(f"{key}: cannot import {path!r}: {error}") from error
        if not callable(found):
            raise ConfigError(f"{key}: {path!r} is {type(found).__name__}, not a function")
