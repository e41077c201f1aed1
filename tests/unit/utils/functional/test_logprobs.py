from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from areal.utils.functional import (
    gather_logprobs,
    gather_logprobs_entropy,
    head_logprobs_entropy,
)


def case(
    num_tokens: int, vocabulary: int, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(num_tokens, vocabulary, generator=generator, dtype=torch.float64) * 3
    labels = torch.randint(0, vocabulary, (num_tokens,), generator=generator)
    return logits.to(dtype).requires_grad_(), labels


def reference(
    logits: torch.Tensor, labels: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    logp = torch.log_softmax(logits / temperature, -1)
    return logp.gather(-1, labels[..., None]).squeeze(-1), -(logp.exp() * logp).sum(-1)


@pytest.mark.parametrize("chunk_size", [1, 3, 7, 100])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_values_and_gradients_equal_log_softmax(chunk_size: int, temperature: float) -> None:
    logits, labels = case(7, 11)
    weights = torch.linspace(-1, 2, 7, dtype=torch.float64)

    def total(logprobs: torch.Tensor, entropy: torch.Tensor) -> torch.Tensor:
        return (weights * logprobs).sum() + (weights.flip(0) * entropy).sum()

    ours = gather_logprobs_entropy(logits, labels, temperature, chunk_size)
    expected = reference(logits, labels, temperature)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    (our_grad,) = torch.autograd.grad(total(*ours), logits)
    (expected_grad,) = torch.autograd.grad(total(*expected), logits)
    torch.testing.assert_close(our_grad, expected_grad, rtol=1e-11, atol=1e-12)


def test_gradients_equal_finite_differences() -> None:
    logits, labels = case(3, 4)
    assert torch.autograd.gradcheck(lambda x: gather_logprobs_entropy(x, labels, 0.9, 2), logits)


def test_gradient_of_logprobs_alone() -> None:
    logits, labels = case(6, 5)
    gather_logprobs(logits, labels).sum().backward()
    one_hot = torch.nn.functional.one_hot(labels, 5)
    torch.testing.assert_close(logits.grad, one_hot - torch.softmax(logits.detach(), -1))


def test_batch_dimensions_are_kept() -> None:
    logits, labels = case(6, 5)
    out, entropy = gather_logprobs_entropy(logits.view(2, 3, 5), labels.view(2, 3), chunk_size=4)
    torch.testing.assert_close(out.flatten(), gather_logprobs(logits, labels))
    assert entropy.shape == (2, 3)


def test_half_precision_logits_are_computed_in_float32() -> None:
    logits, labels = case(8, 50, torch.bfloat16)
    out, entropy = gather_logprobs_entropy(logits, labels)
    assert out.dtype == entropy.dtype == torch.float32
    torch.testing.assert_close(out, reference(logits.float(), labels, 1.0)[0])
    out.sum().backward()
    assert logits.grad.dtype == torch.bfloat16


def test_masked_out_logits_leave_everything_finite() -> None:
    logits, labels = case(4, 6)
    with torch.no_grad():
        logits[:, 2] = -torch.inf
    labels = torch.where(labels == 2, 0, labels)
    out, entropy = gather_logprobs_entropy(logits, labels)
    (out.sum() + entropy.sum()).backward()
    assert bool(torch.isfinite(entropy).all() & torch.isfinite(logits.grad).all())
    kept = [0, 1, 3, 4, 5]
    torch.testing.assert_close(entropy, reference(logits[:, kept], torch.zeros(4).long(), 1.0)[1])


def test_no_token_is_no_trouble() -> None:
    logits = torch.zeros(0, 5, requires_grad=True)
    out, entropy = gather_logprobs_entropy(logits, torch.zeros(0, dtype=torch.long))
    assert out.shape == entropy.shape == (0,)
    out.sum().backward()


@pytest.mark.parametrize(
    ("labels", "temperature", "message"),
    [(torch.zeros(2).long(), 1.0, "do not fit"), (torch.zeros(3).long(), 0.0, "positive")],
)
def test_refuses(labels: torch.Tensor, temperature: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gather_logprobs(torch.zeros(3, 5), labels, temperature)


def capped(head: torch.nn.Linear, hidden: torch.Tensor) -> torch.Tensor:
    """Is a head with a bias and a soft cap."""
    return 5.0 * torch.tanh(head(hidden) / 5.0)


def head_case(dtype: torch.dtype) -> tuple[torch.nn.Linear, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    head = torch.nn.Linear(13, 29, dtype=dtype)
    hidden = torch.randn(17, 13, dtype=dtype, requires_grad=True)
    return head, hidden, torch.randint(29, (17,))


@pytest.mark.parametrize("chunk_size", [1, 5, 17, 100])
def test_a_head_by_chunks_gives_the_values_and_gradients_of_its_logits(chunk_size: int) -> None:
    head, hidden, labels = head_case(torch.float64)
    weights = torch.linspace(-1, 2, 17, dtype=torch.float64)
    logits = capped(head, hidden)
    expected = gather_logprobs_entropy(logits, labels, 0.7)
    found = head_logprobs_entropy(
        hidden, lambda h: capped(head, h), tuple(head.parameters()), labels, 0.7, chunk_size
    )
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    wanted = [hidden, *head.parameters()]

    def gradients(logprobs: torch.Tensor, entropy: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total = (weights * logprobs).sum() + (weights.flip(0) * entropy).sum()
        return torch.autograd.grad(total, wanted)

    torch.testing.assert_close(gradients(*found), gradients(*expected), rtol=1e-11, atol=1e-12)


def test_gradients_of_a_head_in_bf16_are_summed_in_fp32() -> None:
    head, hidden, labels = head_case(torch.bfloat16)
    parameters = tuple(head.parameters())
    exact = torch.nn.Linear(13, 29)
    exact.load_state_dict(head.state_dict())
    wide = gather_logprobs(exact(hidden.detach().float()), labels)
    truth = torch.autograd.grad(wide.sum(), tuple(exact.parameters()))
    by_one, _ = head_logprobs_entropy(hidden, head, parameters, labels, chunk_size=1)
    found = torch.autograd.grad(by_one.sum(), parameters)
    for each, true in zip(found, truth, strict=True):
        # Each of 17 terms is rounded once, and their sum once more: bf16 has 8 bits.
        assert (each.float() - true).norm() < 2**-8 * true.norm()


class Largest(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that anything makes."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numbers = max(self.numbers, out.numel())
        return out


def test_logits_of_all_tokens_are_never_there() -> None:
    head = torch.nn.Linear(4, 50, bias=False)
    hidden, labels = torch.randn(64, 4, requires_grad=True), torch.randint(50, (64,))
    with Largest() as seen:
        logprobs, _ = head_logprobs_entropy(
            hidden, head, tuple(head.parameters()), labels, chunk_size=8
        )
        logprobs.sum().backward()
    assert seen.numbers == 8 * 50
    assert head.weight.grad is not None
