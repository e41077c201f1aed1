"""Tiny configs and their variations: small, whole in what they show, and runnable."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import pytest
import torch
from archon_probe.measure.random_weights import build_model, random_model
from archon_probe.measure.reads import Reads
from archon_probe.measure.tiny import field_names, tiny_config
from archon_probe.measure.variations import (
    LONGEST,
    base_values,
    variations,
    why_not_run,
)
from archon_probe.proof.reference import make_batch, run_alone
from transformers import CONFIG_MAPPING

TYPES = (
    "afmoe",
    "apertus",
    "arcee",
    "aria_text",
    "axk1",
    "beam",
    "biogpt",
    "bitnet",
    "bloom",
    "codegen",
    "cohere",
    "cohere2",
    "cohere2_moe",
    "cohere_compass_text",
    "ctrl",
    "cwm",
    "dbrx",
    "deepseek_v2",
    "deepseek_v3",
    "dots1",
    "emu3",
    "ernie4_5",
    "ernie4_5_moe",
    "exaone4",
    "exaone_moe",
    "falcon",
    "flex_olmo",
    "flint",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm",
    "glm4",
    "glm4_moe",
    "glm4_moe_lite",
    "gpt-sw3",
    "gpt2",
    "gpt_bigcode",
    "gpt_neo",
    "gpt_neox",
    "gpt_neox_japanese",
    "gpt_oss",
    "gptj",
    "granite",
    "granite_swa",
    "granitemoe",
    "granitemoe_swa",
    "granitemoeshared",
    "helium",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "hy_v3",
    "hyperclovax",
    "internlm3",
    "iquestcoder",
    "jais2",
    "kolibri1",
    "laguna",
    "llama",
    "llama4",
    "llama4_text",
    "longcat_flash",
    "mellum",
    "mimo_v2_flash",
    "minicpm3",
    "minimax_m2",
    "ministral",
    "ministral3",
    "mistral",
    "mixtral",
    "modernbert-decoder",
    "mpt",
    "nanochat",
    "nemotron",
    "olmo",
    "olmo2",
    "olmo3",
    "olmoe",
    "openai-gpt",
    "opt",
    "persimmon",
    "phi",
    "phi3",
    "phimoe",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "seed_oss",
    "smollm3",
    "solar_open",
    "stablelm",
    "starcoder2",
    "vaultgemma",
    "xglm",
    "youtu",
)
# One type for each thing that makes sizes hang together in another way.
TYPICAL = (
    "qwen3",  # derived windows
    "mpt",  # options in an inner config
    "gpt_neo",  # a counted pattern of layers
    "gpt2",  # fields of other names
    "dbrx",  # an inner config that lacks what the model reads
    "deepseek_v3",  # a latent, groups of experts
    "longcat_flash",  # each layer counts as two
    "phi3",  # a trained length
    "mimo_v2_flash",  # an odd share of a head is rotated
    "emu3",  # a composite
)


def runs(config: Any) -> bool:
    """Returns whether transformers computes finite logits with a configuration."""
    return why_not_run(config, Reads(), set()) is None


@pytest.mark.parametrize("model_type", TYPES)
def test_a_tiny_config_is_small_and_keeps_the_patterns_of_layers(model_type: str) -> None:
    default = CONFIG_MAPPING[model_type]().get_text_config(decoder=True)
    config = tiny_config(model_type)

    assert type(config) is type(default)
    assert config.hidden_size == 64
    assert config.vocab_size == 96
    assert config.num_hidden_layers <= 8
    for name in field_names(config):
        value = getattr(config, name)
        if "dropout" in name or "pdrop" in name:
            assert not value, name
        if name.endswith("_token_id") and isinstance(value, int):
            assert value < 96, name
        if isinstance(value, list) and value and isinstance(value[0], str):
            assert set(value) >= set(getattr(default, name) or ()), name


@pytest.mark.parametrize("model_type", TYPICAL)
def test_a_tiny_config_runs(model_type: str) -> None:
    assert runs(tiny_config(model_type))


@pytest.mark.slow
@pytest.mark.parametrize("model_type", TYPES)
def test_every_tiny_config_runs_with_uneven_weights(model_type: str) -> None:
    model = random_model(tiny_config(model_type))
    logits = run_alone(model, make_batch(96)).logits

    assert 0.02 < float(logits.std()) < 10


def test_a_given_config_keeps_its_options() -> None:
    given = CONFIG_MAPPING["qwen3"](
        attention_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-4, hidden_act="gelu"
    )

    config = tiny_config(given)

    assert (config.attention_bias, config.tie_word_embeddings) == (True, True)
    assert (config.rms_norm_eps, config.hidden_act, config.hidden_size) == (1e-4, "gelu", 64)


EXPECTED = [
    ("qwen3", "attention_bias=True"),
    ("qwen3", "hidden_act=gelu"),
    ("qwen3", "head_dim=24"),
    ("qwen3", "num_key_value_heads=1"),
    ("qwen3", "tie_word_embeddings=True"),
    ("qwen3", "rms_norm_eps=0.001"),
    ("qwen3", "use_sliding_window=True"),
    ("qwen3", "rope_parameters=rope_type dynamic factor 4.0"),
    ("qwen3", "pad_token_id=5"),
    ("gpt_neo", "attention_types=[[['local', 'global'], 2]]"),
    ("mpt", "attn_config.clip_qkv=0.7"),
    ("mpt", "attn_config.alibi=False"),
    ("laguna", "gating=per-element"),
    ("laguna", "num_attention_heads_per_layer=[4,8,4,8]"),
    ("ernie4_5_moe", "moe_norm_min=0.001"),
    ("cohere2_moe", "rms_norm_eps=0.001"),
    ("deepseek_v3", "q_lora_rank=None"),
    ("deepseek_v3", "n_group=2"),
    ("deepseek_v3", "first_k_dense_replace=2"),
]


@functools.cache
def variations_of(model_type: str) -> tuple[Any, ...]:
    return tuple(variations(tiny_config(model_type)))


def unchecked(config: Any) -> list[Any]:
    """Returns the variations of a config, those that do not run among them."""
    with mock.patch("archon_probe.measure.variations.why_not_run", return_value=None):
        return variations(config)


@functools.cache
def flips_of(model_type: str) -> dict[str, Any]:
    return {v.name: v.config for v in unchecked(tiny_config(model_type))}


@pytest.mark.parametrize(("model_type", "name"), EXPECTED)
def test_options_are_flipped(model_type: str, name: str) -> None:
    assert runs(flips_of(model_type)[name])


def test_variations_are_distinct_and_the_same_each_time() -> None:
    first, again = variations_of("qwen3"), variations(tiny_config("qwen3"))

    assert [v.name for v in first] == [v.name for v in again]
    assert len({v.name for v in first}) == len(first)


@pytest.mark.parametrize(("head_dim", "expected"), [(96, 16), (40, 16), (128, 16)])
def test_a_smaller_head_has_fewer_rotary_factors(head_dim: int, expected: int) -> None:
    factors = [1.0 + n for n in range(head_dim // 2)]
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 4096}
    config = tiny_config(
        CONFIG_MAPPING["phi3"](
            hidden_size=32 * head_dim,
            rope_parameters={**rope, "short_factor": factors, "long_factor": factors},
        )
    )
    assert config.hidden_size // config.num_attention_heads == expected
    short = config.rope_parameters["short_factor"]
    assert len(short) == expected // 2
    assert short[0] == 1.0
    assert short[-1] > 0.8 * head_dim / 2
    made = {each.field: each.config for each in unchecked(config)}
    for field in ("hidden_size", "num_attention_heads"):  # refused where lists have another length
        assert len(made[field].rope_parameters["long_factor"]) != expected // 2


def test_what_the_class_derives_is_not_pinned() -> None:
    values = base_values(tiny_config("qwen3"))

    assert "layer_types" not in values
    found = {v.name: v.config for v in variations_of("qwen3")}["use_sliding_window=True"]
    assert found.layer_types[-1] == "sliding_attention"
    assert found.sliding_window < LONGEST


def test_what_transformers_refuses_is_no_variation() -> None:
    """Layers of sliding attention without a window."""
    assert any(name.startswith("layer_types=") for name in flips_of("qwen3"))
    assert not any(v.name.startswith("layer_types=") for v in variations_of("qwen3"))


def test_building_leaves_the_config_as_it_is() -> None:
    config = tiny_config("qwen3")
    before = str(config.to_dict())

    build_model(config)

    assert str(config.to_dict()) == before


def test_variations_do_not_share_a_nested_config() -> None:
    config = tiny_config("dbrx")
    flips = unchecked(config)
    sizes = {v.config.d_model: v.config.ffn_config.hidden_size for v in flips}

    assert sizes == {48: 48, 64: 64}
    assert config.ffn_config.hidden_size == 64


def test_matrices_without_numbers_are_no_variation() -> None:
    """transformers builds these shared experts with a width of zero."""
    config = tiny_config("deepseek_v3")
    config.n_shared_experts = 0

    assert not runs(config)
    assert runs(tiny_config("deepseek_v3"))


def test_shared_experts_that_a_default_leaves_out_are_there() -> None:
    assert CONFIG_MAPPING["cohere2_moe"]().num_shared_experts == 0
    assert tiny_config("cohere2_moe").num_shared_experts == 2


def test_random_weights_hide_nothing() -> None:
    model = random_model(tiny_config("gpt_oss"))

    for name, parameter in model.named_parameters():
        assert float(parameter.detach().std()) > 0, name
    state = random_model(tiny_config("deepseek_v3")).state_dict()
    biases = [t for n, t in state.items() if n.endswith("e_score_correction_bias")]
    assert biases
    assert all(float(t.std()) > 0 for t in biases)


def test_random_weights_are_the_same_for_one_seed() -> None:
    config = tiny_config("qwen3")
    left, right = random_model(config, 3).state_dict(), random_model(config, 3).state_dict()

    assert all(torch.equal(left[name], right[name]) for name in left)
    assert not torch.equal(left["lm_head.weight"], random_model(config, 4).lm_head.weight)


class PlainConfig:
    """Declares its fields as configurations did before they were dataclasses."""

    def __init__(self, dropout: float = 0.1, **kwargs: Any) -> None:
        """Take every field as a keyword."""


class PlainModelConfig(PlainConfig):
    """Declares more."""

    def __init__(self, hidden_size: int = 64, head_dim: int | None = None, **kwargs: Any) -> None:
        """Take every field as a keyword."""


def test_fields_are_declared_by_constructors_in_older_releases() -> None:
    from archon_probe.measure.tiny import declared_fields
    from transformers import LlamaConfig

    found = declared_fields(PlainModelConfig)
    assert found == {"dropout": 0.1, "hidden_size": 64, "head_dim": None}
    llama = declared_fields(LlamaConfig)
    assert (llama["hidden_size"], llama["rope_parameters"]) == (4096, None)


def test_periods_of_layers_stay_as_they_are() -> None:
    """Scaled to fewer layers they would not fit the offsets that are counted in them."""
    small = tiny_config("jamba")
    assert (small.attn_layer_period, small.attn_layer_offset, small.expert_layer_period) == (
        8,
        4,
        2,
    )
    assert set(small.layer_types) == {"linear_attention", "full_attention"}


def test_kinds_of_layers_that_a_class_leaves_out_are_those_that_its_model_reads() -> None:
    assert CONFIG_MAPPING["lfm2_moe"]().layer_types is None
    small = tiny_config("lfm2_moe")
    assert len(small.layer_types) == small.num_hidden_layers
    assert {"conv", "full_attention"} <= set(small.layer_types)
    assert runs(small)


def test_layers_may_be_counted_by_a_list() -> None:
    usual = CONFIG_MAPPING["nemotron_h"]()
    longer = type(usual)(layers_block_type=usual.layers_block_type * 5)
    assert tiny_config(longer).num_hidden_layers == 4


@pytest.mark.parametrize("model_type", ["granitemoehybrid", "falcon_h1", "nemotron_h"])
def test_state_spaces_are_small_and_run_over_several_chunks(model_type: str) -> None:
    config = tiny_config(model_type)
    sizes = config.to_dict()
    chunk = sizes.get("mamba_chunk_size") or sizes["chunk_size"]
    heads = sizes.get("mamba_n_heads") or sizes["mamba_num_heads"]
    width = sizes.get("mamba_d_head") or sizes["mamba_head_dim"]
    assert heads * width == 2 * sizes["hidden_size"]
    assert chunk < 13  # tokens of the proof's first sequence


@pytest.mark.parametrize(("numbers", "expected"), [([9, 18, 27], [1, 2, 3]), (None, [1])])
def test_numbers_of_layers_keep_both_kinds(numbers: list[int] | None, expected: list[int]) -> None:
    config = tiny_config(CONFIG_MAPPING["bamba"](attn_layer_indices=numbers))
    assert config.attn_layer_indices == expected
    assert {*config.layer_types} == {"linear_attention", "full_attention"}


@pytest.mark.parametrize(("head_dim", "expected"), [(160, 16), (128, 24), (None, 16)])
def test_a_stated_head_size_is_made_small(head_dim: int | None, expected: int) -> None:
    sizes = {"hidden_size": 5120, "num_attention_heads": 32, "head_dim": head_dim}
    model = random_model(tiny_config(CONFIG_MAPPING["mistral"](**sizes)))
    assert model.model.layers[0].self_attn.head_dim == expected


def test_each_number_of_a_list_is_varied() -> None:
    """A model that ignores one of Falcon-H1's multipliers must not pass."""
    every = unchecked(tiny_config("falcon_h1"))
    lists = {v.field: v.value for v in every if v.field.endswith("_multipliers")}
    assert {name: len({*value, 1.0}) for name, value in lists.items()} == {
        "mlp_multipliers": 3,
        "ssm_multipliers": 6,
    }


@pytest.mark.parametrize("names", [("linear_attn_config", "kda_layers"), ("mixer", "scan_layers")])
def test_sizes_and_layer_numbers_inside_a_mapping_are_made_small(names: tuple[str, str]) -> None:
    field, key = names
    full = list(range(4, 28, 4))
    sizes: dict[str, Any] = {
        "head_dim": 128,
        "num_heads": 32,
        "kernel_size": 4,
        "full_attn_layers": [*full, 27],
        key: [n for n in range(1, 27) if n not in full],
        "inner": {"ffn_dim": 4096, "scale": 0.5, "is_gated": True, "kind": "kda"},
    }
    tiny = tiny_config(CONFIG_MAPPING["kimi_linear"](**{field: sizes}))
    assert getattr(tiny, field) == {
        "head_dim": 16,
        "num_heads": 4,
        "kernel_size": 4,
        "full_attn_layers": [4],
        key: [n for n in sizes[key] if n <= tiny.num_hidden_layers],
        "inner": {"ffn_dim": 80, "scale": 0.5, "is_gated": True, "kind": "kda"},
    }


def test_layers_that_a_mapping_numbers_keep_their_kinds() -> None:
    groups = {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "kda_layers": [n for n in range(1, 27) if n % 4],
    }
    real = CONFIG_MAPPING["kimi_linear"](linear_attn_config={**groups, "num_heads": 32})
    assert tiny_config(real).layer_types == ["linear_attention"] * 3 + ["full_attention"]


def test_numbers_inside_a_mapping_are_varied() -> None:
    sizes = {"head_dim": 16, "num_heads": 4, "short_conv_kernel_size": 4}
    tiny = tiny_config(CONFIG_MAPPING["kimi_linear"](linear_attn_config=sizes))
    flips = unchecked(tiny)
    found = [v.config for v in flips if v.field == "linear_attn_config" and runs(v.config)]
    assert {c.linear_head_dim for c in found} == {8, 16, 128}  # the last where it is left out
    assert {c.linear_num_heads for c in found} == {2, 4, 32}
    assert {c.linear_conv_kernel_dim for c in found} == {4, 5}


@pytest.mark.parametrize(
    ("model_type", "window", "kinds"),
    [
        # No layer has a window, and the class's own layers never do.
        ("smollm3", 7, ["sliding_attention", "full_attention"] * 2),
        # Layers with a window do not run without one.
        ("exaone4", None, ["full_attention"] * 4),
    ],
)
def test_a_window_is_varied_together_with_kinds_of_layers(
    model_type: str, window: int | None, kinds: list[str]
) -> None:
    made = [v.config for v in variations(tiny_config(model_type))]
    assert any(c.sliding_window == window and c.layer_types == kinds for c in made)


def test_a_part_that_only_a_flip_shows_is_varied_too() -> None:
    made = [v.config for v in variations(tiny_config("qwen3_moe"))]
    dense = [c for c in made if c.mlp_only_layers or c.decoder_sparse_step != 1]
    assert {"gelu", "silu"} <= {c.hidden_act for c in dense}
    assert len({c.intermediate_size for c in dense}) > 1


def test_a_count_that_another_one_bounds_is_varied_beside_it() -> None:
    made = [v.config for v in variations(tiny_config("glm4_moe"))]
    assert (2, 2) in {(c.n_group, c.topk_group) for c in made}


@pytest.mark.parametrize("layers", [1, 2, 3, 24, 28])
@pytest.mark.parametrize("model_type", ["qwen2", "qwen3", "gemma2", "lfm2"])
def test_a_checkpoint_may_have_another_number_of_layers(model_type: str, layers: int) -> None:
    """Its kinds of layers are listed, be they all one, as its class would not list them."""
    small = tiny_config(CONFIG_MAPPING[model_type](num_hidden_layers=layers))
    assert small.num_hidden_layers == len(small.layer_types) == 4


@pytest.mark.parametrize("model_type", ["llama", "deepseek_v3"])
@pytest.mark.parametrize(("heads", "shared"), [(1, 1), (2, 2), (3, 3), (3, 1), (9, 3)])
def test_heads_that_share_a_key_stay_as_many_times_the_keys(
    model_type: str, heads: int, shared: int
) -> None:
    sizes = {"num_attention_heads": heads, "num_key_value_heads": shared, "hidden_size": heads * 16}
    small = tiny_config(CONFIG_MAPPING[model_type](**sizes))
    assert small.num_attention_heads % small.num_key_value_heads == 0


def test_small_sizes_can_be_halved() -> None:
    """The test that is generated splits the model over two processes."""
    sizes = {"num_attention_heads": 3, "num_key_value_heads": 3, "intermediate_size": 37}
    small = tiny_config(CONFIG_MAPPING["stablelm"](hidden_size=48, **sizes))
    assert (small.num_attention_heads, small.num_key_value_heads) == (2, 2)
    assert (small.intermediate_size, runs(small)) == (36, True)
