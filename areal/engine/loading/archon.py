"""Makes or loads the Archon model that the engines share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import nn

from areal.api.cli_args import ArchonEngineConfig, ModelSpecConfig
from areal.api.errors import ConfigError
from areal.engine.loading.huggingface import make_config, make_scalar, require_path
from areal.engine.loading.suitability import apart_logits, check_equal, planned_logits
from areal.engine.model.archon import ArchonCausalLM
from areal.engine.model.cpu_kernels import use_cpu_kernels
from areal.engine.model.fused_linear import fuse_siblings
from areal.experimental.models.archon import (
    ModelSpec,
    get_model_spec,
    get_supported_model_types,
    is_supported_model,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def make_archon_model(
    spec: ModelSpecConfig,
    tokenizer: PreTrainedTokenizerBase,
    dtype: torch.dtype,
    device: torch.device,
    options: ArchonEngineConfig,
    is_critic: bool = False,
) -> ArchonCausalLM:
    """Make a small model with random weights that depend on ``spec.seed`` alone.

    Raises:
        ConfigError: There is no Archon model of that architecture, or not with these sizes.
    """
    what = f"run.model.architecture {spec.architecture!r}"
    config = make_config(spec, tokenizer)
    lm = build_archon_model(config, dtype, device, options, what, is_critic)
    _draw_weights(lm.module, spec.seed)
    return lm


def load_archon_model(
    path: str,
    dtype: torch.dtype,
    device: torch.device,
    options: ArchonEngineConfig,
    fresh_seed: int | None = None,
    is_critic: bool = False,
) -> ArchonCausalLM:
    """Load a model from a Hugging Face checkpoint folder or a hub id.

    Args:
        path: The folder or id.
        dtype: Of the parameters.
        device: Where they go.
        options: Of the engine.
        fresh_seed: Takes the configuration alone, and random weights of this seed.
        is_critic: Gives it one number a token in the place of logits. The head is the checkpoint's,
            or a new one.

    Raises:
        ConfigError: There is no such checkpoint, no Archon model for it, or it is damaged.
    """
    from transformers import AutoConfig

    require_path(path)
    what = f"actor.path {path!r}"
    try:
        hf_config = AutoConfig.from_pretrained(path)
        folder = _local_folder(path, with_weights=fresh_seed is None)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"cannot load {what}: {error}") from error
    lm = build_archon_model(hf_config, dtype, device, options, what, is_critic)
    lm.source = folder
    if fresh_seed is None:
        try:
            lm.read(folder)
        except ConfigError as error:
            raise ConfigError(f"cannot load {what}: {error}") from error
    else:
        _draw_weights(lm.module, fresh_seed)
    return lm


def require_archon_model(model_type: str, what: str) -> ModelSpec:
    """Return what the package knows of a model_type.

    Args:
        model_type: As Hugging Face spells it.
        what: The key of the configuration that asks, for the message.

    Raises:
        ConfigError: No Archon model implements it; the message has how to make one.
    """
    if not is_supported_model(model_type):
        known = ", ".join(sorted(get_supported_model_types()))
        raise ConfigError(
            f"{what}: there is no Archon model for model_type {model_type!r}. "
            f"`scaffold add-archon-model {model_type}` writes one; known: {known}. "
            "The backend fsdp:d1 trains Hugging Face's own"
        )
    found: ModelSpec = get_model_spec(model_type)
    return found


def build_archon_model(
    hf_config: Any,
    dtype: torch.dtype,
    device: torch.device,
    options: ArchonEngineConfig,
    what: str,
    is_critic: bool = False,
) -> ArchonCausalLM:
    """Make a model with memory for its parameters and nothing in it.

    Args:
        hf_config: What to make.
        dtype: Of the parameters.
        device: Where they go.
        options: Of the engine.
        what: The key of the configuration that asks, for messages.
        is_critic: Gives it one number a token in the place of logits.

    Raises:
        ConfigError: No Archon model implements the configuration.
    """
    model_spec = require_archon_model(hf_config.model_type, what)
    if is_critic:
        make_scalar(hf_config)
    try:
        args = model_spec.model_args_class.from_hf_config(
            hf_config,
            is_critic=is_critic,
            attn_type=options.attn_type,
            router_dtype=options.moe_router_dtype,
        )
        with default_dtype(dtype), torch.device("meta"):
            module = model_spec.model_class(args)
    except ConfigError as error:
        raise ConfigError(f"{what}: {error}") from error
    module.to_empty(device=device)
    module.tie_weights()  # to_empty gives every name a tensor of its own
    module.init_buffers(device)
    return ArchonCausalLM(module.eval(), hf_config, model_spec, options, try_plans=try_plans)


def try_plans(lm: ArchonCausalLM) -> None:
    """Compare what a model computes by the plans of the embedded engine with what it does without.

    Raises:
        ConfigError: It does not run by plans, or its logits differ by more than rounding.
    """
    was_training = lm.module.training
    lm.module.eval()
    try:
        found = planned_logits(lm)
    except (ConfigError, RuntimeError) as error:
        raise ConfigError(
            f"{type(lm.module).__name__} does not run in the embedded engine: {error}"
        ) from error
    check_equal(lm.module, apart_logits(lm), found)
    lm.module.train(was_training)


def _draw_weights(module: nn.Module, seed: int) -> None:
    model: Any = module
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model.init_weights()


def prepare_archon_model(lm: ArchonCausalLM) -> ArchonCausalLM:
    """Let a model that has its weights, and stays whole, use what is fast on its device."""
    if lm.device.type == "cpu" and not lm.options.enable_compile:
        use_cpu_kernels(lm.module)
        fuse_siblings(lm.module)
    return lm


def _local_folder(path: str, with_weights: bool) -> str:
    if Path(path).is_dir() or not with_weights:
        return path
    from huggingface_hub import snapshot_download

    return snapshot_download(path, allow_patterns=["*.json", "*.safetensors"])


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Make new parameters of this type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
