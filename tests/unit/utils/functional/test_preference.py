"""Preference losses beside a direct transcription of their formulas."""

from __future__ import annotations

import inspect
import math

import pytest
import torch

from areal.utils.functional import dpo_pair_logratios, dpo_preference_loss
from areal.utils.functional.preference import dpo_logits

BETA = 0.3


class Batch:
    """Random pairs, packed; the middle one has an answer without loss."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        lengths = torch.randint(2, 9, (6,), generator=generator)
        self.cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]).int()
        total = int(lengths.sum())
        self.logprobs = -torch.rand(total, generator=generator) * 5
        self.ref_logprobs = -torch.rand(total, generator=generator) * 5
        self.loss_mask = torch.rand(total, generator=generator) < 0.6
        self.loss_mask[self.cu_seqlens[3] : self.cu_seqlens[4]] = False
        self.valid_pairs = torch.tensor([True, False, True])

    def formula(self, loss_type: str) -> list[float]:
        """The loss of each valid pair, token by token."""
        losses: list[float] = []
        for pair in (0, 2):
            ratios: list[float] = []
            for sequence in (2 * pair, 2 * pair + 1):
                start, end = int(self.cu_seqlens[sequence]), int(self.cu_seqlens[sequence + 1])
                terms = [
                    float(self.logprobs[at - 1]) - float(self.ref_logprobs[at - 1])
                    for at in range(start + 1, end)
                    if self.loss_mask[at]
                ]
                mean = loss_type == "ipo"
                ratios.append(sum(terms) / max(len(terms), 1) if mean else sum(terms))
            margin = ratios[0] - ratios[1]
            if loss_type == "ipo":
                losses.append((margin - 1 / (2 * BETA)) ** 2)
            else:
                losses.append(-math.log(1 / (1 + math.exp(-BETA * margin))))
        return losses


def test_the_signatures_are_the_contracts() -> None:
    assert list(inspect.signature(dpo_pair_logratios).parameters) == [
        "logprobs",
        "ref_logprobs",
        "cu_seqlens",
        "loss_mask",
        "valid_pairs",
    ]
    parameters = inspect.signature(dpo_preference_loss).parameters
    assert list(parameters) == ["logits", "beta", "loss_type"]
    assert parameters["beta"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["loss_type"].default == "sigmoid"


@pytest.mark.parametrize("loss_type", ["sigmoid", "ipo"])
@pytest.mark.parametrize("seed", range(5))
def test_losses_are_those_of_the_formula(seed: int, loss_type: str) -> None:
    batch = Batch(seed)
    found = dpo_pair_logratios(
        batch.logprobs, batch.ref_logprobs, batch.cu_seqlens, batch.loss_mask, batch.valid_pairs
    )
    assert [(part.shape, part.dtype) for part in found] == [((2, 2), torch.float64)] * 3
    losses = dpo_preference_loss(dpo_logits(*found, loss_type), beta=BETA, loss_type=loss_type)
    assert losses.tolist() == pytest.approx(batch.formula(loss_type), rel=1e-12)


def test_the_mask_is_shifted_within_each_sequence() -> None:
    logprobs = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], requires_grad=True)
    reference = torch.tensor([0.5] * 7, requires_grad=True)
    # The first token of a sequence is predicted by none, though the mask has it.
    mask = torch.tensor([0, 1, 1, 1, 1, 1, 0])
    cu_seqlens = torch.tensor([0, 3, 7])
    policy, ref, lengths = dpo_pair_logratios(
        logprobs, reference, cu_seqlens, mask, torch.tensor([0])
    )
    assert policy.tolist() == [[1.0 + 2.0, 4.0 + 5.0]]
    assert (ref.tolist(), lengths.tolist()) == ([[1.0, 1.0]], [[2.0, 2.0]])
    policy.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [1, 1, 0, 1, 1, 0, 0]
    assert not ref.requires_grad


def test_what_is_masked_may_be_anything() -> None:
    logprobs = torch.tensor([-1.0, math.nan, -2.0, -math.inf])
    mask = torch.tensor([0, 1, 0, 1])
    policy, *_ = dpo_pair_logratios(
        logprobs, torch.zeros(4), torch.tensor([0, 2, 4]), mask, torch.tensor([True])
    )
    assert policy.tolist() == [[-1.0, -2.0]]


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="even number of sequences, found 1"):
        dpo_pair_logratios(
            torch.zeros(2), torch.zeros(2), torch.tensor([0, 2]), torch.ones(2), torch.tensor([0])
        )
    with pytest.raises(ValueError, match=r"'hinge'; known: ipo, sigmoid"):
        dpo_preference_loss(torch.zeros(1), beta=0.1, loss_type="hinge")
