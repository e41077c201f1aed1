from __future__ import annotations

import pytest
import torch

from areal.utils.functional import gather_logprobs, gather_logprobs_entropy


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
