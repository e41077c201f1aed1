"""Makes or loads the Hugging Face model that the engines of this package share."""

from __future__ import annotations

import difflib
import logging
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import nn

from areal.api.cli_args import ModelSpecConfig, VisionSpecConfig
from areal.api.errors import ConfigError
from areal.engine.loading.suitability import check_declared, check_equal, own_logits, planned_logits
from areal.engine.model.attention import IMPLEMENTATION
from areal.engine.model.causal_lm import CausalLM, HFCausalLM
from areal.engine.model.checkpoint import quiet_progress
from areal.engine.model.cpu_kernels import use_cpu_kernels
from areal.engine.model.fused_linear import fuse_siblings
from areal.engine.model.image_text import ImageTextLM
from areal.engine.model.lora import base_model_path, merge_adapter
from areal.experimental.models.archon.state_dict.adapter import fresh_head
from areal.utils.image_processors import IMAGE_END, IMAGE_START, IMAGE_TOKEN, VIDEO_TOKEN

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger("HFCheckpoint")

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
            f"run.model.architecture {spec.architecture!r} is not a transformers model type{guess}"
        )
    text = {name: getattr(spec, name) for name in _SIZES}
    text |= {
        "vocab_size": len(tokenizer),
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
    }
    config_class = CONFIG_MAPPING[spec.architecture]
    takes_images = "vision_config" in config_class.sub_configs
    if takes_images != (spec.vision is not None):
        raise ConfigError(
            f"run.model.architecture {spec.architecture!r} takes {'' if takes_images else 'no '}"
            f"images; set run.model.vision={'{}' if takes_images else 'null'}"
        )
    if spec.vision is not None:
        usual: Any = config_class()
        text = _with_vision(spec, spec.vision, usual.vision_config, text, tokenizer)
    try:
        return AutoConfig.for_model(spec.architecture, **text)
    except (ValueError, KeyError, RuntimeError) as error:
        raise _cannot_be_made(spec, error) from error


def _with_vision(
    spec: ModelSpecConfig,
    vision: VisionSpecConfig,
    usual: Any,
    text: dict[str, Any],
    tokenizer: PreTrainedTokenizerBase,
) -> dict[str, Any]:
    """Return what the configuration of a model that sees is made of.

    Args:
        spec: The model.
        vision: What it sees with.
        usual: The usual configuration of that part, which shows its names.
        text: Settings of the language model.
        tokenizer: Has the tokens for images.

    Raises:
        ConfigError: Its images do not become patches that are merged.
    """
    if not all(hasattr(usual, name) for name in ("depth", "patch_size", "spatial_merge_size")):
        raise ConfigError(
            f"run.model.architecture {spec.architecture!r} cannot be made from scratch: images "
            "become tokens by merging patches in qwen2_vl, qwen2_5_vl, qwen3_vl and their like; "
            "choose one of these, or load a model by actor.path"
        )
    # The width of what sees, and that of what it hands on, are called by turns hidden_size.
    widths = ("hidden_size", "out_hidden_size")
    width, handed_on = widths if hasattr(usual, "out_hidden_size") else ("embed_dim", widths[0])
    depth = vision.num_hidden_layers
    sizes = {
        "depth": depth,
        width: vision.hidden_size,
        handed_on: spec.hidden_size,
        "intermediate_size": 2 * vision.hidden_size,
        "mlp_ratio": 2,
        "num_heads": vision.num_attention_heads,
        "patch_size": vision.patch_size,
        "spatial_merge_size": vision.merge_size,
        "temporal_patch_size": 1,
        "fullatt_block_indexes": list(range(depth)),
        "deepstack_visual_indexes": [0],
    }
    # Time, rows and columns share the angles of a head, as in the models that are trained.
    angles = spec.head_dim // 2
    rows = (angles - angles // 4) // 2
    rope = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [angles - 2 * rows, rows, rows],
    }
    return {
        "text_config": {**text, "rope_parameters": rope},
        "vision_config": {name: size for name, size in sizes.items() if hasattr(usual, name)},
        "image_token_id": tokenizer.convert_tokens_to_ids(IMAGE_TOKEN),
        "video_token_id": tokenizer.convert_tokens_to_ids(VIDEO_TOKEN),
        "vision_start_token_id": tokenizer.convert_tokens_to_ids(IMAGE_START),
        "vision_end_token_id": tokenizer.convert_tokens_to_ids(IMAGE_END),
        "tie_word_embeddings": spec.tie_word_embeddings,
    }


def as_causal_lm(module: nn.Module) -> CausalLM:
    """Return how the engines run a prepared model.

    Raises:
        ConfigError: The model takes images in a way that they do not know.
    """
    model: Any = module
    return ImageTextLM(module) if _sees(model.config) else HFCausalLM(module)


def _sees(config: Any) -> bool:
    """Return whether a configuration is that of a language model that takes images."""
    if getattr(config, "vision_config", None) is None:
        return False
    # Models of text alone need not pay for this import.
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

    return type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING


def takes_images(path: str) -> bool:
    """Return whether a checkpoint's configuration, which alone is read, is that of an image model.

    Raises:
        ConfigError: There is no configuration.
    """
    from transformers import AutoConfig

    require_path(path)
    try:
        return _sees(AutoConfig.from_pretrained(base_model_path(path)))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load actor.path {path!r}: {error}") from error


def make_model(
    spec: ModelSpecConfig,
    tokenizer: PreTrainedTokenizerBase,
    dtype: torch.dtype,
    device: torch.device,
    stays_whole: bool = True,
    is_critic: bool = False,
) -> nn.Module:
    """Make a small causal language model with random weights that depend on ``spec.seed`` alone.

    The other arguments are those of ``load_model``.

    Raises:
        ConfigError: transformers has no such model of that architecture or these sizes.
    """
    config = make_config(spec, tokenizer)
    if is_critic:
        make_scalar(config)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(spec.seed)
        try:
            model = _auto_class(config, is_critic).from_config(config, dtype=dtype)
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
    is_critic: bool = False,
) -> nn.Module:
    """Load a causal language model from a checkpoint folder or a hub id.

    Args:
        path: The folder or id. The folder of an adapter gives the model with the adapter merged.
        dtype: Of the parameters.
        device: Where they go.
        fresh_seed: Takes the configuration alone, and random weights of this seed.
        stays_whole: Whether one process trains it; otherwise several will share it.
        is_critic: Gives it one number a token in the place of logits. The head is the checkpoint's,
            or a new one, the same on every process.

    Raises:
        ConfigError: There is no such checkpoint, or it is no such model.
    """
    from transformers import AutoConfig

    require_path(path)
    base = base_model_path(path)
    found: dict[str, Any] = {"missing_keys": ()}
    try:
        config = AutoConfig.from_pretrained(base)
        if is_critic:
            make_scalar(config)
        auto_class = _auto_class(config, is_critic)
        if fresh_seed is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(fresh_seed)
                model = auto_class.from_config(config, dtype=dtype)
        else:
            own = {"config": config} if is_critic else {}
            with quiet_progress(), _quiet_report() if is_critic else nullcontext():
                model, found = auto_class.from_pretrained(
                    base, dtype=dtype, output_loading_info=True, **own
                )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"cannot load actor.path {path!r}: {error}") from error
    # transformers fills what is missing with random numbers and mentions it in a log line.
    missing = set(found["missing_keys"])
    if is_critic:
        head = _renew_head(model, missing)
        if head:
            logger.warning("%s has no %s: initialised afresh", path, ", ".join(sorted(head)))
        missing -= head
    if missing:
        raise ConfigError(
            f"the checkpoint actor.path {path!r} lacks weights: {', '.join(sorted(missing))}"
        )
    try:
        model = prepare_model(model, device, stays_whole)
        return model if base == path else merge_adapter(model, path)
    except ConfigError as error:
        raise ConfigError(f"actor.path {path!r}: {error}") from error


def make_scalar(config: Any) -> None:
    """Change a configuration to that of a critic, which has one number a token.

    A head without a bias, and without a dropout that nobody asked for, is what Archon's critics
    have; a checkpoint of a critic keeps its own.
    """
    # The head of a classifier of sequences has no bias either.
    if not any("TokenClassification" in each for each in config.architectures or ()):
        config.token_classification_bias = False
        config.classifier_dropout = 0.0
    config.num_labels = 1
    config.architectures = None


def _auto_class(config: Any, is_critic: bool) -> Any:
    """Return the class of transformers that makes a causal language model or a critic.

    Raises:
        ConfigError: transformers has no critic of the model's type, or it is an encoder.
    """
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
        AutoModelForTokenClassification,
    )
    from transformers.models.auto import (
        MODEL_FOR_MASKED_LM_MAPPING,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
        MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
    )

    kind = type(config)
    has_decoder = kind in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
    has_decoder |= bool(getattr(config, "is_decoder", False))
    if kind in MODEL_FOR_MASKED_LM_MAPPING and not has_decoder:
        raise ConfigError(
            f"{config.model_type} is an encoder, whose tokens see later ones, and the attention of "
            "this backend hides them; the backend archon:d1 trains encoders as reward models"
        )
    if not is_critic:
        return AutoModelForImageTextToText if _sees(config) else AutoModelForCausalLM
    if _sees(config):
        raise ConfigError(
            f"{config.model_type} takes images, and transformers has no model that does and gives "
            "values or scores; name a model of text alone"
        )
    if type(config) not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING:
        raise ConfigError(
            f"transformers has no model for token classification of type {config.model_type!r}, "
            "which a critic is made of; choose another model, or the backend archon:d1"
        )
    return AutoModelForTokenClassification


@contextmanager
def _quiet_report() -> Iterator[None]:
    """Keep transformers from reporting what a critic does not share with a language model."""
    from transformers.utils import logging as its_logging

    before = its_logging.get_verbosity()
    its_logging.set_verbosity_error()
    try:
        yield
    finally:
        its_logging.set_verbosity(before)


def _renew_head(model: Any, missing: Collection[str]) -> set[str]:
    """Draw the head of a critic that a language model's checkpoint lacks; return its names."""
    backbone = f"{model.base_model_prefix}."
    head = {name for name in missing if not name.startswith(backbone)}
    with torch.no_grad():
        for name in head:
            parameter = model.get_parameter(name)
            parameter.copy_(fresh_head(tuple(parameter.shape)))
    return head


def require_path(path: str) -> None:
    """Refuse an empty path.

    Raises:
        ConfigError: Names what to set.
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
        text = model.config.get_text_config()
        has_parts = text is not model.config
        # What sees attends in its own way, and not by plans.
        model.set_attn_implementation(
            {_part_of_text(model.config): IMPLEMENTATION} if has_parts else IMPLEMENTATION
        )
    if device.type == "cpu" and stays_whole:
        use_cpu_kernels(model)
        fuse_siblings(model)
    try:
        found = planned_logits(as_causal_lm(model))
    except (ConfigError, RuntimeError, TypeError) as error:
        raise ConfigError(
            f"{type(model).__name__} does not run in the embedded engine: {error}"
        ) from error
    check_equal(model, expected, found)
    model.train(was_training)
    return model


def _part_of_text(config: Any) -> str:
    """Return under which name a configuration of several parts has that of its language model."""
    text = config.get_text_config()
    return next(name for name in config.sub_configs if getattr(config, name) is text)
