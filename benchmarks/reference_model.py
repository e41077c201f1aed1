"""The model, tokenizer and prompts of all benchmarks, and transformers' copy of the model."""

from __future__ import annotations

import copy
import random
from typing import Any

import torch
from torch import nn

from areal.api.cli_args import ModelSpecConfig
from areal.engine.loading.huggingface import make_model
from areal.engine.model.shared_weights import SharedWeights
from areal.utils.character_tokenizer import character_tokenizer

SPEC = ModelSpecConfig(characters="0123456789+-*/=() ?.")


def make_reference() -> tuple[SharedWeights, Any]:
    """Make the small model of ``run.model`` with random weights, and its tokenizer."""
    tokenizer = character_tokenizer(SPEC.characters, model_max_length=SPEC.max_position_embeddings)
    model = make_model(SPEC, tokenizer, torch.float32, torch.device("cpu"))
    model.eval()
    return SharedWeights(model), tokenizer


def plain_transformers_copy(model: Any) -> nn.Module:
    """Return transformers' model with the same weights, untouched, attending by SDPA."""
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(model.config)
    theirs = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="sdpa"
    )
    theirs.load_state_dict(model.state_dict())
    theirs.eval()
    return theirs


def arithmetic_prompts(
    tokenizer: Any, count: int, equal_length: bool, seed: int
) -> list[list[int]]:
    """Draw different prompts such as "7+35=".

    Args:
        tokenizer: Encodes them.
        count: How many.
        equal_length: Both operands have two digits; otherwise one or two, as in the task.
        seed: Decides which.
    """
    rng = random.Random(seed)
    low = 10 if equal_length else 0
    drawn: dict[str, None] = {}
    while len(drawn) < count:
        drawn[f"{rng.randrange(low, 100)}+{rng.randrange(low, 100)}="] = None
    return [tokenizer.encode(text) for text in drawn]
