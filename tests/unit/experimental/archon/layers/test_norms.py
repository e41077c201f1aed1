"""Norms against those of transformers and of torch."""

import copy

import pytest
import torch
from torch import nn
from transformers.models.cohere.modeling_cohere import CohereLayerNorm
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama4.modeling_llama4 import Llama4TextL2Norm
from transformers.models.nemotron.modeling_nemotron import NemotronLayerNorm1P
from transformers.models.olmo.modeling_olmo import OlmoLayerNorm
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from areal.experimental.models.archon.layers.norms import LayerNorm, RMSNorm

DIM = 12
CASES = {
    "rms": (RMSNorm(DIM, 0.1), Qwen3RMSNorm(DIM, eps=0.1)),
    "rms_offset": (RMSNorm(DIM, 0.1, offset=1.0), GemmaRMSNorm(DIM, eps=0.1)),
    "rms_without_weight": (RMSNorm(DIM, 0.1, has_weight=False), Llama4TextL2Norm(eps=0.1)),
    "layer": (LayerNorm(DIM, 0.1), nn.LayerNorm(DIM, eps=0.1)),
    "layer_without_bias": (LayerNorm(DIM, 0.1, has_bias=False), CohereLayerNorm(DIM, eps=0.1)),
    "layer_offset": (LayerNorm(DIM, 0.1, offset=1.0), NemotronLayerNorm1P(DIM, eps=0.1)),
    "layer_without_weight": (
        LayerNorm(DIM, 1e-5, has_weight=False, has_bias=False),
        OlmoLayerNorm(DIM),
    ),
    "layer_per_head": (
        LayerNorm(DIM, 0.1, has_bias=False, n_heads=3),
        CohereLayerNorm((3, DIM), eps=0.1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_norms_equal_their_reference(name):
    torch.manual_seed(0)
    ours, theirs = CASES[name]
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        nn.init.normal_(mine)
        with torch.no_grad():
            other.copy_(mine)
    x = torch.randn(1, 3, 7, DIM, requires_grad=True)
    per_head = "per_head" in name
    out = ours(x)
    # Cohere's heads come after the tokens.
    expected = theirs(x.transpose(1, 2)).transpose(1, 2) if per_head else theirs(x)
    torch.testing.assert_close(out, expected, atol=2e-6, rtol=0)
    direction = torch.randn_like(out)
    found = torch.autograd.grad(out, [x, *ours.parameters()], direction)
    wanted = torch.autograd.grad(expected, [x, *theirs.parameters()], direction)
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)


ROUNDED = {
    "after the weight": (RMSNorm(DIM, 0.1, weight_in_fp32=True), Olmo2RMSNorm(DIM, eps=0.1)),
    "before the weight": (RMSNorm(DIM, 0.1), Qwen3RMSNorm(DIM, eps=0.1)),
    "with an offset": (
        RMSNorm(DIM, 0.1, offset=1.0, weight_in_fp32=True),
        GemmaRMSNorm(DIM, eps=0.1),
    ),
    "without a weight": (RMSNorm(DIM, 0.1, has_weight=False), Llama4TextL2Norm(eps=0.1)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ROUNDED)
def test_every_bit_below_fp32_is_that_of_transformers(name, dtype):
    torch.manual_seed(0)
    ours, theirs = (copy.deepcopy(norm).to(dtype) for norm in ROUNDED[name])
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        nn.init.normal_(mine)
        with torch.no_grad():
            other.copy_(mine)
    x = torch.randn(1, 64, DIM, dtype=dtype)
    out = ours(x)
    assert out.dtype == dtype
    assert torch.equal(out, theirs(x))


@pytest.mark.parametrize("n_heads", [None, 3])
def test_rms_weights_may_differ_by_head(n_heads):
    norm = RMSNorm(DIM, 0.1, n_heads=n_heads)
    nn.init.normal_(norm.weight)
    x = torch.randn(1, 3, 7, DIM)
    weights = norm.weight if n_heads is None else norm.weight[:, None]
    expected = x / (x.square().mean(-1, keepdim=True) + 0.1).sqrt() * weights
    torch.testing.assert_close(norm(x), expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("make", [RMSNorm, LayerNorm])
def test_a_fresh_norm_multiplies_by_one(make, offset):
    norm, plain = make(DIM, offset=offset), make(DIM, has_weight=False)
    x = torch.randn(5, DIM)
    torch.testing.assert_close(norm(x), plain(x))


def test_statistics_of_bf16_are_taken_in_fp32():
    x = torch.full((1, 4096), 3.0, dtype=torch.bfloat16)
    x[0, 0] = 300.0
    exact = x.double() / x.double().square().mean().sqrt()
    out = RMSNorm(4096, 0.0).to(torch.bfloat16)(x)
    # One rounding to bf16, of 8 bits, and no more.
    torch.testing.assert_close(out.double(), exact, rtol=2**-8, atol=0)


def test_a_norm_over_a_sharded_projection_counts_all_slices(monkeypatch):
    """The group is a stand-in that adds the other rank's sum of squares."""
    from areal.experimental.models.archon.layers import norms

    torch.manual_seed(0)
    whole = RMSNorm(2 * DIM, 0.1)
    nn.init.normal_(whole.weight)
    x = torch.randn(1, 7, 2 * DIM)
    local = RMSNorm(2 * DIM, 0.1)
    local.weight = nn.Parameter(whole.weight[:DIM].detach().clone())
    local.set_tp_group("both")
    other = x[..., DIM:].square().sum(-1, keepdim=True)
    monkeypatch.setattr(norms, "all_reduce", lambda total, group: total + other)
    torch.testing.assert_close(local(x[..., :DIM]), whole(x)[..., :DIM], atol=2e-6, rtol=0)
