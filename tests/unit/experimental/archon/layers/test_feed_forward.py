"""Activations and feed-forwards against transformers."""

import pytest
import torch
from torch import nn
from transformers import ApertusConfig, BitNetConfig, FalconH1Config, LlamaConfig
from transformers.activations import ACT2CLS, ACT2FN
from transformers.models.apertus.modeling_apertus import ApertusMLP
from transformers.models.bitnet.modeling_bitnet import BitNetMLP
from transformers.models.falcon_h1.modeling_falcon_h1 import FalconH1MLP
from transformers.models.llama.modeling_llama import LlamaMLP

from areal.api.errors import ConfigError
from areal.experimental.models.archon.layers.feed_forward import (
    ACTIVATIONS,
    LEARNED_ACTIVATIONS,
    XIELU,
    FeedForward,
    GatedFeedForward,
    get_activation,
)
from areal.experimental.models.archon.layers.norms import RMSNorm


@pytest.mark.parametrize("name", ACT2CLS)
def test_activations_are_those_of_transformers(name):
    x = torch.cat((torch.linspace(-12, 12, 481), torch.zeros(1))).requires_grad_()
    ours, theirs = get_activation(name), ACT2FN[name].float()
    if name in LEARNED_ACTIVATIONS:
        ours.load_state_dict(theirs.state_dict())
    out, expected = ours(x), theirs(x)
    torch.testing.assert_close(out, expected, atol=2e-6, rtol=2e-6)
    # Without relu6's two corners, where either slope is right.
    found, wanted = (torch.autograd.grad(y.sum(), x)[0] for y in (out, expected))
    corner = (x == 0) | (x == 6)
    torch.testing.assert_close(found[~corner], wanted[~corner], atol=1e-5, rtol=1e-5)


def test_every_activation_of_transformers_is_there():
    assert {*ACTIVATIONS, *LEARNED_ACTIVATIONS} == set(ACT2CLS)


def test_an_unknown_activation_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'silou'; did you mean 'silu'\? known: gelu,"):
        get_activation("silou")


def test_each_feed_forward_learns_its_own_activation():
    first, second = (FeedForward(4, 8, "xielu") for _ in range(2))
    assert first.act is not second.act
    names = {"act.alpha_p", "act.alpha_n", "act.beta", "act.eps"}
    assert names <= set(first.state_dict())


def test_xielu_is_rebuilt_from_meta():
    with torch.device("meta"):
        module = XIELU()
    module.to_empty(device="cpu")
    module.init_buffers("cpu")
    module.reset_parameters()
    x = torch.linspace(-3, 3, 7)
    assert torch.equal(module(x), XIELU()(x))


def copy_linears(ours, theirs, names):
    for mine, other in names.items():
        ours.get_submodule(mine).load_state_dict(theirs.get_submodule(other).state_dict())


@pytest.mark.parametrize("bias", [False, True])
def test_gated_equals_llama(bias):
    config = LlamaConfig(
        hidden_size=8,
        intermediate_size=12,
        num_attention_heads=2,
        hidden_act="gelu",
        mlp_bias=bias,
    )
    theirs, ours = LlamaMLP(config), GatedFeedForward(8, 12, "gelu", bias=bias)
    copy_linears(ours, theirs, {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"})
    x = torch.randn(1, 5, 8)
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-6, rtol=0)


def test_the_inner_norm_equals_bitnet():
    config = BitNetConfig(hidden_size=8, intermediate_size=12, rms_norm_eps=0.1, pad_token_id=0)
    theirs = BitNetMLP(config)
    ours = GatedFeedForward(8, 12, config.hidden_act, inner_norm=RMSNorm(12, 0.1))
    nn.init.normal_(theirs.ffn_sub_norm.weight)
    names = {
        "w1": "gate_proj",
        "w2": "down_proj",
        "w3": "up_proj",
        "inner_norm": "ffn_sub_norm",
    }
    copy_linears(ours, theirs, names)
    x = torch.randn(1, 5, 8)
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-6, rtol=0)


def test_plain_equals_apertus():
    config = ApertusConfig(hidden_size=8, intermediate_size=12, hidden_act="xielu", pad_token_id=0)
    theirs, ours = ApertusMLP(config).float(), FeedForward(8, 12, "xielu")
    copy_linears(ours, theirs, {"w1": "up_proj", "w2": "down_proj"})
    ours.act.load_state_dict(theirs.act_fn.state_dict())
    x = torch.randn(1, 5, 8)
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("make", [FeedForward, GatedFeedForward])
def test_the_last_projection_may_differ_in_bias(make):
    names = dict(make(8, 12, "relu", bias=True, down_bias=False).named_parameters())
    assert "w1.bias" in names
    assert "w2.bias" not in names


def test_multipliers_are_those_of_falcon_h1():
    config = FalconH1Config(hidden_size=16, intermediate_size=24, mlp_multipliers=[1.5, 0.25])
    theirs = FalconH1MLP(config)
    ours = GatedFeedForward(16, 24, "silu", first_multiplier=1.5, down_multiplier=0.25)
    for mine, name in (("w1", "gate_proj"), ("w2", "down_proj"), ("w3", "up_proj")):
        getattr(ours, mine).load_state_dict(getattr(theirs, name).state_dict())
    x = torch.randn(3, 16)
    torch.testing.assert_close(ours(x), theirs(x), atol=0, rtol=0)
