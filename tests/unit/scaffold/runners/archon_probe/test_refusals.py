"""What a generated model refuses: just the options that were not reproduced."""

from __future__ import annotations

from typing import Any

import pytest
from archon_probe.design.refusals import narrowed, refusal
from archon_probe.measure.tiny import tiny_config
from transformers import CONFIG_MAPPING

ROPE = "(getattr(hf_config, 'rope_parameters', None) or {})"


def refused(model_type: str, field: str, value: Any, what: str = "odd") -> dict[str, str] | None:
    unknown = {"values": (field, value), "module": "attention", "what": what}
    return refusal(unknown, tiny_config(model_type), CONFIG_MAPPING[model_type]())


@pytest.mark.parametrize(
    ("model_type", "field", "value", "condition"),
    [
        ("qwen3", "attention_bias", True, "hf_config.attention_bias is True"),
        ("olmo", "clip_qkv", 0.7, "hf_config.clip_qkv is not None"),
        ("olmo", "head_dim", 24, "getattr(hf_config, 'head_dim', None) is not None"),
        ("olmo", "is_odd", True, "getattr(hf_config, 'is_odd', None) is True"),
        (
            "mpt",
            "attn_config.softmax_scale",
            0.7,
            "hf_config.attn_config.softmax_scale is not None",
        ),
        (
            "mpt",
            "tie_word_embeddings + attn_config.softmax_scale",
            [False, 0.7],
            "hf_config.tie_word_embeddings is False"
            " and hf_config.attn_config.softmax_scale is not None",
        ),
        (
            "opt",
            "word_embed_proj_dim",
            48,
            "hf_config.word_embed_proj_dim != hf_config.hidden_size",
        ),
        (
            "hunyuan_v1_dense",
            "rope_parameters + rope_parameters.alpha",
            [{"rope_type": "dynamic", "factor": 4.0}, 1.7],
            f"{ROPE}.get('alpha') is not None",
        ),
        (
            "ministral3",
            "rope_parameters.llama_4_scaling_beta",
            0.07,
            f"{ROPE}.get('llama_4_scaling_beta') != 0.1",
        ),
        ("modernbert-decoder", "local_attention", None, "hf_config.local_attention is None"),
        (
            "granite_swa",
            "layer_rope_theta",
            [1e4, 2e4, 1e4, 2e4],
            "len(set(map(str, hf_config.layer_rope_theta or []))) > 1",
        ),
        ("granite_swa", "layer_rope_theta", [], "not hf_config.layer_rope_theta"),
        (
            "gemma2",
            "layer_types",
            ["full_attention"] * 4,
            "set(map(str, hf_config.layer_types or [])) == {'full_attention'}",
        ),
        ("gemma2", "layer_types", ["full_attention", "sliding_attention"] * 2, None),
        ("qwen3_moe", "mlp_only_layers", [1], "bool(hf_config.mlp_only_layers)"),
        ("gpt2", "n_embd", 48, None),
        ("youtu", "rope_interleave", False, "hf_config.rope_interleave is False"),
        ("youtu", "rope_parameters", {"rope_type": "yarn", "factor": 4.0}, None),
        (
            "youtu",
            "rope_parameters",
            {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.25},
            f"{ROPE}.get('partial_rotary_factor') not in (None, 1.0)",
        ),
        (
            "youtu",
            "rope_parameters",
            {"rope_theta": 3000.0, "rope_type": "default"},
            f"{ROPE}.get('rope_theta') != 10000.0",
        ),
        ("qwen3", "hidden_size", 48, None),
        ("gpt2", "n_embd + n_head", [48, 6], None),
    ],
)
def test_the_condition_names_each_flipped_field(
    model_type: str, field: str, value: Any, condition: str | None
) -> None:
    found = refused(model_type, field, value)

    assert (found and found["condition"]) == condition


def test_the_message_is_an_f_string_whatever_is_unknown() -> None:
    found = refused("qwen3", "attention_bias", True, "{'side': 'hub', 'shape': [1]} " * 9)

    assert found is not None
    config = CONFIG_MAPPING["qwen3"](attention_bias=True)
    message = eval(f'f"{found["message"]}"', {"hf_config": config})
    assert message.startswith("attention_bias=True is not reproduced (attention: {'side'")


def test_a_refusal_spares_what_a_switch_makes_right() -> None:
    made = CONFIG_MAPPING["qwen2_moe"]
    mixed = ["sliding_attention", "full_attention"]
    refused = made(num_hidden_layers=2, layer_types=mixed, use_sliding_window=False)
    spared = made(num_hidden_layers=2, layer_types=mixed, use_sliding_window=True)
    given = {"condition": "len(set(hf_config.layer_types)) > 1", "message": "odd"}

    found = narrowed(given, refused, [made(num_hidden_layers=2), spared])

    assert found["condition"] == f"{given['condition']} and hf_config.use_sliding_window is False"
    assert narrowed(given, refused, [made(num_hidden_layers=2)]) == given
    assert narrowed(given, refused, [refused]) == given
