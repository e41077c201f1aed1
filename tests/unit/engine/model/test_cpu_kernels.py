"""The faster CPU kernels: equal to PyTorch in value and gradient, swapped in only where so."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModelForCausalLM
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from areal.engine.model import cpu_kernels, fused_linear
from areal.engine.model.cpu_kernels import FastLinear, FusedRmsNorm, even_size, use_cpu_kernels
from areal.engine.model.fused_linear import SiblingLinear, fuse_siblings
from tests.tiny_models import random_prompts, tiny_model


@pytest.fixture(autouse=True, params=["by size", "always"])
def onednn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs every test with oneDNN for large products only, and for all, on any processor."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("PyTorch was built without oneDNN")
    monkeypatch.setattr(cpu_kernels, "prefers_onednn", lambda: True)
    if request.param == "always":
        monkeypatch.setattr(cpu_kernels, "MIN_ONEDNN_MACS", 1)
        monkeypatch.setattr(cpu_kernels, "MIN_ONEDNN_WIDTH", 1)


def results(module: Callable[[Tensor], Tensor], x: Tensor, *leaves: Tensor) -> list[Tensor]:
    """Returns output and gradients for the input and some leaves, of a random functional."""
    x = x.detach().clone().requires_grad_()
    out = module(x)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    grads = torch.autograd.grad((out * weight).sum(), [x, *leaves])
    return [out.detach(), *grads]


def assert_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        scale = max([1.0, *other.abs().flatten().tolist()])
        # Another order of fp32 summation over a few hundred terms.
        torch.testing.assert_close(one, other, rtol=1e-4, atol=3e-6 * scale)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 5, 7), (1, 300, 7), (0, 7), (4, 1, 2, 7)])
def test_a_linear_layer_of_any_shape(bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(7, 11, bias=bias)
    fast = copy.deepcopy(plain)
    fast.__class__ = FastLinear
    x = torch.randn(shape)
    assert_equal(results(fast, x, *fast.parameters()), results(plain, x, *plain.parameters()))
    with torch.inference_mode():
        torch.testing.assert_close(fast(x), plain(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_large_linear_layer(transposed: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(130, 250)
    fast = copy.deepcopy(plain)
    fast.__class__ = FastLinear
    x = torch.randn(130, 400).t() if transposed else torch.randn(400, 130)
    assert_equal(results(fast, x, *fast.parameters()), results(plain, x, *plain.parameters()))


def test_frozen_parts_get_no_gradient() -> None:
    fast = nn.Linear(7, 11)
    fast.__class__ = FastLinear
    fast.weight.requires_grad_(False)
    x = torch.randn(3, 7)
    fast(x).sum().backward()
    assert fast.weight.grad is None
    torch.testing.assert_close(fast.bias.grad, torch.full((11,), 3.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_go_to_pytorch(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_kernels, "multiplies_slowly", lambda _: False)
    plain = nn.Linear(7, 11, dtype=dtype)
    fast = copy.deepcopy(plain)
    fast.__class__ = FastLinear
    x = torch.randn(3, 7, dtype=dtype)
    assert torch.equal(fast(x), plain(x))
    assert fast(x).dtype == dtype


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_of_16_bits_are_those_of_fp32_rounded_once(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_kernels, "multiplies_slowly", lambda other: other == dtype)
    torch.manual_seed(0)
    fast = nn.Linear(70, 90, dtype=dtype)
    fast.__class__ = FastLinear
    x = torch.randn(300, 70, dtype=dtype, requires_grad=True)
    wide = copy.deepcopy(fast).float()
    wide.__class__ = nn.Linear
    wide_x = x.detach().float().requires_grad_()
    grad = torch.randn(300, 90, dtype=dtype)
    fast(x).backward(grad)
    wide(wide_x).backward(grad.float())
    assert fast(x).dtype == fast.weight.grad.dtype == x.grad.dtype == dtype
    pairs = [
        (fast(x), wide(wide_x)),
        (x.grad, wide_x.grad),
        (fast.weight.grad, wide.weight.grad),
    ]
    for found, expected in pairs:
        # At most one unit of the last place, where two fp32 sums round to both sides.
        torch.testing.assert_close(
            found.float(), expected.to(dtype).float(), rtol=2 * torch.finfo(dtype).eps, atol=1e-6
        )


@pytest.mark.parametrize("shape", [(16,), (5, 16), (2, 3, 16), (1, 4, 3, 16), (1, 0, 16)])
def test_an_rms_norm_of_any_shape(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    plain = LlamaRMSNorm(16, eps=1e-5)
    with torch.no_grad():
        plain.weight.normal_()
    fused = copy.deepcopy(plain)
    fused.fused_eps = torch.tensor([1e-5])
    fused.__class__ = FusedRmsNorm
    x = torch.randn(shape) * 3
    assert_equal(results(fused, x, fused.weight), results(plain, x, plain.weight))
    with torch.inference_mode():
        torch.testing.assert_close(fused(x), plain(x), rtol=1e-5, atol=1e-6)


def test_an_rms_norm_passes_a_numerical_gradient_check() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda a, w: cpu_kernels._RmsNorm.apply(a, w, torch.tensor([1e-5])), (x, weight)
    )


class OffsetRMSNorm(LlamaRMSNorm):
    """Has the parameters of the plain kind and adds 1 to the weight."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        return F.rms_norm(hidden_states, self.weight.shape, 1 + self.weight, self.variance_epsilon)


class OddRMSNorm(LlamaRMSNorm):
    """Cannot be called with hidden states alone."""

    def forward(self, hidden_states: Tensor, gate: Tensor) -> Tensor:
        return super().forward(hidden_states * gate)


@pytest.mark.parametrize(
    ("make", "is_swapped"),
    [
        (lambda: LlamaRMSNorm(8), True),
        (lambda: Qwen3RMSNorm(8), True),
        (lambda: GemmaRMSNorm(8), False),
        (lambda: OffsetRMSNorm(8), False),
        (lambda: OddRMSNorm(8), False),
        (lambda: LlamaRMSNorm(8).bfloat16(), False),
        (lambda: nn.RMSNorm(8), False),
        (lambda: nn.LayerNorm(8), False),
    ],
)
def test_a_norm_is_swapped_only_where_it_computes_the_same(
    make: Callable[[], nn.Module], is_swapped: bool
) -> None:
    model = nn.Sequential(make())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    use_cpu_kernels(model)
    assert isinstance(model[0], FusedRmsNorm) == is_swapped
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


# --- siblings that read one input ---------------------------------------------------------------


def accelerated(architecture: str) -> nn.Module:
    model = tiny_model(architecture)
    use_cpu_kernels(model)
    fuse_siblings(model)
    return model


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "qwen3_moe", "gemma3_text"])
def test_a_whole_model_keeps_its_logits_and_gradients(architecture: str) -> None:
    plain, fast = tiny_model(architecture), accelerated(architecture)
    ids = torch.tensor(random_prompts([9, 9]))
    found = []
    for model in (plain, fast):
        logits = model(input_ids=ids, use_cache=False).logits
        weight = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
        grads = torch.autograd.grad((logits * weight).sum(), list(model.parameters()))
        found.append([logits.detach(), *grads])
    assert_equal(found[1], found[0])


def test_long_inputs_have_a_product_for_each_sibling(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = accelerated("llama")
    shared: list[int] = []
    compute = fused_linear._Block._compute
    monkeypatch.setattr(
        fused_linear._Block, "_compute", lambda self, x: shared.append(1) or compute(self, x)
    )
    ids = torch.tensor(random_prompts([9]))
    together = fast(input_ids=ids, use_cache=False).logits
    assert len(shared) == 2 * 2  # in each of two layers
    monkeypatch.setattr(fused_linear, "MAX_FUSED_SIZE", ids.numel() * 32)
    apart = fast(input_ids=ids, use_cache=False).logits
    assert len(shared) == 2 * 2
    torch.testing.assert_close(apart, together, rtol=1e-5, atol=1e-5)
    with torch.no_grad():  # no gradients to put together
        fast(input_ids=ids, use_cache=False)
    assert len(shared) == 2 * 2 * 2


def test_siblings_see_an_optimiser_step() -> None:
    plain, fast = tiny_model("llama"), accelerated("llama")
    ids = torch.tensor(random_prompts([9]))
    for model in (plain, fast):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(2):
            optimizer.zero_grad()
            model(input_ids=ids, use_cache=False).logits.square().mean().backward()
            optimizer.step()
    with torch.no_grad():
        expected, found = (m(input_ids=ids, use_cache=False).logits for m in (plain, fast))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_siblings_called_with_other_inputs_do_not_mix() -> None:
    block = next(m for m in accelerated("llama").modules() if hasattr(m, "gate_proj"))
    assert type(block.gate_proj) is SiblingLinear
    a, b = torch.randn(2, 3, 32).unbind(0)
    for first, second in ((a, b), (b, a), (a, a)):
        gate, up = block.gate_proj(first), block.up_proj(second)
        torch.testing.assert_close(gate, F.linear(first, block.gate_proj.weight))
        torch.testing.assert_close(up, F.linear(second, block.up_proj.weight))
    # Asking one sibling twice, changed weights between, gives the new product.
    block.gate_proj(a)
    with torch.no_grad():
        block.gate_proj.weight.mul_(2)
    torch.testing.assert_close(block.gate_proj(a), F.linear(a, block.gate_proj.weight))


def test_a_copy_of_a_model_is_independent() -> None:
    model = accelerated("llama")
    twin = copy.deepcopy(model)
    ids = torch.tensor(random_prompts([9]))
    with torch.no_grad():
        before = model(input_ids=ids).logits
        for parameter in twin.parameters():
            parameter.mul_(1.5)
        changed = twin(input_ids=ids).logits
        assert torch.equal(model(input_ids=ids).logits, before)
    reference = tiny_model("llama")
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.mul_(1.5)
        torch.testing.assert_close(changed, reference(input_ids=ids).logits, rtol=1e-4, atol=1e-5)


def test_parameters_and_checkpoints_stay_as_they_are(tmp_path: Path) -> None:
    plain, fast = tiny_model("qwen3"), accelerated("qwen3")
    assert list(plain.state_dict()) == list(fast.state_dict())
    assert all(torch.equal(fast.state_dict()[n], v) for n, v in plain.state_dict().items())
    fast.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert all(torch.equal(again.state_dict()[n], v) for n, v in plain.state_dict().items())


def test_sizes_are_few_and_hardly_larger() -> None:
    counts = range(1, 20_000)
    sizes = [even_size(count) for count in counts]
    for count, size in zip(counts, sizes, strict=True):
        assert count <= size < max(count + 16, count * 9 / 8)
    for power in range(7, 14):
        assert len({size for size in sizes if 2**power < size <= 2 ** (power + 1)}) == 8


@pytest.mark.parametrize(
    ("count", "size"),
    [(1, 16), (16, 16), (17, 32), (255, 256), (257, 288), (1024, 1024), (1025, 1152)],
)
def test_sizes_by_example(count: int, size: int) -> None:
    assert even_size(count) == size


def test_close_row_counts_share_what_onednn_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_kernels, "MIN_ONEDNN_MACS", 1)
    monkeypatch.setattr(cpu_kernels, "MIN_ONEDNN_WIDTH", 1)
    asked: set[tuple[tuple[int, ...], ...]] = set()
    original = cpu_kernels._onednn_matmul

    def noted(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
        asked.add((tuple(a.shape), tuple(b.shape)))
        return original(a, b, bias)

    monkeypatch.setattr(cpu_kernels, "_onednn_matmul", noted)
    layer = nn.Linear(8, 4)
    layer.__class__ = FastLinear
    for num_rows in range(33, 49):
        layer(torch.randn(num_rows, 8, requires_grad=True)).sum().backward()
    # Output and gradient of the input; that of the weight is MKL's.
    assert asked == {((48, 8), (4, 8)), ((48, 4), (8, 4))}
