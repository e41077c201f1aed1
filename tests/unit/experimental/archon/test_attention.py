"""Attention backends against the definition, sequence by sequence in float64."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as gemma2_attention
from transformers.models.llama.modeling_llama import eager_attention_forward as llama_attention

from areal.api.errors import ConfigError
from areal.experimental.models.archon.attention import AttentionCore, packed_attention
from areal.experimental.models.archon.attention import cpu as cpu_backend
from areal.experimental.models.archon.attention import softcap as softcap_backend
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.positions import AlibiSlopes, KeyBias, alibi_slopes

LENGTHS = (7, 1, 40, 23, 40, 12)
HEADS, KV_HEADS, DIM = 4, 2, 8
# Float32 against float64: sums of 40 products of order one.
TOLERANCE = 5e-6

FEATURES = {
    "plain": {},
    "window": {"window": 5},
    "window_of_one": {"window": 1},
    "window_past_the_end": {"window": 100},
    "chunk": {"chunk": 16},
    "chunk_and_window": {"chunk": 16, "window": 5},
    "softcap": {"softcap": 0.7},
    "softcap_window": {"softcap": 0.7, "window": 5},
    "sinks": {"sinks": True},
    "sinks_window": {"sinks": True, "window": 5},
    "sinks_softcap": {"sinks": True, "softcap": 0.7},
    "alibi": {"alibi": True},
    "alibi_window": {"alibi": True, "window": 5},
    "narrow_values": {"value_dim": 5},
    "wide_values": {"value_dim": 11},
    "wide_values_softcap": {"value_dim": 11, "softcap": 0.7},
    "sinks_narrow_values": {"sinks": True, "value_dim": 5},
    "not_causal": {"causal": False},
    "not_causal_window": {"causal": False, "window": 5},
    "not_causal_window_of_one": {"causal": False, "window": 1},
    "not_causal_window_past_the_end": {"causal": False, "window": 100},
    "not_causal_chunk": {"causal": False, "chunk": 16},
    "not_causal_softcap_window": {"causal": False, "softcap": 0.7, "window": 5},
    "not_causal_wide_values": {"causal": False, "value_dim": 11},
}


def make_packing(lengths):
    positions = torch.cat([torch.arange(n) for n in lengths])[None]
    cu_seqlens = torch.tensor([0, *lengths]).cumsum(0).int()
    return Packing.of(positions, cu_seqlens, max(lengths))


def make_heads(lengths, value_dim=DIM, dtype=torch.float32, kv_heads=KV_HEADS):
    torch.manual_seed(0)
    total = sum(lengths)
    shapes = ((HEADS, DIM), (kv_heads, DIM), (kv_heads, value_dim))
    return [torch.randn(1, n, total, d, dtype=dtype).requires_grad_() for n, d in shapes]


def defined(q, k, v, lengths, *, scale, window=None, chunk=None, softcap=None, causal=True,
            sinks=None, slopes=None):  # fmt: skip
    """Computes what attention is, without any of the package's code."""
    groups = q.shape[1] // k.shape[1]
    outputs = []
    for parts in zip(*(x.split(lengths, dim=2) for x in (q, k, v)), strict=True):
        query, key, value = parts[0], *(x.repeat_interleave(groups, 1) for x in parts[1:])
        scores = query @ key.mT * scale
        i = torch.arange(scores.shape[-1])
        seen = torch.ones_like(scores[0, 0], dtype=torch.bool)
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        if causal:
            seen &= i[:, None] >= i
        if window:
            seen &= i[:, None] - i < window
            seen &= i - i[:, None] < window
        if chunk:
            seen &= i[:, None] // chunk == i // chunk
        if slopes is not None:
            scores = scores - slopes[:, None, None] * (i[:, None] - i)
        weights = scores.masked_fill(~seen, -torch.inf).exp()
        total = weights.sum(-1, keepdim=True)
        if sinks is not None:
            total = total + sinks.exp()[:, None, None]
        outputs.append(weights / total @ value)
    return torch.cat(outputs, dim=2)


def compare(attn_type, lengths, value_dim=DIM, sinks=False, alibi=False, **options):
    heads = make_heads(lengths, value_dim)
    exact = [x.detach().double().requires_grad_() for x in heads]
    extra = torch.linspace(-1.0, 1.0, HEADS)
    sink = extra.clone().requires_grad_() if sinks else None
    exact_sink = extra.double().requires_grad_() if sinks else None
    slopes = alibi_slopes(HEADS) if alibi else None
    core = AttentionCore(0, attn_type, scale=0.4, **options)
    out = core(*heads, make_packing(lengths), sinks=sink, alibi_slopes=slopes)
    expected = defined(
        *exact, lengths, scale=0.4, sinks=exact_sink,
        slopes=None if slopes is None else slopes.double(), **options,
    )  # fmt: skip
    assert out.shape == expected.shape
    torch.testing.assert_close(out.double(), expected, atol=TOLERANCE, rtol=0)
    direction = torch.randn_like(out)
    ours = torch.autograd.grad(out, [*heads, *([sink] if sinks else [])], direction)
    theirs = torch.autograd.grad(
        expected, [*exact, *([exact_sink] if sinks else [])], direction.double()
    )
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.double(), other, atol=10 * TOLERANCE, rtol=0)


@pytest.mark.parametrize("attn_type", ["varlen", "sdpa", "flex"])
@pytest.mark.parametrize("name", FEATURES)
def test_output_and_gradients_follow_the_definition(name, attn_type):
    compare(attn_type, LENGTHS, **FEATURES[name])


@pytest.mark.parametrize("name", ["plain", "window", "softcap", "sinks"])
def test_sequences_of_one_length_take_no_copies_and_stay_exact(name):
    compare("varlen", (9, 9, 9), **FEATURES[name])


@pytest.mark.parametrize(("length", "window"), list(itertools.product((24, 25, 31), (3, 8))))
@pytest.mark.parametrize("sinks", [False, True])
def test_long_rows_attend_block_by_block(length, window, sinks, monkeypatch):
    monkeypatch.setattr(cpu_backend, "MIN_BLOCK", 4)
    compare("varlen", (length, length - 1, 3), window=window, sinks=sinks)


@pytest.mark.parametrize("window", [None, 1, 5, 9])
def test_capped_scores_are_exact_over_several_blocks_of_queries(window, monkeypatch):
    monkeypatch.setattr(softcap_backend, "QUERY_BLOCK", 4)
    compare("varlen", LENGTHS, softcap=0.7, window=window, sinks=True)


def test_blocks_of_a_long_row_build_no_square_mask():
    packing = make_packing((400,))
    q, k, v = make_heads((400,))
    AttentionCore(0, "varlen", scale=1.0, window=20)(q, k, v, packing)
    masks = [x for x in packing._kept.values() if isinstance(x, torch.Tensor)]
    assert [tuple(x.shape) for x in masks] == [(64, 128)]


def test_layers_of_a_call_share_masks_and_rows():
    packing = make_packing(LENGTHS)
    heads = make_heads(LENGTHS)
    kept = []
    for layer in range(2):
        AttentionCore(layer, "varlen", scale=1.0, window=5)(*heads, packing)
        AttentionCore(layer, "varlen", scale=1.0, chunk=16)(*heads, packing)
        kept.append(dict(packing._kept))
    assert kept[0].keys() == kept[1].keys()
    assert all(kept[1][key] is value for key, value in kept[0].items())


@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize("name", ["plain", "window", "softcap", "sinks", "alibi"])
def test_bf16_computes_as_precisely_as_its_inputs_allow(name, is_fast, monkeypatch):
    monkeypatch.setattr(cpu_backend, "_is_fast", lambda dtype: is_fast)
    options = dict(FEATURES[name])
    sink = torch.linspace(-1, 1, HEADS) if options.pop("sinks", False) else None
    slopes = alibi_slopes(HEADS) if options.pop("alibi", False) else None
    heads = make_heads(LENGTHS, dtype=torch.bfloat16)
    core = AttentionCore(0, "varlen", scale=0.4, **options)
    out = core(*heads, make_packing(LENGTHS), sinks=sink, alibi_slopes=slopes)
    exact = [x.detach().double() for x in heads]
    expected = defined(
        *exact, LENGTHS, scale=0.4, **options,
        sinks=None if sink is None else sink.double(),
        slopes=None if slopes is None else slopes.double(),
    )  # fmt: skip
    assert out.dtype == torch.bfloat16
    # bf16 keeps 8 bits: half a unit in the last place of outputs up to 4, twice for emulation.
    torch.testing.assert_close(out.double(), expected, atol=2**-6, rtol=0)


def test_bias_in_three_bf16_dimensions_keeps_fp32_precision():
    """ALiBi at long distances needs more bits than bf16 has; the fp32 fallback must not hide it."""
    from areal.experimental.models.archon.attention.heads import with_key_bias

    bias = alibi_slopes(HEADS)[:, None] * torch.arange(4000)
    q, k = (torch.zeros(1, HEADS, 4000, DIM, dtype=torch.bfloat16) for _ in range(2))
    wide_q, wide_k, _ = with_key_bias(q, k, k, bias, scale=0.3)
    scores = 0.3 * (wide_q[:, :, :1].float() @ wide_k.float().mT)
    torch.testing.assert_close(scores[0, :, 0], bias, rtol=1e-5, atol=0)


def test_alibi_of_some_heads_is_that_of_those_heads():
    alibi = AlibiSlopes(HEADS)
    q, _, _ = make_heads(LENGTHS)
    alibi.first_head = 2
    assert torch.equal(alibi(q[:, :2]).slopes, alibi_slopes(HEADS)[2:])


def test_rounded_bias_multiplies_in_bf16_and_scales_after():
    bias = KeyBias(torch.tensor([0.3]), scale=2.0, dtype=torch.bfloat16)
    position = torch.tensor([301])
    expected = (torch.tensor([0.3]).bfloat16() * position).float() * 2.0
    assert torch.equal(bias.of(position)[0], expected)
    assert not torch.equal(bias.of(position)[0], 0.3 * position * 2.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("softcap", [None, 0.7])
def test_the_eager_backend_rounds_as_transformers_does(softcap, dtype):
    q, k, v = make_heads((17,), dtype=dtype)
    mask = torch.full((17, 17), torch.finfo(dtype).min, dtype=dtype).triu(1)[None, None]
    module = SimpleNamespace(num_key_value_groups=HEADS // KV_HEADS, training=False)
    options = {} if softcap is None else {"softcap": softcap}
    attend = llama_attention if softcap is None else gemma2_attention
    wanted, _ = attend(module, q, k, v, mask, scaling=0.4, dropout=0.0, **options)
    core = AttentionCore(0, "eager", scale=0.4, softcap=softcap)
    assert torch.equal(core(q, k, v, make_packing((17,))), wanted.transpose(1, 2))


def test_an_unknown_backend_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'flash9'.*flex, sdpa, varlen"):
        AttentionCore(0, "flash9", scale=1.0)


def test_heads_that_do_not_divide_are_refused():
    q, _, _ = make_heads((3,))
    _, k, v = make_heads((3,), kv_heads=3)
    with pytest.raises(ConfigError, match="4 query heads do not share 3"):
        AttentionCore(0, "varlen", scale=1.0)(q, k, v, make_packing((3,)))


class RecordingPlan:
    def __init__(self):
        self.calls = []

    def attend(self, layer, q_HTD, k_KTD, v_KTD, scale, window, softcap, sinks):
        self.calls.append((layer, v_KTD.shape[-1], scale, window, softcap, sinks))
        return q_HTD.transpose(0, 1)


def plan_packing():
    packing = make_packing((3,))
    return Packing(packing.positions, packing.cu_seqlens, 3, RecordingPlan())


def test_a_plan_gets_the_layer_and_what_its_scores_need():
    packing, sinks = plan_packing(), torch.zeros(HEADS)
    q, k, v = make_heads((3,))
    core = AttentionCore(5, "varlen", scale=0.5, window=2, softcap=3.0)
    out = core(q, k, v, packing, sinks=sinks)
    assert packing.plan.calls == [(5, DIM, 0.5, 2, 3.0, sinks)]
    assert torch.equal(out, q)


def test_a_plan_sees_values_of_the_keys_size():
    packing = plan_packing()
    q, k, v = make_heads((3,), value_dim=5)
    out = AttentionCore(0, "varlen", scale=0.5)(q, k, v, packing)
    assert packing.plan.calls[0][1] == DIM
    assert out.shape[-1] == 5


@pytest.mark.parametrize(
    ("options", "extra", "named"),
    [
        ({"chunk": 2}, {}, "chunk"),
        ({"causal": False}, {}, "causal=False"),
        ({}, {"alibi_slopes": torch.zeros(HEADS)}, "ALiBi"),
    ],
)
def test_what_a_plan_does_not_have_is_refused(options, extra, named):
    core = AttentionCore(0, "varlen", scale=1.0, **options)
    with pytest.raises(ConfigError, match=named):
        core(*make_heads((3,)), plan_packing(), **extra)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("attn_type", ["varlen", "flex"])
@pytest.mark.parametrize("name", FEATURES)
def test_cuda_follows_the_cpu_without_waiting_for_the_device(name, attn_type, dtype):
    options = dict(FEATURES[name])
    extra = {}
    if options.pop("sinks", False):
        extra["sinks"] = torch.linspace(-1, 1, HEADS)
    if options.pop("alibi", False):
        extra["alibi_slopes"] = alibi_slopes(HEADS)
    value_dim = options.pop("value_dim", DIM)
    results = []
    for device in ("cpu", "cuda"):
        heads = [x.detach().to(device) for x in make_heads(LENGTHS, value_dim, dtype)]
        heads = [x.requires_grad_() for x in heads]
        moved = {key: x.to(device) for key, x in extra.items()}
        packing = make_packing(LENGTHS)
        packing = Packing(packing.positions.to(device), packing.cu_seqlens.to(device), 40)
        core = AttentionCore(0, attn_type, scale=0.4, **options)
        for _ in range(2):  # the first call compiles
            torch.cuda.set_sync_debug_mode("default")
            out = core(*heads, packing, **moved)
            grads = torch.autograd.grad(out, heads, torch.ones_like(out))
            torch.cuda.set_sync_debug_mode("error" if device == "cuda" else "default")
        torch.cuda.set_sync_debug_mode("default")
        results.append([out.detach(), *grads])
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-4
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(there.cpu(), here, atol=tolerance, rtol=tolerance)


def test_a_compiled_block_is_not_compiled_again_for_other_lengths():
    core = AttentionCore(0, "varlen", scale=0.4)

    def block(q, k, v, packing):
        return core(q * 2, k, v, packing) + 1

    torch._dynamo.reset()
    compiled = torch.compile(block, backend="eager")
    frames = []
    for lengths in ((5, 7), (3, 9), (1, 1, 10)):
        heads = [x.detach() for x in make_heads(lengths)]
        out = compiled(*heads, make_packing(lengths))
        assert torch.equal(out, block(*heads, make_packing(lengths)))
        frames.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert len(set(frames)) == 1


@pytest.mark.parametrize("attn_type", ["varlen", "sdpa"])
def test_one_function_attends_as_the_layers_do(attn_type):
    heads = make_heads(LENGTHS)
    packing = make_packing(LENGTHS)
    out = packed_attention(
        *heads,
        cu_seqlens=packing.cu_seqlens,
        max_seqlen=packing.max_seqlen,
        attn_type=attn_type,
        window=5,
    )
    expected = AttentionCore(0, attn_type, scale=DIM**-0.5, window=5)(*heads, packing)
    assert torch.equal(out, expected)


def test_a_padded_batch_and_a_tree_are_refused():
    heads = [x.expand(2, -1, -1, -1) for x in make_heads((3,))]
    cu_seqlens = torch.tensor([0, 3])
    with pytest.raises(ConfigError, match="2 rows"):
        packed_attention(*heads, cu_seqlens=cu_seqlens, max_seqlen=3)
    with pytest.raises(ConfigError, match="tree attention"):
        packed_attention(
            *make_heads((3,)), cu_seqlens=cu_seqlens, max_seqlen=3, tree_attn_meta=object()
        )


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_type_that_the_cpu_only_emulates_is_computed_in_fp32(is_fast, monkeypatch):
    seen = []
    plain = cpu_backend._sdpa
    monkeypatch.setattr(cpu_backend, "_is_fast", lambda dtype: is_fast)
    monkeypatch.setattr(
        cpu_backend, "_sdpa", lambda q, *rest: seen.append(q.dtype) or plain(q, *rest)
    )
    heads = make_heads((5,), dtype=torch.bfloat16)
    out = AttentionCore(0, "varlen", scale=0.4)(*heads, make_packing((5,)))
    assert seen == [torch.bfloat16 if is_fast else torch.float32]
    assert out.dtype == torch.bfloat16


def test_large_capped_scores_of_bf16_are_not_rounded_between_the_steps(monkeypatch):
    monkeypatch.setattr(cpu_backend, "_is_fast", lambda dtype: True)
    heads = make_heads(LENGTHS, dtype=torch.bfloat16)
    core = AttentionCore(0, "varlen", scale=4.0, softcap=30.0)
    out = core(*heads, make_packing(LENGTHS))
    exact = [x.detach().double() for x in heads]
    expected = defined(*exact, LENGTHS, scale=4.0, softcap=30.0)
    # One rounding of outputs up to 4. Rounded scores of 30 would be off by 0.1, weights by 10 %.
    torch.testing.assert_close(out.double(), expected, atol=2**-7, rtol=0)


@pytest.mark.parametrize(
    "sizes", [{"window": 0}, {"window": -1}, {"chunk": 0}, {"softcap": 0.0}], ids=str
)
def test_a_size_that_is_none_is_refused(sizes):
    (name,) = sizes
    with pytest.raises(ConfigError, match=rf"the {name} of attention is .*; null means none"):
        AttentionCore(0, "sdpa", scale=1.0, **sizes)
