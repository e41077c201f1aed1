"""Rotary embeddings against transformers, kind by kind."""

import math
from types import SimpleNamespace

import pytest
import torch
from transformers import (
    CohereConfig,
    Gemma3TextConfig,
    LlamaConfig,
    Phi3Config,
    Qwen3Config,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.cohere.modeling_cohere import CohereRotaryEmbedding
from transformers.models.cohere.modeling_cohere import apply_rotary_pos_emb as interleaved
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.hunyuan_v1_dense import modeling_hunyuan_v1_dense as hunyuan
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as by_halves

from areal.api.errors import ConfigError
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.rope import (
    ROPE_KINDS,
    RopeArgs,
    RotaryEmbedding,
    apply_rotary,
    apply_rotary_emb,
    precompute_rope_cache,
    repeat_kv,
    reshape_for_broadcast,
)

CONTEXT = 32
HEAD_DIM = 16
SHORT = [1.0 + 0.1 * i for i in range(HEAD_DIM // 2)]
LONG = [2.0 + 0.5 * i for i in range(HEAD_DIM // 2)]

# Each value of rope_parameters that changes the result has an entry that sets it.
KINDS = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
    "yarn_without_factor": {
        "rope_type": "yarn",
        "factor": None,
        "original_max_position_embeddings": 8,
    },
    "yarn_betas": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "beta_fast": 2.0,
        "beta_slow": 0.5,
        "truncate": False,
    },
    "yarn_mscale": {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 16,
        "mscale": 0.707,
        "mscale_all_dim": 0.5,
    },
    "yarn_attention_factor": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "attention_factor": 1.3,
    },
    "longrope": {
        "rope_type": "longrope",
        "short_factor": SHORT,
        "long_factor": LONG,
        "original_max_position_embeddings": 16,
    },
    "longrope_factor": {
        "rope_type": "longrope",
        "short_factor": SHORT,
        "long_factor": LONG,
        "factor": 6.0,
        "original_max_position_embeddings": 16,
    },
    "longrope_attention_factor": {
        "rope_type": "longrope",
        "short_factor": SHORT,
        "long_factor": LONG,
        "attention_factor": 1.7,
        "original_max_position_embeddings": 16,
    },
}


def llama(parameters, **changes):
    return LlamaConfig(
        hidden_size=4 * HEAD_DIM,
        num_attention_heads=4,
        head_dim=HEAD_DIM,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_theta": 500.0, **parameters},
        **changes,
    )


def packing_of(*lengths, plan=None):
    positions = torch.cat([torch.arange(n) for n in lengths])
    cu_seqlens = torch.tensor([0, *lengths]).cumsum(0).int()
    return Packing.of(positions[None], cu_seqlens, max(lengths), plan)


@pytest.mark.parametrize("name", KINDS)
def test_tables_equal_those_of_transformers_at_every_length(name):
    """Past the context too, and for each packed sequence as if it were alone."""
    config = llama(KINDS[name])
    lengths = (5, 17, 33, 32, 100, 16, 64)
    table = RotaryEmbedding(RopeArgs.from_hf(config))(packing_of(*lengths))
    tables = zip(table.cos.split(lengths), table.sin.split(lengths), lengths, strict=True)
    for cos, sin, length in tables:
        theirs = LlamaRotaryEmbedding(config)
        expected_cos, expected_sin = theirs(torch.zeros(1), torch.arange(length)[None])
        half = HEAD_DIM // 2
        # Angles reach 100 rad; one unit in the last place of a frequency moves them by 1e-5.
        torch.testing.assert_close(cos, expected_cos[0, :, :half], atol=2e-5, rtol=0)
        torch.testing.assert_close(sin, expected_sin[0, :, :half], atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "default"])
def test_frequencies_and_factor_equal_the_functions_of_transformers(name):
    config = llama(KINDS[name])
    args = RopeArgs.from_hf(config)
    theirs = ROPE_INIT_FUNCTIONS[args.kind]
    for length in (None, 8, 16, 17, 32, 33, 500):
        expected, factor = theirs(config, torch.device("cpu"), seq_len=length)
        found = args.frequencies()
        if length is not None and ROPE_KINDS[args.kind].by_length is not None:
            found = args.frequencies_by_length(torch.tensor([length]))[0]
        torch.testing.assert_close(found, expected, atol=0, rtol=2e-7)
        assert args.attention_factor == pytest.approx(factor)


@pytest.mark.parametrize(("share", "factor"), [(0.5, 1.0), (0.25, 4.0), (1.0, 2.0)])
def test_the_proportional_kind_leaves_the_rest_of_a_head_still(share, factor):
    parameters = {"rope_type": "proportional", "partial_rotary_factor": share, "factor": factor}
    config = llama(parameters)
    args = RopeArgs.from_hf(config)
    expected, _ = ROPE_INIT_FUNCTIONS["proportional"](config)
    assert args.dim == HEAD_DIM
    torch.testing.assert_close(args.frequencies(), expected)


def test_all_kinds_of_transformers_are_there():
    assert set(ROPE_KINDS) == {"default", *ROPE_INIT_FUNCTIONS}


@pytest.mark.parametrize("layer_type", ["full_attention", "sliding_attention"])
def test_each_layer_type_has_its_own_parameters(layer_type):
    config = Gemma3TextConfig(
        head_dim=HEAD_DIM,
        max_position_embeddings=CONTEXT,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        },
    )
    table = RotaryEmbedding(RopeArgs.from_hf(config, layer_type))(packing_of(40))
    theirs = Gemma3RotaryEmbedding(config)
    cos, _ = theirs(torch.zeros(1), torch.arange(40)[None], layer_type)
    torch.testing.assert_close(table.cos, cos[0, :, : HEAD_DIM // 2], atol=1e-5, rtol=0)
    with pytest.raises(ConfigError, match="full_attention, sliding_attention"):
        RopeArgs.from_hf(config)


def test_a_share_of_the_head_rotates():
    config = Phi3Config(
        hidden_size=64, num_attention_heads=4, partial_rotary_factor=0.5, pad_token_id=0
    )
    assert RopeArgs.from_hf(config).dim == 8
    assert RopeArgs.from_hf(config, dim=4).dim == 4
    x = torch.randn(1, 2, 5, 16)
    turned = apply_rotary(x, RotaryEmbedding(RopeArgs.from_hf(config))(packing_of(5)))
    assert torch.equal(turned[..., 8:], x[..., 8:])
    assert not torch.isclose(turned[:, :, 1:, :8], x[:, :, 1:, :8]).all()


@pytest.mark.parametrize("rotary_dim", [HEAD_DIM, HEAD_DIM // 2])
def test_halves_rotate_as_in_transformers(rotary_dim):
    config = llama(KINDS["default"])
    config.head_dim = rotary_dim
    x = torch.randn(1, 3, 9, HEAD_DIM)
    cos, sin = LlamaRotaryEmbedding(config)(x, torch.arange(9)[None])
    table = RotaryEmbedding(RopeArgs.from_hf(config))(packing_of(9))
    width = cos.shape[-1]
    expected, _ = by_halves(x[..., :width], x[..., :width], cos, sin)
    found = apply_rotary(x, table)
    assert 2 * table.cos.shape[-1] == width
    torch.testing.assert_close(found[..., :width], expected, atol=1e-6, rtol=0)
    assert torch.equal(found[..., width:], x[..., width:])


def test_neighbours_rotate_as_in_transformers():
    config = CohereConfig(hidden_size=64, num_attention_heads=4)
    x = torch.randn(1, 3, 9, 16)
    cos, sin = CohereRotaryEmbedding(config)(x, torch.arange(9)[None])
    expected, _ = interleaved(x, x, cos, sin)
    rope = RotaryEmbedding(RopeArgs.from_hf(config), pairing="interleaved")
    torch.testing.assert_close(apply_rotary(x, rope(packing_of(9))), expected, atol=1e-6, rtol=0)


def test_turning_the_other_way_undoes_a_rotation():
    x = torch.randn(1, 3, 9, 16)
    args = RopeArgs(16)
    turned = apply_rotary(x, RotaryEmbedding(args)(packing_of(9)))
    back = apply_rotary(turned, RotaryEmbedding(args, reverse=True)(packing_of(9)))
    torch.testing.assert_close(back, x, atol=1e-6, rtol=0)


def test_casting_the_model_leaves_the_frequencies_alone():
    rope = RotaryEmbedding(RopeArgs(16)).to(torch.bfloat16)
    table = rope(packing_of(900))
    assert table.cos.dtype == torch.float32
    torch.testing.assert_close(table.cos[:, 0], torch.arange(900.0).cos(), atol=1e-5, rtol=0)
    assert rope(packing_of(3), torch.bfloat16).cos.dtype == torch.bfloat16
    assert not list(rope.state_dict())


def test_a_plan_says_how_long_a_cached_sequence_is():
    """Decoding one token of a long sequence takes the frequencies of its whole length."""
    args = RopeArgs.from_hf(llama(KINDS["longrope"]))
    packing = Packing.of(torch.tensor([[3, 20]]), torch.tensor([0, 1, 2]), 1, plan=object())
    table = RotaryEmbedding(args)(packing)
    whole = RotaryEmbedding(args)(packing_of(4, 21))
    assert torch.equal(table.cos, whole.cos[[3, 24]])


def test_a_slice_of_the_row_knows_its_sequences():
    class Group:
        def rank(self):
            return 1

    args = RopeArgs.from_hf(llama(KINDS["dynamic"]))
    packing = packing_of(4, 50)
    whole = RotaryEmbedding(args)(packing)
    part = RotaryEmbedding(args)
    part.set_cp_group(Group())
    sliced = Packing.of(packing.positions[27:][None], packing.cu_seqlens, 50)
    assert torch.equal(part(sliced).cos, whole.cos[27:])


def test_older_configs_are_read_as_well():
    old = SimpleNamespace(
        hidden_size=64,
        num_attention_heads=4,
        max_position_embeddings=CONTEXT,
        rope_theta=700.0,
        rope_scaling={"type": "linear", "factor": 2.0},
    )
    assert RopeArgs.from_hf(old) == RopeArgs(16, 700.0, "linear", CONTEXT, {"factor": 2.0})
    old.rope_scaling = None
    old.partial_rotary_factor = 0.5
    assert RopeArgs.from_hf(old) == RopeArgs(8, 700.0, "default", CONTEXT)


def test_the_original_context_beside_the_parameters_wins():
    """In a config that transformers read, and in the raw one, where it has not moved yet."""
    sizes = {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "max_position_embeddings": CONTEXT,
        "original_max_position_embeddings": 16,
        "pad_token_id": 0,
    }
    parameters = {"rope_theta": 1e4, **KINDS["longrope"], "original_max_position_embeddings": 8}
    read = Phi3Config(**sizes, rope_parameters=dict(parameters))
    raw = SimpleNamespace(**sizes, rope_parameters=dict(parameters))
    for config in (read, raw):
        found = RopeArgs.from_hf(config)
        assert found.scaling["original_max_position_embeddings"] == 16
        assert found.attention_factor == pytest.approx(math.sqrt(1 + math.log(2) / math.log(16)))
    del (
        raw.original_max_position_embeddings,
        raw.rope_parameters["original_max_position_embeddings"],
    )
    assert RopeArgs.from_hf(raw).scaling["original_max_position_embeddings"] == CONTEXT


def test_bad_parameters_are_refused():
    with pytest.raises(ConfigError, match=r"'spiral'.*known: default, dynamic"):
        RopeArgs(16, kind="spiral")
    with pytest.raises(ConfigError, match="'linear' needs factor"):
        RopeArgs(16, kind="linear")
    with pytest.raises(ConfigError, match="3 numbers and 8 pairs"):
        RopeArgs(16, kind="longrope", scaling={**KINDS["longrope"], "long_factor": [1.0] * 3})
    with pytest.raises(ConfigError, match="must be positive"):
        RopeArgs(0)
    with pytest.raises(ConfigError, match="cannot rotate 15 in pairs"):
        RopeArgs.from_hf(SimpleNamespace(head_dim=15))
    with pytest.raises(ConfigError, match="16 dimensions rotate, and a head has 8"):
        apply_rotary(torch.zeros(1, 1, 3, 8), RotaryEmbedding(RopeArgs(16))(packing_of(3)))


def test_the_cached_form_equals_the_table():
    config = Qwen3Config(hidden_size=64, num_attention_heads=4, head_dim=16)
    args = RopeArgs.from_hf(config)
    q, k = torch.randn(1, 3, 7, 16), torch.randn(1, 2, 7, 16)
    table = RotaryEmbedding(args)(packing_of(4, 3))
    cache = precompute_rope_cache(16, 32, args.theta)
    assert cache.shape == (32, 32)
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2]])
    found = apply_rotary_emb(q.transpose(1, 2), k.transpose(1, 2), cache, positions)
    for mine, heads in zip(found, (q, k), strict=True):
        expected = apply_rotary(heads, table).transpose(1, 2)
        torch.testing.assert_close(mine, expected, atol=1e-6, rtol=0)
    assert reshape_for_broadcast(cache, q.transpose(1, 2)).shape == (1, 7, 1, 32)
    repeated = repeat_kv(k.transpose(1, 2), 2)
    assert torch.equal(repeated[:, :, 1], k[:, 0])


def test_a_parameter_may_fix_the_base_of_a_dynamic_rotation():
    scaling = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 1.0, "alpha": 1000.0}
    config = hunyuan.HunYuanDenseV1Config(head_dim=16, rope_parameters=scaling)
    args = RopeArgs.from_hf(config, fixed_by="alpha")
    assert torch.equal(args.frequencies(), hunyuan.HunYuanDenseV1RotaryEmbedding(config).inv_freq)
    assert args.frequencies_by_length(torch.tensor([9])) is None
    # Other models with the same parameters do not read it.
    assert RopeArgs.from_hf(config).kind == "dynamic"
