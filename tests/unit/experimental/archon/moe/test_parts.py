"""The parts of a mixture of experts: options, grouped products, order of tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from areal.api.errors import ConfigError
from areal.experimental.models.archon.moe import (
    MoEArgs,
    TokenReorderer,
    merge_expert_outputs,
    permute_tokens,
    unpermute_tokens,
)
from areal.experimental.models.archon.moe.grouped_mm import grouped_linear


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"score_func": "relu"}, "unknown score_func 'relu'; known: sigmoid, softmax, sparsemixer"),
        ({"group_score_func": "sum"}, "unknown group_score_func 'sum'"),
        ({"top_k": 9}, "top_k is 9, and a token has 8 experts"),
        ({"top_k": 0}, "top_k is 0"),
        ({"score_func": "sparsemixer", "top_k": 3}, "sparsemixer chooses 2 experts"),
        ({"num_expert_groups": 3, "num_limited_groups": 1}, "8 experts do not divide into 3"),
        ({"num_expert_groups": 4}, "num_limited_groups is None"),
        ({"num_expert_groups": 4, "num_limited_groups": 5}, "num_limited_groups is 5"),
        ({"num_expert_groups": 8, "num_limited_groups": 2}, "two best scores"),
        ({"num_expert_groups": 4, "num_limited_groups": 1, "top_k": 3}, "1 groups of 2 are open"),
    ],
)
def test_what_no_layer_computes_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MoEArgs(**fields)


def test_router_dtype_may_be_a_dtype() -> None:
    args = MoEArgs(router_dtype=torch.float32)  # pyright: ignore[reportArgumentType]

    assert args.router_dtype == "float32"
    assert args.torch_router_dtype == torch.float32


def test_options_of_a_config() -> None:
    config = SimpleNamespace(
        num_experts=6,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        hidden_act="gelu",
        shared_expert_intermediate_size=48,
    )
    args = MoEArgs.from_hf_config(config, top_k=3)

    assert (args.num_experts, args.top_k, args.route_norm) == (6, 3, True)
    assert (args.num_shared_experts, args.use_shared_expert_gate) == (1, True)
    assert args.activation == "gelu"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grouped_product_equals_one_product_per_group(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(10, 4, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(4, 6, 4, generator=generator).to(dtype).requires_grad_()
    # The second group is empty, and the last two rows belong to none.
    ends = torch.tensor([3, 3, 7, 8])
    g = torch.randn(10, 6, generator=generator).to(dtype)
    out = grouped_linear(x, weight, ends)
    out.backward(g)
    found = (x.grad, weight.grad)
    x.grad = weight.grad = None
    starts = [0, 3, 3, 7]
    parts = [F.linear(x[s:e], weight[i]) for i, (s, e) in enumerate(zip(starts, ends, strict=True))]
    expected = torch.cat([*parts, torch.zeros(2, 6, dtype=dtype)])
    expected.backward(g)

    assert torch.equal(out, expected)
    assert found[0] is not None
    assert found[1] is not None
    assert torch.equal(found[0], x.grad)
    assert torch.equal(found[1], weight.grad)


def test_grouped_product_compiles_into_one_graph() -> None:
    x, weight = torch.randn(6, 4), torch.randn(2, 3, 4)
    ends = torch.tensor([2, 6])
    compiled = torch.compile(grouped_linear, backend="aot_eager", fullgraph=True)

    assert torch.equal(compiled(x, weight, ends), grouped_linear(x, weight, ends))


def test_tokens_come_back_from_the_order_of_experts() -> None:
    chosen = torch.tensor([[2, 0], [0, 1], [2, 1]])
    scores = torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    sorted_scores, order, counts = TokenReorderer(4, 2)(scores, chosen)
    x = torch.arange(3.0).unsqueeze(-1)
    rows = permute_tokens(x, order, 2)
    back = unpermute_tokens(rows, order, 6)

    assert counts.tolist() == [2, 2, 2, 0]
    assert order.tolist() == [1, 2, 3, 5, 0, 4]
    assert rows[:, 0].tolist() == [0.0, 1.0, 1.0, 2.0, 0.0, 2.0]
    assert sorted_scores.tolist() == pytest.approx([0.2, 0.3, 0.4, 0.6, 0.1, 0.5])
    assert back[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    merged = merge_expert_outputs(back, scores, 2)[:, 0].tolist()
    assert merged == pytest.approx([0.0, 0.7, 2.2])
    assert merge_expert_outputs(back, None, 2)[:, 0].tolist() == [0.0, 2.0, 4.0]


def test_scores_are_sigmoids_unless_something_else_is_said() -> None:
    assert MoEArgs().score_func == "sigmoid"
    config = SimpleNamespace(num_experts=4, num_experts_per_tok=2)
    assert MoEArgs.from_hf_config(config).score_func == "softmax", "as Qwen's configs mean it"
