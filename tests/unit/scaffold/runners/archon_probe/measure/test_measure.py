"""Do the probes see what a module does, whatever it is called, and say so where they do not?"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from archon_probe.design.derive import _check_reached
from archon_probe.errors import ProbeError
from archon_probe.measure import algebra, attention, norm, roles, rotary, scores
from archon_probe.measure.hooks import Call
from archon_probe.measure.mlp import observe_mlp
from archon_probe.measure.model import observe
from archon_probe.measure.random_weights import random_model
from archon_probe.measure.rotation_dtype import rotation_in_fp32
from archon_probe.measure.tiny import tiny_config
from transformers import PretrainedConfig, StableLmConfig
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm

LENGTH = 12


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Returns random numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class OffsetNorm(torch.nn.Module):
    """Is an RMS norm whose weight is kept less one."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(0.1 * numbers(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (1 + self.weight)


@pytest.mark.parametrize("eps", [1e-6, 1e-5, 3e-3])
def test_a_norm_is_told_by_what_it_does(eps: float) -> None:
    x = numbers(1, 5, 16)

    found = norm.observe_norm(OffsetNorm(16, eps), x)

    assert found is not None
    assert (found["kind"], found["offset"], found["eps"]) == ("rms", 1.0, eps)


@pytest.mark.parametrize(
    ("module", "is_late"),
    [(Olmo2RMSNorm(16), True), (LlamaRMSNorm(16), False), (GemmaRMSNorm(16), True)],
)
def test_bf16_shows_when_a_norm_is_rounded(module: torch.nn.Module, is_late: bool) -> None:
    torch.manual_seed(0)
    torch.nn.init.normal_(module.weight)
    found = norm.observe_norm(module, numbers(1, 5, 16))
    assert found is not None
    assert found["weight_in_fp32"] is is_late
    assert module.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("model_type", "kept"), [("llama", ""), ("olmo2", "tables"), ("cohere2", "products")]
)
def test_what_a_rotation_keeps_in_fp32_is_seen_in_bf16(model_type: str, kept: str) -> None:
    assert rotation_in_fp32(tiny_config(model_type)) == kept


def test_layer_norms_are_told_from_rms_norms() -> None:
    module = torch.nn.LayerNorm(16, eps=1e-5, bias=False)

    found = norm.observe_norm(module, numbers(1, 5, 16))

    assert found is not None
    assert (found["kind"], found["weight"], found["bias"]) == ("layer", True, False)


def test_a_linear_map_is_no_norm() -> None:
    assert norm.observe_norm(torch.nn.Linear(16, 16), numbers(1, 5, 16)) is None


def test_a_sum_is_written_with_its_weights() -> None:
    x, a, b = (numbers(6, 8, seed=s) for s in range(3))

    assert algebra.explain(x + 0.22 * a, {"x": x, "a": a, "b": b}) == [("x", 1.0), ("a", 0.22)]
    assert algebra.explain(x * a, {"x": x, "a": a, "b": b}) is None


def test_rounding_tells_a_state_from_its_almost_equal() -> None:
    x, a = numbers(6, 8), numbers(6, 8, seed=1)
    nearly = x * (1 + 5e-6 * numbers(6, 8, seed=2))

    assert algebra.explain(x + a, {"x": x, "nearly": nearly, "a": a}) == [("x", 1.0), ("a", 1.0)]


def rotated(x: torch.Tensor, dim: int, pairing: str, factor: float) -> torch.Tensor:
    """Returns heads [H, T, D] with their first dimensions rotated."""
    rates = 10000 ** (-torch.arange(dim // 2, dtype=torch.float64) * 2 / dim)
    angle = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * rates
    turn = torch.polar(torch.full_like(angle, factor), angle)
    part = x[..., :dim].double()
    if pairing == "half":
        whole = torch.complex(part[..., : dim // 2], part[..., dim // 2 :]) * turn
        out = torch.cat([whole.real, whole.imag], dim=-1)
    else:
        whole = torch.complex(part[..., 0::2], part[..., 1::2]) * turn
        out = torch.stack([whole.real, whole.imag], dim=-1).flatten(-2)
    return torch.cat([out.float(), x[..., dim:]], dim=-1)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize(("dim", "factor"), [(16, 1.0), (8, 1.0), (8, 1.3)])
def test_a_rotation_is_read_off_its_angles(pairing: str, dim: int, factor: float) -> None:
    q, k = numbers(4, LENGTH, 16), numbers(4, LENGTH, 16, seed=1)

    found = rotary.observe_rotation(
        (q, rotated(q, dim, pairing, factor)), (k, rotated(k, dim, pairing, factor))
    )

    assert found is not None
    assert (found["when"], found["pairing"], found["dim"]) == (True, pairing, dim)
    assert math.isclose(found["factor"], factor, rel_tol=1e-5)
    assert math.isclose(found["inv_freq"][1], 10000 ** (-2 / dim), rel_tol=1e-3)


def test_what_is_left_alone_is_no_rotation_and_what_is_mixed_is_unknown() -> None:
    q, k = numbers(4, LENGTH, 16), numbers(4, LENGTH, 16, seed=1)

    still = rotary.observe_rotation((q, q), (k, k))
    mixed = rotary.observe_rotation((q, q.flip(-1)), (k, k.flip(-1)))

    assert still == {"when": False, "temperature": []}
    assert mixed is None


class Numbers:
    """Is a configuration that knows one cap."""

    def to_dict(self) -> dict[str, float]:
        return {"cap": 50.0}


def products(change: object = None, window: int | None = None) -> scores.Products:
    """Returns the products of an attention call whose raw scores went through a function."""
    q, k, v = (numbers(4, LENGTH, 8, seed=s) for s in range(3))
    raw = q @ k.transpose(-1, -2)
    scored = change(raw) if callable(change) else raw * 0.35
    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)[None, :]
    hidden = (distance < 0) | (distance >= (window or LENGTH))
    masked = scored.masked_fill(hidden, torch.finfo(torch.float32).min)
    return scores.Products(q, k, v, masked, masked.softmax(-1) @ v)


def test_scores_are_scaled_windowed_and_capped() -> None:
    plain = scores.observe_scores(products(), Numbers())
    near = scores.observe_scores(products(window=5), Numbers())
    capped = scores.observe_scores(
        products(lambda raw: 50 * torch.tanh(raw * 0.35 / 50)), Numbers()
    )

    assert (plain["scale"], plain["window"], plain["softcap"]) == (0.35, None, None)
    assert near["window"] == 5
    assert (capped["softcap"], round(capped["scale"], 5)) == (50.0, 0.35)


def test_slopes_over_the_distance_are_powers_of_two() -> None:
    slopes = 2 ** (-8 * torch.arange(1, 5) / 4)
    keys = torch.arange(LENGTH)

    found = scores.observe_scores(
        products(lambda raw: raw * 0.35 + slopes[:, None, None] * keys), Numbers()
    )

    assert found["alibi"]["when"]
    assert found["alibi"]["max_bias"] == 8


def test_scores_of_an_unknown_kind_are_said_to_be_so() -> None:
    with pytest.raises(roles.UnknownStructureError, match="scores are no"):
        scores.observe_scores(products(lambda raw: raw.abs().sqrt()), Numbers())


def test_a_token_that_sees_nothing_has_no_scale() -> None:
    blind = products()
    blind.scores[:, 3] = torch.finfo(torch.float32).min

    with pytest.raises(roles.UnknownStructureError, match="sees no key"):
        scores.observe_scores(blind, Numbers())


@pytest.mark.parametrize("window", [1, 5, None])
def test_scores_are_scaled_beside_sinks_however_few_a_row_has(window: int | None) -> None:
    plain = products(window=window)
    sinks = numbers(4, seed=9)[:, None, None].expand(-1, LENGTH, 1)
    beside = torch.cat([plain.scores, sinks], dim=-1)
    beside = beside - beside.amax(dim=-1, keepdim=True)

    found = scores.observe_scores(replace(plain, scores=beside), Numbers())

    assert found["sinks"]["when"]
    assert math.isclose(found["scale"], 0.35, rel_tol=1e-4)
    assert found["window"] == window


def test_numbers_come_from_one_source_though_another_has_one_as_near() -> None:
    row, other = numbers(12), numbers(12, seed=1)
    wanted = torch.cat([row[:3], row[3:6] * 1.25])
    other[4] = row[3]

    found = attention.match_one_source(wanted, {"other": other, "row": row})

    assert found is not None
    assert found[1] == [("row", i) for i in range(6)]


@pytest.mark.parametrize(("model_type", "is_late"), [("olmo", False), ("olmoe", True)])
def test_a_bound_on_what_a_norm_gives_is_told_from_one_on_what_it_gets(
    model_type: str, is_late: bool
) -> None:
    config = tiny_config(model_type)
    config.clip_qkv = 0.7

    found = observe(random_model(config)).layers[0]["modules"]["attention"]

    assert found["clip_qkv"] == {"when": True, "limit": 0.7, "after_norm": is_late}


def test_a_scaled_number_that_lies_near_another_one_is_scaled() -> None:
    values = numbers(12)
    values[8] = 1.1 * values[2] + 2e-6
    rotated = torch.cat([1.1 * values[:8], values[8:]])
    matched = algebra.match_partly_scaled(rotated, {"q": values})
    assert matched is not None
    factor, matches = matched
    assert factor == pytest.approx(1.1)
    assert [column for _, column in matches] == [*range(12)]


@pytest.mark.parametrize("is_gated", [True, False])
@pytest.mark.parametrize(("first", "last"), [(1.0, 1.0), (1.5, 0.25)])
def test_a_feed_forward_may_multiply_before_and_after(
    is_gated: bool, first: float, last: float
) -> None:
    """Falcon-H1's gates and outputs have factors of the configuration."""

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = first
            self.up, self.gate = (torch.nn.Linear(8, 12, bias=False) for _ in range(2))
            self.down = torch.nn.Linear(12, 8, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = torch.nn.functional.silu(self.gate(x) * self.first)
            return self.down(hidden * self.up(x) if is_gated else hidden) * last

    block, calls = Block(), []
    for name, module in block.named_modules():
        module.register_forward_hook(
            lambda m, a, y, n=name: calls.append(Call(n, m, {"0": a[0]}, [y], 0, len(calls)))
        )
    with torch.no_grad():
        block(torch.randn(1, 11, 8))
    found = observe_mlp([calls[-1]], calls, PretrainedConfig(hidden_act="silu")).features
    assert (found["gated"], found["activation"]) == (is_gated, "silu")
    assert (found["first_multiplier"], found["down_multiplier"]) == (first, last)


@pytest.mark.parametrize(
    ("model_type", "why"),
    [
        ("deepseek_v32", "indexer: a DeepseekV32Indexer, which chooses the keys"),
        ("convbert", "gets 64 features, of which its heads give 32"),
        ("cpmant", "its layers get 69 tokens where the text has 37"),
        ("roc_bert", "a linear map of 1344 features where a token's embedding has 64"),
        ("gemma3n_text", "its layers pass on 4 vectors of each token"),
    ],
)
def test_what_is_unlike_other_models_is_said_in_words(model_type: str, why: str) -> None:
    model = random_model(tiny_config(model_type), 0)
    with pytest.raises(roles.UnknownStructureError, match=why):
        observe(model)


def test_parameters_for_another_input_than_text_are_refused() -> None:
    """LUKE's checkpoints hold embeddings of entities, which no text reaches."""
    model = random_model(tiny_config("luke"), 0)
    entities = {"name": "luke.entity_embeddings.entity_embeddings.weight"}
    queries = {"name": "luke.encoder.layer.{}.attention.self.e2e_query.weight"}
    with pytest.raises(ProbeError, match=r"does not reach: luke\.entity_embeddings"):
        _check_reached(model, [entities, queries])
    _check_reached(model, [])
    _check_reached(model, [entities, {"name": "luke.embeddings.word_embeddings.weight"}])
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("kv_heads", [2, 1])
def test_a_list_of_norms_is_one_norm_with_weights_for_each_head(kv_heads: int) -> None:
    config = tiny_config(StableLmConfig(qk_layernorm=True))
    config.num_key_value_heads = kv_heads
    found = observe(random_model(config)).layers[0]

    attention = found["modules"]["attention"]
    assert [attention[role]["heads"] for role in ("q_norm", "k_norm")] == [4, kv_heads]
    assert attention["q_norm"]["over"] == "head"
