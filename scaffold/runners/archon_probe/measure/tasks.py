"""Tell encoders, which score whole sequences, from decoders, and call both alike."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import PretrainedConfig
from transformers.models.auto import modeling_auto

LABELS = 1
"""Numbers that an encoder gives a sequence: a reward model has one."""


def is_encoder(config_or_type: PretrainedConfig | str) -> bool:
    """Return whether transformers has a model of a type that fills in masked tokens.

    Such a model is trained to score sequences, as a reward model does.
    """
    of = config_or_type
    model_type = of if isinstance(of, str) else of.model_type
    return (
        model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and model_type in modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
        and model_type not in modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    )


def head_width(config: PretrainedConfig) -> int:
    """Return how many numbers a model gives each token, or the sequence of each token."""
    return LABELS if is_encoder(config) else config.get_text_config().vocab_size


def call(model: Any, tokens: Tensor) -> Any:
    """Return what a model of transformers returns for one sequence [1, T]."""
    # Encoders have no cache, and some refuse the keyword.
    is_scoring = type(model).__name__.endswith("ForSequenceClassification")
    options = {} if is_scoring else {"use_cache": False}
    return model(input_ids=tokens, **options)


def token_logits(model: Any, tokens: Tensor) -> Tensor:
    """Return logits [T, width] of one sequence; a score of all of it counts for each token."""
    logits = call(model, tokens).logits
    return logits[0] if logits.dim() == 3 else logits.expand(tokens.shape[1], -1)
