from __future__ import annotations

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from areal.api.errors import ConfigError
from areal.engine.loading.huggingface import prepare_model
from areal.engine.model.shared_weights import SharedWeights


def tiny_model() -> Qwen3ForCausalLM:
    config = Qwen3Config(
        vocab_size=16,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=32,
    )
    return Qwen3ForCausalLM(config)


def test_a_model_that_ignores_plans_is_refused() -> None:
    with pytest.raises(ConfigError, match="prepare_model"):
        SharedWeights(tiny_model())


def test_a_write_counts_and_keeps_readers_out() -> None:
    weights = SharedWeights(prepare_model(tiny_model(), torch.device("cpu")))
    with weights.writing() as module:
        assert module is weights.module
    assert (weights.num_updates, weights.version) == (1, 0)
