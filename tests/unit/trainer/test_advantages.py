from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

from areal.api.cli_args import NormConfig, PPOActorConfig
from areal.trainer.advantages import compute_advantages, shift_to_next_token, truncated_rows
from areal.trainer.ppo.stats import batch_statistics

EOS = 2


def make_batch() -> dict[str, Any]:
    """Prompts of two tokens; answers of three, two (cut off: no EOS) and one token."""
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 0, 0]]).bool()
    loss_mask = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0]]).int()
    return {
        "input_ids": torch.tensor([[5, 6, 7, 8, EOS], [5, 6, 7, 8, 0], [5, 6, EOS, 0, 0]]).int(),
        "attention_mask": mask,
        "loss_mask": loss_mask,
        "logprobs": torch.tensor([[0, 0, -1.0, -2, -3], [0, 0, -4, -5, 0], [0, 0, -6, 0, 0]]),
        "versions": torch.where(loss_mask.bool(), 3, -1).int(),
        "turn_ids": torch.where(loss_mask.bool(), 0, -1).int(),
        "rewards": torch.tensor([1.0, 0.5, -1.0]),
    }


def config(**fields: Any) -> PPOActorConfig:
    base: dict[str, Any] = {"experiment_name": "e", "trial_name": "t", "backend": "fsdp:d1"}
    return PPOActorConfig(**base | {"kl_ctl": 0.0} | fields)


def per_row(out: dict[str, Any], key: str = "advantages") -> list[float]:
    """Returns the one value that each row's sampled tokens share."""
    rows = []
    for values, mask in zip(out[key], out["loss_mask"], strict=True):
        kept = values[mask]
        assert bool((kept == kept[0]).all())
        rows.append(float(kept[0]))
    return rows


def test_everything_is_aligned_to_the_prediction_of_the_next_token() -> None:
    batch = make_batch()
    before = {k: v.clone() for k, v in batch.items()}
    out = compute_advantages(batch, config())
    assert out["loss_mask"].int().tolist() == [[0, 1, 1, 1, 0], [0, 1, 1, 0, 0], [0, 1, 0, 0, 0]]
    assert out["logprobs"].tolist() == [[0, -1, -2, -3, 0], [0, -4, -5, 0, 0], [0, -6, 0, 0, 0]]
    assert out["turn_ids"].tolist() == [[-1, 0, 0, 0, -1], [-1, 0, 0, -1, -1], [-1, 0, -1, -1, -1]]
    assert out["advantages"].tolist() == [[0, 1, 1, 1, 0], [0, 0.5, 0.5, 0, 0], [0, -1, 0, 0, 0]]
    assert out["tot_rewards"].tolist() == [[0, 0, 0, 1, 0], [0, 0, 0.5, 0, 0], [0, -1, 0, 0, 0]]
    assert torch.equal(out["returns"], out["advantages"])
    assert all(torch.equal(batch[k], v) for k, v in before.items()), "the input is left alone"


def test_the_first_token_never_wraps_to_the_end() -> None:
    assert shift_to_next_token(torch.tensor([[9, 1, 2]]), fill=-1).tolist() == [[1, 2, -1]]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reward_scaling": 2.0, "reward_bias": 0.5}, [3.0, 2.0, -1.0]),
        ({"reward_scaling": 10.0, "reward_clip": 6.0}, [6.0, 5.0, -6.0]),
        (
            {
                "overlong_reward_penalty": True,
                "overlong_tokens": 2,
                "overlong_penalty_factor": 0.5,
                "max_new_tokens": 3,
            },
            [0.5, 0.25, -1.0],
        ),
    ],
)
def test_rewards_are_shaped(fields: dict[str, Any], expected: list[float]) -> None:
    assert per_row(compute_advantages(make_batch(), config(**fields))) == expected


def test_rewards_are_normalised_within_groups_of_any_size() -> None:
    norm = NormConfig(mean_level="group", std_level=None, group_size=3)
    whole = compute_advantages(make_batch(), config(reward_norm=norm))
    assert per_row(whole) == pytest.approx([1 - 1 / 6, 0.5 - 1 / 6, -1 - 1 / 6])
    uneven = compute_advantages(make_batch(), config(reward_norm=norm), group_sizes=[2, 1])
    assert per_row(uneven) == [0.25, -0.25, 0.0]
    with pytest.raises(ValueError, match="sum to 4"):
        compute_advantages(make_batch(), config(reward_norm=norm), group_sizes=[2, 2])


def test_advantages_are_normalised_over_tokens() -> None:
    norm = NormConfig(mean_level="batch", std_level="batch", eps=0.0)
    out = compute_advantages(make_batch(), config(adv_norm=norm))
    tokens = torch.tensor([1, 1, 1, 0.5, 0.5, -1])
    expected = (tokens - tokens.mean()) / tokens.std()
    torch.testing.assert_close(out["advantages"][out["loss_mask"]], expected)
    assert bool((out["advantages"][~out["loss_mask"]] == 0).all())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"eos_token_ids": [EOS]}, [False, True, False]),
        ({"eos_token_ids": None}, [True, False, False]),
    ],
)
def test_cut_off_answers_are_found(given: dict[str, Any], expected: list[bool]) -> None:
    settings = config(max_new_tokens=3)
    assert truncated_rows(make_batch(), settings, **given).tolist() == expected
    told = make_batch() | {"seq_no_eos_mask": torch.tensor([True, True, False])}
    assert truncated_rows(told, settings, **given).tolist() == [True, True, False]


def test_cut_off_answers_are_paid_nothing_where_asked() -> None:
    out = compute_advantages(make_batch(), config(mask_no_eos_with_zero=True), eos_token_ids=[EOS])
    assert per_row(out) == [1.0, 0.0, -1.0]
    kept = compute_advantages(make_batch(), config(), eos_token_ids=[EOS])
    assert per_row(kept) == [1.0, 0.5, -1.0]
    assert kept["seq_no_eos_mask"].tolist() == [False, True, False]


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("recompute", [False, True])
def test_kl_of_the_policy_that_sampled_is_paid_at_every_token(
    recompute: bool, decoupled: bool
) -> None:
    batch = make_batch() | {"ref_logp": torch.full((3, 5), -2.0), "prox_logp": torch.zeros(3, 5)}
    options = config(kl_ctl=0.1, recompute_logprob=recompute, use_decoupled_loss=decoupled)
    out = compute_advantages(batch, options)
    kl = [2.0, 2.0, 2.0] if recompute and not decoupled else [1.0, 0.0, -1.0]
    assert out["kl_rewards"][0].tolist() == pytest.approx([0, *(-0.1 * x for x in kl), 0])
    to_go = [1 - 0.1 * sum(kl[t:]) for t in range(3)]
    assert out["advantages"][0].tolist() == pytest.approx([0, *to_go, 0])
    in_loss = compute_advantages(batch, config(kl_ctl=0.1), kl_in_reward=False)
    assert float(in_loss["kl_rewards"].abs().sum()) == 0.0


def test_a_critic_makes_advantages_and_returns_differ() -> None:
    batch = make_batch() | {"values": torch.full((3, 5), 0.25)}
    out = compute_advantages(batch, config(discount=0.5, gae_lambda=0.5))
    # delta is 0.5 * 0.25 - 0.25 = -0.125 before the last token and 1 - 0.25 at it.
    last, middle = 0.75, -0.125 + 0.25 * 0.75
    assert out["advantages"][0, 1:4].tolist() == pytest.approx(
        [-0.125 + 0.25 * middle, middle, last]
    )
    expected = torch.where(out["loss_mask"], out["advantages"] + 0.25, 0.0)
    torch.testing.assert_close(out["returns"], expected)


def length_adaptive_lambda(batch: dict[str, Any], alpha: float) -> torch.Tensor:
    """Follows VAPO: longer answers get a larger lambda."""
    return 1 - 1 / (alpha * batch["loss_mask"].sum(1).clamp(min=1))


def test_lambda_may_be_a_function_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("lambda_module")
    module.length_adaptive_lambda = length_adaptive_lambda  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lambda_module", module)
    settings = config(
        gae_lambda="lambda_module.length_adaptive_lambda", gae_lambda_kwargs={"alpha": 2.0}
    )
    out = compute_advantages(make_batch(), settings)
    assert out["advantages"][0, 1:4].tolist() == pytest.approx([(5 / 6) ** 2, 5 / 6, 1.0])


def test_turns_discount_per_turn() -> None:
    batch = make_batch()
    batch["turn_ids"][0] = torch.tensor([-1, -1, 0, 0, 1])
    out = compute_advantages(batch, config(discount=0.9, gae_timestep_unit="turn"))
    assert out["advantages"][0].tolist() == pytest.approx([0, 0.9, 0.9, 1.0, 0])
    del batch["turn_ids"]
    with pytest.raises(ValueError, match="needs turn_ids"):
        compute_advantages(batch, config(gae_timestep_unit="turn"))


def test_what_the_loss_needs_besides_is_added_or_asked_for() -> None:
    approximating = config(use_decoupled_loss=True, prox_logp_method="loglinear")
    out = compute_advantages(make_batch(), approximating, current_version=5)
    assert out["prox_alpha"][0].tolist() == pytest.approx([0, 2 / 3, 2 / 3, 2 / 3, 0])
    with pytest.raises(ValueError, match="current_version"):
        compute_advantages(make_batch(), approximating)
    with pytest.raises(ValueError, match="needs prox_logp"):
        compute_advantages(make_batch(), config(m2_threshold=0.04))
    assert "prox_alpha" not in compute_advantages(make_batch(), config())


def test_an_answer_without_tokens_is_paid_nothing() -> None:
    batch = make_batch()
    batch["loss_mask"][2] = 0
    out = compute_advantages(batch, config(), eos_token_ids=[EOS])
    assert float(out["tot_rewards"][2].abs().sum()) == 0.0
    assert not out["seq_no_eos_mask"][2]


def test_statistics_of_a_batch() -> None:
    out = compute_advantages(make_batch(), config(), eos_token_ids=[EOS])
    stats = batch_statistics(out, group_sizes=[2, 1], current_version=5)
    expected = {
        "n_seqs": 3,
        "n_gen_tokens": 6,
        "reward": 0.5 / 3,
        "reward_min": -1,
        "reward_max": 1,
        "prompt_len": 2,
        "gen_len": 2,
        "gen_len_max": 3,
        "truncated_ratio": 1 / 3,
        "advantage_abs": 5 / 6,
        "kl_reward": 0,
        "n_groups": 2,
        "flat_group_ratio": 0.5,
        "staleness": 2,
        "staleness_max": 2,
    }
    assert {k: stats[k] for k in expected} == pytest.approx(expected)
    assert stats["reward_std"] == pytest.approx(float(out["rewards"].std(correction=0)))
    assert "n_groups" not in batch_statistics(out)


def test_rewards_of_tokens_are_paid_where_they_were_earned() -> None:
    earned = torch.tensor([[9.0, 0, 0.25, 0, 0.75], [0, 0, 0.5, 0, 0], [0, 0, -1, 0, 0]])
    batch = {**make_batch(), "token_rewards": earned}
    paid = compute_advantages(batch, config())["tot_rewards"]
    assert paid.tolist() == [[0, 0.25, 0, 0.75, 0], [0, 0.5, 0, 0, 0], [0, -1, 0, 0, 0]]
    # What shaping adds to their sum comes at the end.
    paid = compute_advantages(batch, config(reward_bias=1.0))["tot_rewards"]
    assert paid.tolist() == [[0, 0.25, 0, 1.75, 0], [0, 0.5, 1, 0, 0], [0, 0, 0, 0, 0]]


def test_a_normalised_reward_compares_sums_and_is_paid_at_the_end() -> None:
    norm = NormConfig(mean_level="batch", std_level=None)
    batch = make_batch()
    earned = {"token_rewards": torch.full(batch["logprobs"].shape, 1 / 3)}
    with_tokens = compute_advantages({**batch, **earned}, config(reward_norm=norm))
    without = compute_advantages(batch, config(reward_norm=norm))
    assert torch.equal(with_tokens["tot_rewards"], without["tot_rewards"])
