"""Qwen3 against transformers, one sequence at a time in fp32."""

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from areal.experimental.models.archon import get_model_spec

# HF one sequence at a time is the truth. Both sides round in fp32, in another order.
TOLERANCE = 1e-5

TINY = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
}
VARIATIONS = {
    "default": {},
    "biases": {"attention_bias": True},
    "tied": {"tie_word_embeddings": True},
    "window": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "gelu": {"hidden_act": "gelu"},
    "theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    "ignored_share": {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 500.0,
            "partial_rotary_factor": 0.5,
        }
    },
    "linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}},
}
LENGTHS = (5, 17, 1, 17, 9)


def random_reference(**changes):
    torch.manual_seed(0)
    reference = Qwen3ForCausalLM(Qwen3Config(**{**TINY, **changes})).eval()
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter, mean=0.0 if parameter.dim() > 1 else 0.5, std=0.2)
    return reference


def build(reference, **kwargs):
    spec = get_model_spec("qwen3")
    args = spec.model_args_class.from_hf_config(reference.config, **kwargs)
    model = spec.model_class(args)
    state = spec.state_dict_adapter_class(reference.config).from_hf(reference.state_dict())
    model.load_state_dict(state, strict=True)
    return model


def packed(lengths, vocab_size=97):
    torch.manual_seed(1)
    tokens = torch.randint(vocab_size, (1, sum(lengths)))
    positions = torch.cat([torch.arange(n) for n in lengths])[None]
    cu_seqlens = torch.tensor([0, *lengths]).cumsum(0).int()
    return tokens, positions, cu_seqlens, max(lengths)


@pytest.mark.parametrize("attn_type", ["varlen", "sdpa"])
@pytest.mark.parametrize("variation", VARIATIONS)
def test_logits_equal_those_of_transformers(variation, attn_type):
    reference = random_reference(**VARIATIONS[variation])
    model = build(reference, attn_type=attn_type)
    tokens, *rest = packed(LENGTHS)
    with torch.no_grad():
        expected = torch.cat([reference(x).logits for x in tokens.split(LENGTHS, dim=1)], dim=1)
        logits = model(tokens, *rest)
    assert logits.shape == expected.shape
    assert (logits - expected).abs().max() < TOLERANCE * expected.std()


@pytest.mark.parametrize("variation", VARIATIONS)
def test_gradients_equal_those_of_transformers(variation):
    reference = random_reference(**VARIATIONS[variation]).train()
    model = build(reference)
    tokens, *rest = packed(LENGTHS)
    torch.manual_seed(2)
    direction = torch.randn(1, sum(LENGTHS), 97)
    logits = torch.cat([reference(x).logits for x in tokens.split(LENGTHS, dim=1)], dim=1)
    (logits * direction).sum().backward()
    (model(tokens, *rest) * direction).sum().backward()
    adapter = get_model_spec("qwen3").state_dict_adapter_class(reference.config)
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    if model.model_args.enable_weight_tying:
        found["output.weight"] = found["tok_embeddings.weight"]
    found = adapter.to_hf(found)
    for name, parameter in reference.named_parameters():
        error = (found[name] - parameter.grad).abs().max()
        # Norm weights and biases sum over all tokens, which cancels: 10 times that of logits.
        assert error < 10 * TOLERANCE * parameter.grad.std(), name
