"""Archon's mixture of experts against transformers' layers, and its own promises."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from areal.experimental.models.archon.moe import MoE, MoEArgs
from areal.experimental.models.archon.moe.utils import merge_expert_outputs
from tests.unit.experimental.archon.moe.hf_layers import DIM, HIDDEN, LAYERS, tensors_of

TOLERANCE = 2e-6  # fp32, sums in another order


def output_of(out: Tensor | tuple[Tensor, ...], like: Tensor) -> Tensor:
    """Returns the layer's output where transformers returns logits beside it."""
    out = out[0] if isinstance(out, tuple) else out
    return out.reshape(like.shape)


def assert_close(found: Tensor, expected: Tensor, what: str) -> None:
    """Fails where two tensors differ by more than rounding."""
    error = float(((found - expected).norm() / expected.norm().clamp_min(1e-12)).detach())
    assert error < TOLERANCE, f"{what} is off by {error:.2g}"


@pytest.mark.parametrize("kind", LAYERS)
def test_layer_equals_that_of_transformers(kind: str) -> None:
    layer = LAYERS[kind].build()
    moe = LAYERS[kind].archon(layer)
    generator = torch.Generator().manual_seed(4)
    x, g = torch.randn(2, 1, 64, DIM, generator=generator)
    theirs, mine = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected = output_of(layer(theirs * 1.0), x)
    found = moe(mine)
    expected.backward(g)
    found.backward(g)

    assert_close(found, expected, "output")
    assert mine.grad is not None
    assert theirs.grad is not None
    assert_close(mine.grad, theirs.grad, "gradient of the input")
    gradients = {
        n: t.grad if t.grad is not None else torch.zeros_like(t)
        for n, t in tensors_of(layer).items()
    }
    wanted = LAYERS[kind].read(gradients)
    for name, parameter in moe.named_parameters():
        assert parameter.grad is not None, name
        assert_close(parameter.grad, wanted[name], f"gradient of {name}")


@pytest.mark.parametrize("kind", ["softmax of all", "sigmoid, groups by their best two"])
def test_layer_equals_that_of_transformers_in_bfloat16(kind: str) -> None:
    layer = LAYERS[kind].build().to(torch.bfloat16)
    moe = LAYERS[kind].archon(layer.float()).to(torch.bfloat16)
    layer = layer.to(torch.bfloat16)
    x = torch.randn(1, 64, DIM, generator=torch.Generator().manual_seed(4)).to(torch.bfloat16)
    expected, found = output_of(layer(x), x).float(), moe(x).float()
    error = (found - expected).norm() / expected.norm()

    assert moe(x).dtype == torch.bfloat16
    # Two of bfloat16's steps: transformers rounds each expert's output once more.
    assert float(error.detach()) < 2**-7


def test_below_fp32_experts_are_added_in_their_order_and_each_sum_is_rounded() -> None:
    y = torch.tensor([[256.0], [1.0], [1.0]], dtype=torch.bfloat16)
    weights = torch.ones(1, 3)
    # 257 is not a number of bfloat16: each sum goes back to 256.
    assert merge_expert_outputs(y, weights, 3).item() == 256
    assert merge_expert_outputs(y.flip(0), weights, 3).item() == 258
    assert merge_expert_outputs(y.float(), weights, 3).item() == 258
    third = torch.tensor([[3.0]], dtype=torch.bfloat16)
    assert merge_expert_outputs(third, torch.tensor([[1 / 3]]), 1).item() == 1
    rounded = torch.tensor([[1 / 3]], dtype=torch.bfloat16)
    assert merge_expert_outputs(third, rounded, 1).item() == 1.0


def test_leading_dimensions_stay() -> None:
    moe = MoE(MoEArgs(num_experts=4, top_k=2), DIM, HIDDEN)
    moe.init_weights(0.1, "cpu")
    x = torch.randn(2, 3, DIM)

    assert moe(x).shape == (2, 3, DIM)
    assert_close(moe(x).reshape(1, 6, DIM), moe(x.reshape(1, 6, DIM)), "the same tokens")


def test_no_token_at_all() -> None:
    moe = MoE(MoEArgs(num_experts=4, top_k=2, num_shared_experts=1), DIM, HIDDEN)
    moe.init_weights(0.1, "cpu")
    x = torch.zeros(1, 0, DIM, requires_grad=True)
    moe(x).sum().backward()

    assert moe.experts.w1.grad is not None
    assert not moe.experts.w1.grad.any()


def test_buffers_must_be_made_first() -> None:
    args = MoEArgs(num_experts=4, top_k=2, use_expert_bias=True)
    with torch.device("meta"):
        moe = MoE(args, DIM, HIDDEN)
    moe.init_buffers("cpu")

    assert moe.expert_bias.tolist() == [0.0] * 4
    assert "expert_bias" in moe.state_dict()


def test_expert_bias_of_the_balance_alone_is_in_no_checkpoint() -> None:
    moe = MoE(MoEArgs(num_experts=4, top_k=2, load_balance_coeff=0.1), DIM, HIDDEN)

    assert "expert_bias" not in moe.state_dict()


def test_balance_moves_tokens_to_idle_experts() -> None:
    torch.manual_seed(0)
    moe = MoE(MoEArgs(num_experts=4, top_k=1, load_balance_coeff=0.02), DIM, HIDDEN)
    moe.init_weights(0.5, "cpu")
    x = torch.randn(1, 256, DIM)
    with torch.no_grad():
        # Three tokens in four prefer the first expert.
        moe.router.gate.weight.mul_(0.5)[0].add_(x[0, :192].mean(0) * 4)

    def busiest() -> float:
        counts = moe.router(x[0], moe.expert_bias)[2]
        return counts.max().item() / counts.sum().item()

    before = busiest()
    for _ in range(60):
        moe(x)
        moe.update_expert_bias()

    assert busiest() < 0.8 * before
    assert float(moe.expert_bias.mean().abs()) < 1e-6
    assert not moe.tokens_per_expert.any()


def test_forward_is_the_same_every_time() -> None:
    moe = MoE(MoEArgs(num_experts=4, top_k=3), DIM, HIDDEN)
    moe.init_weights(0.5, "cpu")
    x = torch.randn(1, 64, DIM)

    assert torch.equal(moe(x), moe(x))
