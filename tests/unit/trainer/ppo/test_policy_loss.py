"""The wiring of configuration to loss: options, weights, statistics (test_presets: formulas)."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
import torch

from areal.api.cli_args import PPOActorConfig, RejectionSamplingConfig, RunConfig
from areal.trainer.ppo.policy_loss import build_policy_loss, needs_prox_logp, policy_loss_options


def actor(**fields: Any) -> PPOActorConfig:
    base: dict[str, Any] = {"experiment_name": "e", "trial_name": "t", "backend": "fsdp:d1"}
    return PPOActorConfig(**base | {"kl_ctl": 0.0} | fields)


def micro_batch(seed: int, lengths: list[int]) -> tuple[torch.Tensor, dict[str, Any]]:
    generator = torch.Generator().manual_seed(seed)
    num_tokens = sum(lengths)
    new, old, advantages = torch.randn(3, num_tokens, generator=generator)
    data = {
        "logprobs": old,
        "advantages": advantages,
        "loss_mask": torch.rand(num_tokens, generator=generator) > 0.3,
        "cu_seqlens": torch.tensor([0, *lengths]).cumsum(0).int(),
    }
    return new.requires_grad_(), data


@pytest.mark.parametrize(
    ("fields", "gate"),
    [({}, "clip"), ({"use_sapo_loss": True}, "sapo"), ({"use_cispo_loss": True}, "cispo")],
)
def test_options_follow_the_configuration(fields: dict[str, Any], gate: str) -> None:
    run = RunConfig(loss_aggregation="sequence_mean_token_sum_norm", kl_placement="loss")
    options = policy_loss_options(
        actor(kl_ctl=0.2, kl_estimator="k2", eps_clip=0.1, max_new_tokens=7, **fields), run
    )
    assert options.gate == gate
    assert (options.eps_clip, options.kl_coef, options.kl_estimator) == (0.1, 0.2, "k2")
    assert options.norm_length == 7
    assert policy_loss_options(actor(), run, max_new_tokens=9).norm_length == 9
    run.loss_norm_length = 11
    assert policy_loss_options(actor(), run, max_new_tokens=9).norm_length == 11
    assert policy_loss_options(actor(kl_ctl=0.2), RunConfig()).kl_coef == 0.0


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"recompute_logprob": True}, True),
        ({"use_decoupled_loss": True}, True),
        ({"use_decoupled_loss": True, "prox_logp_method": "loglinear"}, False),
        ({"use_decoupled_loss": True, "prox_logp_method": "metrics"}, True),
        ({"m2_threshold": 0.04}, True),
    ],
)
def test_who_needs_a_pass_before_the_update(fields: dict[str, Any], expected: bool) -> None:
    assert needs_prox_logp(actor(**fields)) is expected


def test_weights_count_tokens_or_sequences() -> None:
    _, data = micro_batch(0, [3, 4, 2])
    data["loss_mask"] = torch.tensor([1, 0, 1, 0, 0, 0, 0, 1, 1])
    for aggregation, expected in [("token_mean", 4.0), ("sequence_mean", 2.0)]:
        _, weight_fn = build_policy_loss(actor(), RunConfig(loss_aggregation=aggregation))
        assert float(weight_fn(data)) == expected


def test_statistics_are_those_of_all_micro_batches_together() -> None:
    loss_fn, _ = build_policy_loss(actor(eps_clip=0.2), RunConfig())
    parts = [micro_batch(1, [4, 3]), micro_batch(2, [6])]
    for new, data in parts:
        loss_fn(new, torch.full_like(new, 0.5), data)
    stats = loss_fn.pop_stats()
    new = torch.cat([n.detach()[d["loss_mask"]] for n, d in parts])
    old = torch.cat([d["logprobs"][d["loss_mask"]] for _, d in parts])
    advantages = torch.cat([d["advantages"][d["loss_mask"]] for _, d in parts])
    ratio = (new - old).exp()
    free, held = -advantages * ratio, -advantages * ratio.clamp(0.8, 1.2)
    expected = {
        "actor_loss": torch.maximum(free, held).mean(),
        "token_loss": torch.maximum(free, held).mean(),
        "importance_weight": ratio.mean(),
        "importance_weight_max": ratio.max(),
        "clip_ratio": (free < held).float().mean(),
        "dual_clip_ratio": torch.tensor(0.0),
        "approx_kl": (ratio - 1 - (new - old)).mean(),
        "logp_abs_diff": (new - old).abs().mean(),
        "logp_abs_diff_max": (new - old).abs().max(),
        "new_logp": new.mean(),
        "old_logp": old.mean(),
        "advantages": advantages.mean(),
        "entropy": torch.tensor(0.5),
        "n_valid_tokens": torch.tensor(float(len(new))),
    }
    assert stats.keys() == expected.keys()
    for name, value in expected.items():
        assert stats[name].ndim == 0
        assert not stats[name].requires_grad
        assert float(stats[name]) == pytest.approx(float(value), rel=1e-4), name
    assert loss_fn.pop_stats() == {}


def test_garbage_outside_the_mask_reaches_no_statistic() -> None:
    loss_fn, _ = build_policy_loss(actor(), RunConfig())
    new, data = micro_batch(3, [5])
    data["loss_mask"] = torch.tensor([True, True, False, True, False])
    with torch.no_grad():
        new[2], data["logprobs"][4] = math.nan, math.inf
    loss_fn(new, None, data).backward()
    assert all(math.isfinite(v) for v in loss_fn.pop_stats().values())
    assert bool(torch.isfinite(new.grad).all())


def test_what_the_batch_lacks_is_named() -> None:
    new, data = micro_batch(4, [5])
    loss_fn, _ = build_policy_loss(actor(recompute_logprob=True), RunConfig())
    with pytest.raises(ValueError, match="needs 'prox_logp'"):
        loss_fn(new, None, data)


def test_a_filter_without_effect_is_pointed_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="PolicyLoss"):
        build_policy_loss(actor(rejection_sampling=RejectionSamplingConfig()), RunConfig())
    assert "no effect without use_decoupled_loss" in caplog.text
