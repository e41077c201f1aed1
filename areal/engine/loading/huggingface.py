"""Makes or loads the Hugging Face model that the engines of this package share."""

from __future__ import annotations

import difflib
import warnings
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import nn

from areal.api.cli_args import ModelSpecConfig
from areal.api.errors import ConfigError
from areal.engine.loading.suitability import check_declared, check_equal, own_logits, planned_logits
from areal.engine.model.attention import IMPLEMENTATION
from areal.engine.model.causal_lm import HFCausalLM
from areal.engine.model.checkpoint import quiet_progress
from areal.engine.model.cpu_kernels import use_cpu_kernels
from areal.engine.model.fused_linear import fuse_siblings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
# What a description of a model and a configuration of transformers call by one name.
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "tie_word_embeddings",
)


def resolve_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the parameter type; "auto" is bfloat16 on CUDA and float32 on a CPU."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return _DTYPES[name]


def make_config(spec: ModelSpecConfig, tokenizer: PreTrainedTokenizerBase) -> Any:
    """Make the Hugging Face configuration of a model that is described by its sizes.

    Raises:
        ConfigError: transformers has no such architecture, or not with these sizes.
    """
    from transformers import CONFIG_MAPPING, AutoConfig

    if spec.architecture not in CONFIG_MAPPING:
        close = difflib.get_close_matches(spec.architecture, CONFIG_MAPPING, n=3)
        guess = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ConfigError(
            f"run.model.architecture {spec.architecture!r} is no model type of transformers{guess}"
        )
    sizes = {name: getattr(spec, name) for name in _SIZES}
    try:
        return AutoConfig.for_model(
            spec.architecture,
            vocab_size=len(tokenizer),
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            **sizes,
        )
    except (ValueError, KeyError, RuntimeError) as error:
        raise _cannot_be_made(spec, error) from error


def make_model(
    spec: ModelSpecConfig,
    tokenizer: PreTrainedTokenizerBase,
    dtype: torch.dtype,
    device: torch.device,
    stays_whole: bool = True,
) -> nn.Module:
    """Make a small causal language model with random weights that depend on ``spec.seed`` alone.

    The other arguments are those of ``load_model``.

    Raises:
        ConfigError: transformers has no causal language model of that architecture or these sizes.
    """
    from transformers import AutoModelForCausalLM

    config = make_config(spec, tokenizer)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(spec.seed)
        try:
            model = AutoModelForCausalLM.from_config(config, dtype=dtype)
        except (ValueError, KeyError, RuntimeError) as error:
            raise _cannot_be_made(spec, error) from error
    try:
        return prepare_model(model, device, stays_whole)
    except ConfigError as error:
        raise ConfigError(f"run.model.architecture {spec.architecture!r}: {error}") from error


def _cannot_be_made(spec: ModelSpecConfig, error: Exception) -> ConfigError:
    return ConfigError(f"run.model.architecture {spec.architecture!r} cannot be made: {error}")


def load_model(
    path: str,
    dtype: torch.dtype,
    device: torch.device,
    fresh_seed: int | None = None,
    stays_whole: bool = True,
) -> nn.Module:
    """Load a causal language model from a checkpoint folder or a hub id.

    Args:
        path: The folder or id.
        dtype: Of the parameters.
        device: Where they go.
        fresh_seed: Takes the configuration alone, and random weights of this seed.
        stays_whole: Whether one process trains it; otherwise several will share it.

    Raises:
        ConfigError: There is no such checkpoint, or it is no causal language model.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    require_path(path)
    found: dict[str, Any] = {"missing_keys": ()}
    try:
        if fresh_seed is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(fresh_seed)
                config = AutoConfig.from_pretrained(path)
                model = AutoModelForCausalLM.from_config(config, dtype=dtype)
        else:
            with quiet_progress():
                model, found = AutoModelForCausalLM.from_pretrained(
                    path, dtype=dtype, output_loading_info=True
                )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"cannot load actor.path {path!r}: {error}") from error
    if found["missing_keys"]:
        # transformers fills them with random numbers and says so in a log line.
        missing = ", ".join(sorted(found["missing_keys"]))
        raise ConfigError(f"the checkpoint actor.path {path!r} lacks weights: {missing}")
    try:
        return prepare_model(model, device, stays_whole)
    except ConfigError as error:
        raise ConfigError(f"actor.path {path!r}: {error}") from error


def require_path(path: str) -> None:
    """Refuse an empty path.

    Raises:
        ConfigError: Says what to set.
    """
    if not path:
        raise ConfigError(
            "actor.path is empty; give a checkpoint folder, a hub id, or a block run.model"
        )


def prepare_model(model: Any, device: torch.device, stays_whole: bool = True) -> nn.Module:
    """Move a model to its device and points its attention at the plans of ``attention``.

    Raises:
        ConfigError: The model would not compute the same as by itself.
    """
    check_declared(model)
    model.to(device)
    was_training = model.training
    model.eval()
    expected = own_logits(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_attn_implementation(IMPLEMENTATION)
    if device.type == "cpu" and stays_whole:
        use_cpu_kernels(model)
        fuse_siblings(model)
    try:
        found = planned_logits(HFCausalLM(model))
    except (ConfigError, RuntimeError) as error:
        raise ConfigError(
            f"{type(model).__name__} does not run in the embedded engine: {error}"
        ) from error
    check_equal(model, expected, found)
    model.train(was_training)
    return model
