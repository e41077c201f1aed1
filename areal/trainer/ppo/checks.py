"""What a configuration of policy optimisation is refused for, before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import PPOConfig, PPOCriticConfig
from areal.api.config.presets import CRITIC_ALGORITHMS
from areal.api.errors import ConfigError, TrainingError, TrajectoryError
from areal.api.registry import import_from_string
from areal.engine.model.image_text import ImageTextLM
from areal.trainer.base import check_actor
from areal.trainer.runtime import names_image_model, uses_servers
from areal.utils.data.containers import MULTI_MODAL_PREFIX
from areal.utils.hf_utils import load_hf_tokenizer

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from areal.engine.model.causal_lm import CausalLM
    from areal.utils.data import TensorDict


def check_ppo_config(config: PPOConfig) -> None:
    """Refuse combinations that would train on something else than what was asked for.

    Raises:
        ConfigError: Names the keys, and what to set.
    """
    check_actor(config)
    if config.run.stop_at_accuracy is not None:
        raise ConfigError(
            "run.stop_at_accuracy has no effect: rollouts have rewards; set run.stop_at_reward"
        )
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
    _check_overlong(config)
    _check_critic(config)
    _check_lora(config)
    _check_functions(config)
    _check_sight(config)


def _check_overlong(config: PPOConfig) -> None:
    """Refuse a penalty for lengths that no answer reaches."""
    actor, longest = config.actor, config.gconfig.max_new_tokens
    free = actor.max_new_tokens - (actor.overlong_tokens or 0)
    if actor.overlong_reward_penalty and longest <= free:
        raise ConfigError(
            f"actor.overlong_reward_penalty begins after {free} tokens, actor.max_new_tokens less "
            f"actor.overlong_tokens, and gconfig.max_new_tokens is {longest}: no answer gets it; "
            "set actor.max_new_tokens=${gconfig.max_new_tokens}"
        )


def _check_critic(config: PPOConfig) -> None:
    """Refuse a critic that the algorithm does not use, and one that is missing or half there."""
    algorithm, critic = config.run.algorithm, config.critic
    if critic is None:
        if algorithm == "ppo":
            raise ConfigError(
                "run.algorithm ppo has a critic and critic is null; describe it in critic, or "
                "choose an algorithm without one, such as reinforce_pp"
            )
        return
    if algorithm not in CRITIC_ALGORITHMS:
        raise ConfigError(
            f"run.algorithm {algorithm} has a baseline of its own and no use for critic; set "
            "critic=null, or run.algorithm=ppo"
        )
    if not critic.is_critic:
        raise ConfigError(
            "critic.is_critic is false, and a critic is a value model; leave it out, or set it to "
            "true"
        )
    if not critic.path and config.run.model is None:
        raise ConfigError(
            "critic.path is empty; give a checkpoint folder or a hub id, such as that of "
            "actor.path, whose language model gets a new head"
        )


def check_critic_model(
    config: PPOCriticConfig, lm: CausalLM, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Refuse a value model that reads other tokens than the actor writes.

    Raises:
        ConfigError: It has another tokenizer, or fewer tokens.
    """
    if len(tokenizer) > lm.num_embeddings:
        raise ConfigError(
            f"the tokenizer has {len(tokenizer)} tokens and critic.path {config.path!r} "
            f"{lm.num_embeddings}; choose a critic of the actor's family"
        )
    folder = Path(config.path)
    has_own = config.path and (folder / "tokenizer_config.json").is_file()
    if has_own and load_hf_tokenizer(config.path).get_vocab() != tokenizer.get_vocab():
        raise ConfigError(
            f"critic.path {config.path!r} has another tokenizer than the run: its tokens mean "
            "something else; choose a critic of the actor's family"
        )


def _check_sight(config: PPOConfig) -> None:
    """Refuse what would not see the images that an image model is trained on."""
    kind = ModelAllocation.from_str(config.rollout.backend).backend
    has_own_servers = uses_servers(config) and kind == "local"
    if not (config.critic is not None or has_own_servers) or not names_image_model(config):
        return
    if config.critic is not None:
        raise ConfigError(
            "critic is not available beside a model that takes images, as transformers has no "
            "value model that sees; set critic=null and an algorithm without one, such as "
            "run.algorithm=grpo"
        )
    raise ConfigError(
        f"rollout.backend {config.rollout.backend!r} generates on this package's own servers, "
        "which take no images; set it to local:d1 for one process, or to sglang or vllm"
    )


def check_sights(lm: CausalLM, trajectory: TensorDict) -> None:
    """Refuse a trajectory whose images and tokens do not belong together, or with no use for them.

    Raises:
        TrajectoryError: It names the sequence.
    """
    ids_BL, mask_BL = trajectory["input_ids"], trajectory["attention_mask"]
    inputs = trajectory.get(MULTI_MODAL_PREFIX)
    if inputs is None:
        if not isinstance(lm, ImageTextLM):
            return
        inputs = [{}] * len(ids_BL)
    if not isinstance(inputs, list) or len(inputs) != len(ids_BL):
        raise TrajectoryError(
            f"the workflow returned {MULTI_MODAL_PREFIX} as {type(inputs).__name__}, expected a "
            f"list of {len(ids_BL)} mappings, one for each sequence"
        )
    for number, features in enumerate(inputs):
        try:
            if isinstance(lm, ImageTextLM):
                tokens = ids_BL[number][mask_BL[number].bool()].tolist()
                lm.taken_features(tokens, features)
            elif features.get("pixel_values", torch.empty(0)).numel():
                raise ValueError("there are pixel_values, and the model takes text alone")
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise TrajectoryError(
                f"the images of sequence {number} that the workflow returned cannot be trained on: "
                f"{type(error).__name__}: {error}"
            ) from error


def check_values(values: Tensor) -> None:
    """Refuse values [B, L] that would make every advantage NaN.

    Raises:
        TrainingError: Some are not finite.
    """
    num_bad = int((~values.isfinite()).sum())
    if num_bad:
        raise TrainingError(
            f"{num_bad} of {values.numel()} values of the critic are NaN or infinite: its weights "
            "have diverged, or critic.path holds such weights. Lower critic.optimizer.lr, and go "
            "on from the last checkpoint"
        )


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
