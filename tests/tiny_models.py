"""Tiny Hugging Face models with random weights, large enough that every part of them matters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

VOCAB_SIZE = 40

_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
# What makes an architecture show its peculiarity at this scale.
_PECULIARITIES: dict[str, dict[str, Any]] = {
    "exaone4": {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "gemma2": {"sliding_window": 4},
    "gemma3_text": {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64},
    "gpt_oss": {"num_local_experts": 4, "sliding_window": 4},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "llama4_text": {"num_local_experts": 2, "attention_chunk_size": 4},
    "mistral": {"sliding_window": 4},
    "qwen2": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "qwen3_moe": _EXPERTS,
}


def tiny_model(architecture: str = "qwen3", seed: int = 0, **options: Any) -> nn.Module:
    """Makes a causal language model in evaluation mode.

    Args:
        architecture: The model type as transformers spells it.
        seed: Of the weights.
        **options: Fields of its configuration.
    """
    fields = {**_SIZES, **_PECULIARITIES.get(architecture, {}), **options}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = AutoConfig.for_model(architecture, **fields)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for parameter in model.parameters():
                # Fresh weights of 0.02 give all but equal logits, and fresh norms and biases hide
                # errors in them.
                scale = 0.3 if parameter.ndim > 1 else 0.2
                noise = scale * torch.randn(parameter.shape)
                parameter.copy_(noise if parameter.ndim > 1 else parameter + noise)
    return model.eval()


def random_prompts(lengths: list[int], seed: int = 0) -> list[list[int]]:
    """Returns token ids without padding and end-of-sequence, of the given lengths."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(2, VOCAB_SIZE, (n,), generator=generator).tolist() for n in lengths]
