"""AReaL's three loss functions, and what the policy loss refuses; test_presets has the papers."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from areal.api.cli_args import RejectionSamplingConfig
from areal.utils.functional import (
    PolicyLossOptions,
    SequenceLayout,
    aggregate_loss,
    aggregation_weight,
    cispo_loss_fn,
    importance_ratio,
    m2_mask,
    policy_loss,
    ppo_actor_loss_fn,
    safe_exp,
    sapo_loss_fn,
)

CU_SEQLENS = torch.tensor([0, 2, 5], dtype=torch.int32)
MASK = torch.tensor([1, 1, 1, 0, 1])


def tensors(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    new, prox, old, advantages = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    return new.requires_grad_(), prox, old, advantages


def test_areal_names_give_value_and_statistics_per_token() -> None:
    new, prox, old, advantages = tensors()
    loss, stats = ppo_actor_loss_fn(new, prox, old, advantages, 0.2, MASK, c_clip=3.0)
    ratio, weight = (new - prox).exp(), (prox - old).exp()
    term = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(0.8, 1.2))
    term = torch.where(advantages < 0, torch.minimum(term, -3.0 * advantages), term) * weight
    torch.testing.assert_close(loss, (term * MASK).sum() / 4)
    assert {*stats} == {
        "approx_kl",
        "behave_approx_kl",
        "clip_mask",
        "dual_clip_mask",
        "importance_weight",
        "loss",
    }
    for name, value in stats.items():
        assert value.shape == MASK.shape, name
        assert not value.requires_grad, name
        assert value[3] == 0, name
    torch.testing.assert_close(stats["loss"].sum() / 4, loss.detach())
    assert bool((stats["approx_kl"] >= 0).all())


def test_the_same_tensor_twice_switches_the_correction_off() -> None:
    new, prox, _, advantages = tensors()
    loss, stats = ppo_actor_loss_fn(new, prox, prox, advantages, 0.2, MASK)
    assert "behave_approx_kl" not in stats
    equal, _ = ppo_actor_loss_fn(new, prox, prox.clone(), advantages, 0.2, MASK)
    torch.testing.assert_close(loss, equal)


def test_no_gradient_reaches_the_policies_that_it_is_compared_with() -> None:
    new, prox, old, advantages = tensors()
    prox.requires_grad_()
    old.requires_grad_()
    loss, _ = ppo_actor_loss_fn(new, prox, old, advantages, 0.2, MASK)
    loss.backward()
    assert new.grad is not None
    assert prox.grad is None
    assert old.grad is None


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (
            cispo_loss_fn,
            "logprobs proximal_logprobs advantages eps_clip loss_mask eps_clip_higher "
            "old_logprobs rejection_sampling cu_seqlens",
        ),
        (
            sapo_loss_fn,
            "logprobs old_logprobs advantages tau_pos tau_neg loss_mask "
            "importance_sampling_level cu_seqlens",
        ),
    ],
)
def test_arguments_stand_where_areals_callers_put_them(function: Any, parameters: str) -> None:
    assert list(inspect.signature(function).parameters) == parameters.split()


def test_sapo_and_cispo_under_their_names() -> None:
    new, _, old, advantages = tensors()
    ratio = (new - old).exp()
    tau = torch.tensor([1.0 if a > 0 else 1.05 for a in advantages], dtype=torch.float64)
    gate = torch.sigmoid(tau * (ratio - 1)) * 4 / tau
    sapo, _ = sapo_loss_fn(new, old, advantages, 1.0, 1.05, MASK)
    torch.testing.assert_close(sapo, (-gate * advantages * MASK).sum() / 4)
    cispo, _ = cispo_loss_fn(new, old, advantages, 0.2, MASK, eps_clip_higher=0.5)
    weight = ratio.detach().clamp(0.8, 1.5)
    torch.testing.assert_close(cispo, (-weight * advantages * new * MASK).sum() / 4)


@pytest.mark.parametrize("shape", [(5,), (1, 5)])
def test_sapo_reports_its_gates(shape: tuple[int, ...]) -> None:
    new, _, old, advantages = (x.reshape(shape) for x in tensors())
    mask = MASK.reshape(shape)
    _, stats = sapo_loss_fn(new, old, advantages, 1.0, 2.0, mask)
    ratio = (new - old).exp().detach()
    pos, neg = (torch.sigmoid(tau * (ratio - 1)) * 4 / tau for tau in (1.0, 2.0))
    expected = {
        "sapo_soft_gate": torch.where(advantages > 0, pos, neg),
        "sapo_scaled_gate_pos": pos,
        "sapo_scaled_gate_neg": neg,
    }
    for name, value in expected.items():
        torch.testing.assert_close(stats[name], value * mask)
        assert not stats[name].requires_grad


def test_cispo_corrects_for_the_policy_that_sampled() -> None:
    new, prox, old, advantages = tensors()
    rejection = RejectionSamplingConfig(upper=2.0)
    loss, stats = cispo_loss_fn(
        new, prox, advantages, 0.2, MASK, old_logprobs=old, rejection_sampling=rejection
    )
    behave = (prox - old).exp()
    kept = MASK * (behave <= 2.0)
    weight = (new - prox).exp().detach().clamp(0.8, 1.2) * behave * kept
    torch.testing.assert_close(loss, (-weight * advantages * new).sum() / 4)
    assert float(stats["filtered_fraction"]) == pytest.approx(1 - float(kept.sum()) / 4)
    assert 0 < stats["filtered_fraction"] < 1


@pytest.mark.parametrize("eps_clip_higher", [0.0, -0.2])
def test_cispo_refuses_an_upper_bound_that_is_none(eps_clip_higher: float) -> None:
    new, prox, _, advantages = tensors()
    with pytest.raises(ValueError, match="eps_clip_higher must be greater than 0"):
        cispo_loss_fn(new, prox, advantages, 0.2, MASK, eps_clip_higher=eps_clip_higher)


def test_only_a_filter_reports_what_it_filtered() -> None:
    new, prox, old, advantages = tensors()
    names = {"behave_imp_weight", "filtered_fraction"}
    _, plain = ppo_actor_loss_fn(new, prox, old, advantages, 0.2, MASK)
    assert not names & plain.keys()
    on_policy = ppo_actor_loss_fn(
        new, prox, prox, advantages, 0.2, MASK, rejection_sampling=RejectionSamplingConfig()
    )
    assert float(on_policy[1]["filtered_fraction"]) == 0
    assert names <= on_policy[1].keys()
    rejection = RejectionSamplingConfig(upper=2.0)
    _, stats = ppo_actor_loss_fn(
        new, prox, old, advantages, 0.2, MASK, rejection_sampling=rejection
    )
    kept = MASK * ((prox - old).exp() <= 2.0)
    torch.testing.assert_close(stats["behave_imp_weight"], (prox - old).exp() * kept)
    assert float(stats["filtered_fraction"]) == pytest.approx(1 - float(kept.sum()) / 4)


@pytest.mark.parametrize(
    "options",
    [
        {"importance_sampling_level": "sequence"},
        {"rejection_sampling": RejectionSamplingConfig(level="sequence")},
    ],
)
def test_packed_sequences_need_their_offsets(options: dict[str, Any]) -> None:
    new, prox, old, advantages = tensors()
    with pytest.raises(ValueError, match="need cu_seqlens"):
        ppo_actor_loss_fn(new, prox, old, advantages, 0.2, MASK, **options)


def test_sequence_ratio_is_the_geometric_mean_packed_or_padded() -> None:
    new, _, old, _ = tensors()
    mask = MASK.bool()
    packed = importance_ratio(new, old, mask, "sequence", SequenceLayout.of(new, CU_SEQLENS))
    d = new - old
    expected = torch.stack([((d[0] + d[1]) / 2).exp()] * 2 + [((d[2] + d[4]) / 2).exp()] * 3)
    torch.testing.assert_close(packed, torch.where(mask, expected, 1.0))
    row = slice(2, 5)
    padded = importance_ratio(
        new[None, row], old[None, row], mask[None, row], "sequence", SequenceLayout.of(new[None])
    )
    torch.testing.assert_close(padded[0], packed[row])


def test_garbage_outside_the_mask_reaches_nothing() -> None:
    new, prox, old, advantages = tensors()
    loss, _ = ppo_actor_loss_fn(new, prox, old, advantages, 0.2, MASK)
    (clean,) = torch.autograd.grad(loss, new)
    with torch.no_grad():
        for x in (new, prox, old):
            x[3] = torch.nan
    dirty_loss, stats = ppo_actor_loss_fn(new, prox, old, advantages, 0.2, MASK)
    torch.testing.assert_close(dirty_loss, loss)
    torch.testing.assert_close(torch.autograd.grad(dirty_loss, new)[0], clean)
    assert all(bool(torch.isfinite(v).all()) for v in stats.values())


def test_nothing_to_learn_is_a_zero_that_can_be_differentiated() -> None:
    new, prox, old, advantages = tensors()
    for aggregation in ("token_mean", "sequence_mean"):
        options = PolicyLossOptions(aggregation=aggregation)
        nothing = torch.zeros(5)
        loss, _ = policy_loss(new, prox, old, advantages, nothing, options, cu_seqlens=CU_SEQLENS)
        loss.backward()
        assert loss == 0.0
        assert bool((new.grad == 0).all())
        assert aggregation_weight(nothing, aggregation, CU_SEQLENS) == 0.0


def test_ratios_far_off_stay_finite_and_push_nowhere() -> None:
    far = torch.tensor([500.0, -500.0], requires_grad=True)
    out = safe_exp(far)
    assert bool(torch.isfinite(out).all())
    out.sum().backward()
    assert far.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("aggregation", "expected", "weight"),
    [
        ("token_mean", (1 + 2 + 4 + 16) / 4, 4),
        ("sequence_mean", (1.5 + 10) / 2, 2),
        ("sequence_mean_token_sum", (3 + 20) / 2, 2),
        ("sequence_mean_token_sum_norm", (3 + 20) / 2 / 8, 2),
    ],
)
def test_aggregations(aggregation: str, expected: float, weight: int) -> None:
    losses = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    mask = torch.tensor([1, 1, 1, 0, 1, 0]).bool()
    cu_seqlens = torch.tensor([0, 2, 5, 6])  # the last sequence is padding
    layout = SequenceLayout.of(losses, cu_seqlens)
    assert aggregate_loss(losses, mask, aggregation, layout, norm_length=8) == expected
    assert aggregation_weight(mask, aggregation, cu_seqlens) == weight


def test_second_moment_mask_judges_only_what_a_clip_could() -> None:
    log_ratio = torch.tensor([0.1, 0.5, -0.9, 0.3, 2.0, -0.2])
    advantages = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    mask = torch.tensor([1, 1, 1, 1, 1, 1])
    # Judged are places 0, 1 and 5, with squares 0.01, 0.25 and 0.04.
    for threshold, kept in [
        (0.005, [2, 3, 4]),
        (0.02, [0, 2, 3, 4]),
        (0.03, [0, 2, 3, 4, 5]),
        (0.2, [0, 1, 2, 3, 4, 5]),
    ]:
        out = m2_mask(log_ratio, advantages, mask, threshold)
        assert out.nonzero().flatten().tolist() == kept
    assert m2_mask(log_ratio, advantages, 1 - mask, 0.04).sum() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate": "soft"}, "unknown gate 'soft'"),
        ({"aggregation": "sum"}, "unknown aggregation 'sum'"),
        ({"importance_sampling_level": "word"}, "unknown importance_sampling_level"),
    ],
)
def test_unknown_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyLossOptions(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PolicyLossOptions(aggregation="sequence_mean"), "need cu_seqlens"),
        (PolicyLossOptions(kl_coef=0.1), "no ref_logprobs"),
        (PolicyLossOptions(c_clip=0.5), "greater than 1"),
    ],
)
def test_missing_inputs_are_refused(options: PolicyLossOptions, message: str) -> None:
    new, prox, old, advantages = tensors()
    with pytest.raises(ValueError, match=message):
        policy_loss(new, prox, old, advantages, MASK, options)
    with pytest.raises(ValueError, match="end at 5, but there are 4"):
        SequenceLayout.of(new[:4], CU_SEQLENS)
