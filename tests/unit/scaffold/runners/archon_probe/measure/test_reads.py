"""What a model asks of its configuration, declared or not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from archon_probe.measure.random_weights import build_model
from archon_probe.measure.reads import Reads, reading, stated_default
from archon_probe.measure.tiny import tiny_config, undeclared_fields
from archon_probe.measure.variations import LEFT_OUT, Varied, vary
from transformers import CONFIG_MAPPING


def reads_of(config: Any) -> Reads:
    reads = Reads()
    with torch.no_grad(), reading(config, reads) as watched:
        build_model(watched).eval()(input_ids=torch.arange(9)[None], use_cache=False)
    return reads


def test_a_field_that_no_class_declares_is_found_where_it_is_asked_for() -> None:
    place = reads_of(tiny_config("qwen2")).lacking["head_dim"]
    assert str(place) == "modeling_qwen2.py, __init__"
    assert "head_dim" in reads_of(tiny_config("llama")).found


def test_a_field_of_a_part_has_a_dotted_name() -> None:
    reads = reads_of(tiny_config("dbrx"))
    assert {"attn_config.clip_qkv", "ffn_config.moe_top_k"} <= reads.found


def test_keys_of_a_mapping_are_found_with_those_that_it_lacks() -> None:
    config = tiny_config("llama")
    config.rope_parameters = {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 2.0,
        "original_max_position_embeddings": 16,
    }
    reads = reads_of(config)
    assert {"factor", "rope_theta"} <= reads.keys["rope_parameters"]
    assert {"beta_fast", "mscale", "truncate"} <= reads.lacking_keys["rope_parameters"]


def test_a_class_is_watched_no_longer_than_it_has_to_be() -> None:
    config = tiny_config("qwen2")
    before, reads = type(config).__getattribute__, Reads()
    with reading(config, reads):
        assert type(config).__getattribute__ is not before
    assert type(config).__getattribute__ is before
    assert "__getattribute__" not in vars(type(config))


def test_the_default_of_a_read_is_that_of_the_source() -> None:
    lacking = reads_of(tiny_config("longcat_flash")).lacking
    assert stated_default("is_causal", lacking["is_causal"]) is True
    assert stated_default("router_bias", lacking["router_bias"]) is False
    assert stated_default("head_dim", reads_of(tiny_config("qwen2")).lacking["head_dim"]) is None


@pytest.mark.parametrize(
    ("model_type", "names"),
    [
        ("qwen2", {"head_dim=24", "is_causal=False"}),
        ("qwen3_moe", {"head_dim=8", "per_layer_config={1: {'intermediate_size': 56}}"}),
        ("emu3", {"attention_bias=True", "mlp_bias=True", "rope_theta=3000.0"}),
        ("llama", {"original_max_position_embeddings=16", "partial_rotary_factor=0.5"}),
        # Keys of rotations that no other model asks for, absent and there.
        (
            "hunyuan_v1_dense",
            {"rope_parameters=rope_type dynamic factor 4.0 + rope_parameters.alpha=1.7"},
        ),
        ("ministral3", {"rope_parameters.llama_4_scaling_beta=0.06999999999999999"}),
    ],
)
def test_undeclared_fields_are_varied(model_type: str, names: set[str]) -> None:
    assert names <= {variation.name for variation in vary(tiny_config(model_type)).variations}


def test_what_is_not_varied_has_its_reason() -> None:
    varied = vary(tiny_config("dbrx"))
    assert varied.unvaried["use_cache"] == "never read while the model is built and run"
    assert varied.unvaried["resid_pdrop"].startswith("dropout, which is off when a policy")
    assert varied.unvaried["tie_word_embeddings"].startswith("its class refuses other values")
    assert varied.unvaried["head_dim"].startswith("transformers does not run with other values")
    flipped = {f for v in varied.variations for f in v.field.split(" + ")}
    assert not flipped & varied.unvaried.keys()


@pytest.fixture(scope="module")
def stated() -> tuple[Any, Varied]:
    """Returns a tiny config of a checkpoint that states undeclared fields, and its variations."""
    config = CONFIG_MAPPING["qwen2"](pool_type="last", class_num=0, head_dim=128)
    small = tiny_config(config)
    return small, vary(small)


def test_a_field_that_a_checkpoint_states_undeclared_is_shrunk_and_left_out(stated: Any) -> None:
    config, varied = stated
    assert "head_dim" in undeclared_fields(config)
    assert config.head_dim == 24
    without = {v.name: v.config for v in varied.variations}[f"head_dim={LEFT_OUT}"]
    assert not hasattr(without, "head_dim")


def test_a_field_that_a_checkpoint_states_and_nothing_reads_is_not_varied(stated: Any) -> None:
    _, varied = stated
    flipped = {f for v in varied.variations for f in v.field.split(" + ")}
    assert not {"pool_type", "class_num"} & flipped
    assert "head_dim" in flipped
    for name in ("pool_type", "class_num"):
        assert varied.unvaried[name] == "never read while the model is built and run"
