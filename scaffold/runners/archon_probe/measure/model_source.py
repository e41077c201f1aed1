"""Resolve a request to a model of transformers that can be ported, or refuse it."""

from __future__ import annotations

import difflib
import hashlib
import json
from pathlib import Path
from typing import Any

import transformers
from transformers import CONFIG_MAPPING, AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import (
    CONFIG_MAPPING_NAMES,
    model_type_to_module_name,
)

from archon_probe.errors import ProbeError
from archon_probe.measure.tasks import is_encoder

ROPE_FIELDS = ("rope_parameters", "rope_scaling")
MODALITIES = ("vision", "visual", "audio", "speech", "image", "video")
"""Words in the names of tensors that no language model has."""


def resolve(request: dict[str, Any]) -> Any:
    """Return the configuration of the language model that a request names.

    Args:
        request: ``model_type``; ``config``, the content of a config.json, or None;
            ``checkpoint``, a folder or None; ``text_only``; ``trust_remote_code``.

    Returns:
        A configuration of transformers; of a composite one, the part for text.

    Raises:
        ProbeError: It is no language model that transformers itself has.
    """
    model_type, given = request["model_type"], request.get("config")
    _check_own_code(model_type, given, bool(request.get("trust_remote_code")))
    if not is_encoder(model_type):
        _check_decoder(model_type)
    _check_rope(given)
    config = _build(model_type, given, request.get("checkpoint"))
    if is_encoder(model_type) and getattr(config, "is_decoder", False):
        raise _no_decoder(model_type, "an encoder, and is_decoder=True makes a decoder of it")
    text = config.get_text_config(decoder=True)
    _check_heads(text, model_type)
    # A configuration of several parts: its checkpoint may hold an encoder of images that would be
    # lost.
    if text is not config and not request.get("text_only"):
        _check_text_tensors(request.get("checkpoint"), model_type)
    return text


def model_types() -> dict[str, str]:
    """Return every model_type that may be measured, with a hash of its source.

    These are the decoders of transformers, and the encoders that score sequences.
    """
    models = Path(transformers.__file__).parent / "models"
    found: dict[str, str] = {}
    causal = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    for model_type in sorted({*causal, *modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES}):
        try:
            if not is_encoder(model_type):
                _check_decoder(model_type)
        except ProbeError:
            continue
        folder = models / model_type_to_module_name(model_type)
        # Sorted, so that a hash is the same on every file system.
        texts = [path.read_bytes() for path in sorted(folder.glob("*.py"))]
        found[model_type] = hashlib.sha256(b"\0".join(texts)).hexdigest()
    return found


def _check_own_code(model_type: str, given: dict[str, Any] | None, is_trusted: bool) -> None:
    if model_type in CONFIG_MAPPING_NAMES:
        return
    if given and given.get("auto_map"):
        if is_trusted:
            return
        raise ProbeError(
            f"transformers has no model {model_type!r}: its code comes with the checkpoint",
            code="remote_code",
            hint="read that code, and run it with --trust-remote-code if you trust it",
        )
    known = sorted(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    near = difflib.get_close_matches(model_type, known, n=3, cutoff=0.5)
    guess = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
    raise ProbeError(
        f"transformers has no model_type {model_type!r}{guess}",
        code="model_unknown",
        hint="name a model_type of the installed transformers, or a config.json of one",
    )


def _check_decoder(model_type: str) -> None:
    """Refuse what is no decoder of text, by the tasks that transformers has a class for."""
    if model_type not in CONFIG_MAPPING_NAMES:
        return  # of a checkpoint's own code, which somebody trusts
    if model_type in modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        raise _no_decoder(model_type, "an encoder-decoder model")
    if model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise _no_decoder(model_type, "an encoder without a model that scores sequences")
    if model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return
    # Only for the message: there is one mapping for each task.
    seen = [name for name in dir(modeling_auto) if name.endswith("_MAPPING_NAMES")]
    tasks = [n for n in seen if model_type in getattr(modeling_auto, n) and "TEXT_TO_TEXT" in n]
    what = "multimodal" if tasks else "not a language model"
    raise _no_decoder(model_type, f"{what}: it is not in the causal-LM mapping of transformers")


def _no_decoder(model_type: str, what: str) -> ProbeError:
    return ProbeError(
        f"{model_type!r} is {what}; Archon trains text decoders, and encoders as reward models",
        code="model_unsuited",
        hint="name a causal language model, such as the text part of this one, or an encoder with "
        "a ForSequenceClassification class",
    )


def _build(model_type: str, given: dict[str, Any] | None, checkpoint: str | None) -> Any:
    try:
        if model_type not in CONFIG_MAPPING:  # trusted; see `_check_own_code`
            return AutoConfig.from_pretrained(checkpoint, trust_remote_code=True)
        cls = CONFIG_MAPPING[model_type]
        return cls.from_dict(dict(given)) if given else cls()
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        raise ProbeError(
            f"transformers refuses the configuration of {model_type!r}: {text}",
            code="config_invalid",
            hint="fix the config.json",
        ) from error


def _check_rope(given: dict[str, Any] | None) -> None:
    known = {"default", *ROPE_INIT_FUNCTIONS}
    for kind in sorted(_rope_kinds(given or {}) - known):
        near = difflib.get_close_matches(kind, known, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ";"
        raise ProbeError(
            f"the rope type {kind!r} is unknown{guess} known: {', '.join(sorted(known))}",
            code="rope_unknown",
            hint="fix rope_type in the config.json",
        )


def _rope_kinds(config: dict[str, Any]) -> set[str]:
    """Return every rope type that a configuration names, at the top or for a type of layer."""
    found: set[str] = set()
    for name, value in config.items():
        if name in ROPE_FIELDS and isinstance(value, dict):
            # One dictionary for all layers, or one for each type of layer inside it.
            rows = [value, *(each for each in value.values() if isinstance(each, dict))]
            found |= {str(row[key]) for row in rows for key in ("rope_type", "type") if key in row}
        elif isinstance(value, dict):
            found |= _rope_kinds(value)
    return found


def _check_heads(config: Any, model_type: str) -> None:
    """Refuse what has no attention; a configuration may call the number of heads otherwise."""
    if "num_attention_heads" not in {*config.to_dict(), *config.attribute_map}:
        raise ProbeError(
            f"{model_type!r} has no attention heads by its configuration "
            f"({type(config).__name__}); Archon trains transformers with attention",
            code="model_unsuited",
            hint="name a model with attention layers",
        )


def _check_text_tensors(checkpoint: str | None, model_type: str) -> None:
    names = tensor_names(Path(checkpoint)) if checkpoint else []
    foreign = [name for name in names if any(word in name.lower() for word in MODALITIES)]
    if foreign:
        raise ProbeError(
            f"the checkpoint of {model_type!r} holds {len(foreign)} tensors that are not of its "
            f"language model, such as {foreign[0]}",
            code="model_unsuited",
            hint="--text-only ports the language model and leaves them out",
        )


def tensor_names(folder: Path) -> list[str]:
    """Return the names of the tensors in a checkpoint, from its index or the files' heads.

    Raises:
        ProbeError: A file cannot be read.
    """
    index = folder / "model.safetensors.index.json"
    try:
        if index.is_file():
            return sorted(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
        found: list[str] = []
        for path in sorted(folder.glob("*.safetensors")):
            with path.open("rb") as file:
                # The head of a safetensors file: its length, then JSON; no tensor is read.
                size = int.from_bytes(file.read(8), "little")
                found += [name for name in json.loads(file.read(size)) if name != "__metadata__"]
        return sorted(found)
    except (OSError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise ProbeError(
            f"the checkpoint in {folder} cannot be read: {type(error).__name__}: {error}",
            code="checkpoint_invalid",
            hint="download it again",
        ) from error
