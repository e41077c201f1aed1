"""Learned and sinusoidal positions and ALiBi's slopes against transformers."""

import pytest
import torch
from transformers import Llama4TextConfig, OPTConfig, XGLMConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor as bloom_alibi
from transformers.models.ctrl.modeling_ctrl import positional_encoding
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon_alibi
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings
from transformers.models.xglm.modeling_xglm import XGLMSinusoidalPositionalEmbedding

from areal.api.errors import ConfigError
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.positions import (
    AlibiSlopes,
    KeyBias,
    LearnedPositions,
    PositionsBesidePadding,
    SinusoidalPositions,
    alibi_slopes,
    log_temperature,
)

LENGTHS = (4, 7)


def packing():
    positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]
    return Packing.of(positions, torch.tensor([0, 4, 11]), 7)


def packed(rows):
    return torch.cat([rows[:n] for n in LENGTHS])[None]


def test_learned_positions_equal_opt():
    config = OPTConfig(max_position_embeddings=7, hidden_size=6)
    theirs = OPTLearnedPositionalEmbedding(config.max_position_embeddings, 6)
    ours = LearnedPositions(7, 6, offset=theirs.offset)
    ours.load_state_dict(theirs.state_dict())
    rows = theirs(torch.ones(1, 7, dtype=torch.long), 0)[0]
    assert torch.equal(ours(packing()), packed(rows))


def test_positions_beside_padding_equal_roberta():
    padding, dim = 3, 6
    tokens = torch.tensor([[3, 5, 3, 3, 8, 9, 3, 4, 5, 6, 3]])
    ours = PositionsBesidePadding(12, dim, padding)
    torch.nn.init.normal_(ours.weight)
    numbers = [
        RobertaEmbeddings.create_position_ids_from_input_ids(row, padding)
        for row in tokens.split(LENGTHS, dim=1)
    ]
    assert torch.equal(ours(tokens, packing()), ours.weight[torch.cat(numbers, dim=1)])
    empty = Packing.of(packing().positions, torch.tensor([0, 4, 4, 11, 11]), 7)
    assert torch.equal(ours(tokens, empty), ours(tokens, packing()))
    ours(tokens, packing()).sum().backward()
    assert not ours.weight.grad[padding].any()


@pytest.mark.parametrize(
    ("rows", "padding", "named"),
    [(10, 3, "7 tokens, and learned positions for 6"), (10, None, "pad_token_id is None")],
)
def test_positions_that_padding_leaves_no_room_for_are_refused(rows, padding, named):
    with pytest.raises(ConfigError, match=named):
        PositionsBesidePadding(rows, 4, padding)(torch.ones(1, 11, dtype=torch.long), packing())


def test_a_sequence_past_the_learned_positions_is_refused():
    with pytest.raises(ConfigError, match="7 tokens, and learned positions for 6"):
        LearnedPositions(6, 4)(packing())


@pytest.mark.parametrize("dim", [8, 9])
def test_sinusoidal_positions_equal_xglm(dim):
    config = XGLMConfig()
    theirs = XGLMSinusoidalPositionalEmbedding(9, dim, config.pad_token_id)
    rows = theirs(torch.arange(7)[None])[0]
    ours = SinusoidalPositions(dim, offset=theirs.offset, reaches_base=True)
    torch.testing.assert_close(ours(packing()), packed(rows), atol=2e-6, rtol=0)


def test_sinusoidal_positions_equal_ctrl():
    rows = positional_encoding(7, 8, torch.float)
    ours = SinusoidalPositions(8)
    torch.testing.assert_close(ours(packing()), packed(rows), atol=2e-6, rtol=0)
    pairs = SinusoidalPositions(8, layout="interleaved")(packing())
    torch.testing.assert_close(pairs[..., ::2], packed(rows)[..., :4], atol=2e-6, rtol=0)
    assert not list(ours.state_dict())
    assert ours(packing(), torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.parametrize("n_heads", [1, 2, 3, 5, 8, 12])
def test_slopes_equal_bloom_and_mpt(n_heads):
    mask = torch.ones(1, 6)
    bloom = bloom_alibi(mask, n_heads, torch.float32)[:, 0]
    bias = KeyBias(alibi_slopes(n_heads)).of(torch.arange(6))
    torch.testing.assert_close(bias, bloom, atol=0, rtol=1e-6)
    mpt = build_mpt_alibi_tensor(n_heads, 6, alibi_bias_max=4)[:, 0]
    bias = KeyBias(alibi_slopes(n_heads, 4.0)).of(torch.arange(-5, 1))
    torch.testing.assert_close(bias, mpt, atol=0, rtol=1e-6)


@pytest.mark.parametrize("n_heads", [4, 6])
def test_rounded_and_scaled_bias_equals_falcon(n_heads):
    mask = torch.ones(1, 400, dtype=torch.long)
    falcon = falcon_alibi(mask, n_heads, torch.float32)[:, 0] * 0.25
    alibi = AlibiSlopes(n_heads, scale=0.25, rounds_to_bf16=True)
    bias = alibi(torch.zeros(1, n_heads, 1, 8)).of(torch.arange(400))
    assert torch.equal(bias, falcon)


def test_alibi_slopes_are_neither_saved_nor_rounded():
    alibi = AlibiSlopes(6).to(torch.bfloat16)
    assert not list(alibi.state_dict())
    bias = alibi(torch.zeros(1, 6, 1, 8, dtype=torch.bfloat16))
    assert torch.equal(bias.slopes, alibi_slopes(6))


def test_the_temperature_equals_llama4():
    config = Llama4TextConfig()
    positions = torch.tensor([0, 8190, 8191, 30000, 100000])
    theirs = torch.log1p(torch.floor((positions.float() + 1.0) / config.floor_scale))
    theirs = theirs * config.attn_scale + 1.0
    ours = log_temperature(positions, scale=config.attn_scale, floor=config.floor_scale, offset=1.0)
    torch.testing.assert_close(ours[:, 0], theirs)
