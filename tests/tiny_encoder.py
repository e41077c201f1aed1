"""A written Archon encoder: the reviewed files of ModernBERT, as a project has its own model."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import ModernBertConfig

import areal.experimental.models.archon as archon
from areal.experimental.models.archon import model_spec

TREES = Path(__file__).parent / "golden" / "trees" / "archon"


@contextmanager
def registered_encoder() -> Iterator[Any]:
    """Registers the model while a block runs, and yields its spec."""
    archon.__path__.append(str(TREES))
    module = importlib.import_module("areal.experimental.models.archon.modernbert.spec")
    spec = model_spec.register_model_spec(module.MODERNBERT_SPEC)
    try:
        yield spec
    finally:
        del model_spec._REGISTERED["modernbert"]
        archon.__path__.remove(str(TREES))


def tiny_encoder_config(**fields: Any) -> ModernBertConfig:
    """Returns a configuration with full attention and windows on both sides."""
    sizes = {
        "vocab_size": 40,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "local_attention": 4,
    }
    tokens = dict.fromkeys(
        ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0
    )
    return ModernBertConfig(**{**sizes, **tokens, "num_labels": 1, **fields})
