"""Is GptOss what transformers computes?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import GptOssConfig, GptOssForCausalLM

from areal.experimental.models.archon.gpt_oss.spec import GPT_OSS_SPEC

TINY = {
    "num_hidden_layers": 4,
    "num_local_experts": 8,
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 80,
    "head_dim": 12,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "sliding_window": 4,
    "max_position_embeddings": 64,
    "rope_parameters": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 32,
        "rope_theta": 150000.0,
    },
    "num_experts_per_tok": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
}
LENGTHS = (7, 12, 3)


@dataclass(frozen=True)
class Pair:
    """Holds a model of transformers, ours with its weights, and these as on the Hub."""

    theirs: nn.Module
    ours: nn.Module
    weights: dict[str, Tensor]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    torch.manual_seed(0)
    config = GptOssConfig(**TINY)
    config._attn_implementation = "eager"
    theirs = GptOssForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    args = GPT_OSS_SPEC.model_args_class.from_hf_config(config)
    ours = GPT_OSS_SPEC.model_class(args).eval()
    ours.init_buffers("cpu")
    ours.load_state_dict(GPT_OSS_SPEC.state_dict_adapter_class(config).from_hf(weights))
    return Pair(theirs, ours, weights)


def logits_of(pair: Pair) -> tuple[Tensor, Tensor]:
    """Returns the logits of a packed batch by both models."""
    tokens = torch.randint(3, pair.theirs.config.vocab_size, (1, sum(LENGTHS)))
    positions = torch.cat([torch.arange(length) for length in LENGTHS]).unsqueeze(0)
    cu_seqlens = torch.tensor([0, *LENGTHS]).cumsum(0).int()
    ours = pair.ours(tokens, positions, cu_seqlens, max(LENGTHS))
    # Alone is the truth: transformers' own packing is wrong for some families.
    theirs = [pair.theirs(row).logits for row in tokens.split(LENGTHS, dim=1)]
    return ours, torch.cat(theirs, dim=1)


def test_logits_are_those_of_transformers(pair: Pair) -> None:
    ours, theirs = logits_of(pair)
    assert (ours - theirs).abs().max() < 1e-5 * theirs.std()


def test_gradients_are_those_of_transformers(pair: Pair) -> None:
    for logits in logits_of(pair):
        logits.logsumexp(-1).square().mean().backward()
    ours = pair.ours.tok_embeddings.weight.grad
    theirs = pair.theirs.get_input_embeddings().weight.grad
    # Both sum over the batch, in another order, so single numbers may cancel.
    assert (ours - theirs).abs().max() < 1e-4 * theirs.abs().max()


def test_weights_come_back_bit_by_bit(pair: Pair) -> None:
    adapter = GPT_OSS_SPEC.state_dict_adapter_class(pair.theirs.config)
    back = adapter.to_hf(pair.ours.state_dict())
    assert back.keys() == pair.weights.keys()
    assert all(torch.equal(back[name], pair.weights[name]) for name in back)
