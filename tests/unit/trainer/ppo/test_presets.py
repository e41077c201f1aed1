"""Every preset against its paper's formula, transcribed with loops over samples and tokens.

The references know nothing of packing, masks or batches: a sample is a list of 0-dim tensors.
Values and gradients are compared in float64, where two orders of addition differ by rounding alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from areal.api.cli_args import (
    MicroBatchSpec,
    PPOConfig,
    RejectionSamplingConfig,
    RunConfig,
    apply_preset,
)
from areal.api.config.presets import PRESETS
from areal.trainer.advantages import compute_advantages
from areal.trainer.ppo.policy_loss import PolicyLoss, build_policy_loss, needs_prox_logp
from areal.utils.data import (
    pack_mb_list,
    pack_tensor_dict,
    split_padded_tensor_dict_into_mb_list,
)

TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}  # float64, a few hundred additions
EPS = 1e-5  # NormConfig's default, which the papers leave out
MAX_NEW_TOKENS = 9
ALGORITHMS = sorted(set(PRESETS) - {"dpo", "rw", "sft"})


@dataclass
class Sample:
    """Is one answer: log-probabilities and values per token and its reward."""

    logp: list[torch.Tensor]
    old: list[float]
    prox: list[float]
    ref: list[float]
    values: list[float]
    reward: float
    prompt_length: int

    def ratios(self) -> list[torch.Tensor]:
        return [(new - old).exp() for new, old in zip(self.logp, self.old, strict=True)]


Groups = list[list[Sample]]


def make_groups(seed: int, sizes: tuple[int, ...] = (4, 4, 4), spread: float = 0.4) -> Groups:
    generator = torch.Generator().manual_seed(seed)

    def normal(n: int, scale: float) -> torch.Tensor:
        return torch.randn(n, generator=generator, dtype=torch.float64) * scale

    groups = []
    for size in sizes:
        prompt_length = int(torch.randint(1, 5, (), generator=generator))
        group = []
        for _ in range(size):
            length = int(torch.randint(1, MAX_NEW_TOKENS, (), generator=generator))
            old = normal(length, 1.0) - 2.0
            prox = old + normal(length, spread)
            new = prox + normal(length, spread)
            ref = old + normal(length, 0.5)
            reward = float(torch.randint(0, 2, (), generator=generator)) + float(normal(1, 0.1))
            leaves = [x.clone().requires_grad_() for x in new]
            values = normal(length, 0.5)
            lists = (old.tolist(), prox.tolist(), ref.tolist(), values.tolist())
            group.append(Sample(leaves, *lists, reward, prompt_length))
        groups.append(group)
    return groups


def make_config(algorithm: str, **actor: object) -> PPOConfig:
    config = PPOConfig(
        experiment_name="test", trial_name="presets", run=RunConfig(algorithm=algorithm)
    )
    config.gconfig.n_samples = 4
    apply_preset(config, ["gconfig.n_samples"])
    config.actor.max_new_tokens = MAX_NEW_TOKENS
    for name, value in actor.items():
        setattr(config.actor, name, value)
    return config


def make_batch(
    groups: Groups, config: PPOConfig, extra_columns: int = 0
) -> dict[str, torch.Tensor]:
    """Lays samples out as the rollout does: padded, unaligned, garbage where nobody may look."""
    samples = [s for group in groups for s in group]
    width = max(s.prompt_length + len(s.logp) for s in samples) + extra_columns
    shape = (len(samples), width)
    batch = {
        "input_ids": torch.full(shape, 7, dtype=torch.int32),
        "attention_mask": torch.zeros(shape, dtype=torch.bool),
        "loss_mask": torch.zeros(shape, dtype=torch.int32),
        "logprobs": torch.full(shape, -99.0, dtype=torch.float64),
        "versions": torch.full(shape, -1, dtype=torch.int32),
        "rewards": torch.tensor([s.reward for s in samples], dtype=torch.float64),
    }
    names = ("prox", "ref", "values")
    from_model = {name: torch.full(shape, 55.0, dtype=torch.float64) for name in names}
    for i, s in enumerate(samples):
        start, end = s.prompt_length, s.prompt_length + len(s.logp)
        batch["attention_mask"][i, :end] = True
        batch["loss_mask"][i, start:end] = 1
        batch["logprobs"][i, start:end] = torch.tensor(s.old, dtype=torch.float64)
        batch["versions"][i, start:end] = 3
        for name, values in from_model.items():
            values[i, start - 1 : end - 1] = torch.tensor(getattr(s, name), dtype=torch.float64)
    if needs_prox_logp(config.actor):
        batch["prox_logp"] = from_model["prox"]
    if config.actor.kl_ctl:
        batch["ref_logp"] = from_model["ref"]
    if config.critic is not None:
        batch["values"] = from_model["values"]
    return batch


def model_logprobs(groups: Groups, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Stacks the samples' leaves to the padded output of a model, aligned to the next token."""
    rows = []
    for i, s in enumerate(s for group in groups for s in group):
        row = [torch.tensor(0.1, dtype=torch.float64)] * batch["input_ids"].shape[1]
        row[s.prompt_length - 1 : s.prompt_length - 1 + len(s.logp)] = s.logp
        rows.append(torch.stack(row))
        assert batch["attention_mask"][i].sum() == s.prompt_length + len(s.logp)
    return torch.stack(rows)


def leaves_of(groups: Groups) -> list[torch.Tensor]:
    return [x for group in groups for s in group for x in s.logp]


def our_loss(
    groups: Groups,
    config: PPOConfig,
    extra_columns: int = 0,
    mb_spec: MicroBatchSpec | None = None,
) -> tuple[torch.Tensor, PolicyLoss]:
    batch = make_batch(groups, config, extra_columns)
    batch = compute_advantages(
        batch,
        config.actor,
        group_sizes=[len(g) for g in groups],
        current_version=4,
        kl_in_reward=config.run.kl_placement == "reward",
    )
    batch["current"] = model_logprobs(groups, batch)
    loss_fn, weight_fn = build_policy_loss(config.actor, config.run)
    if mb_spec is None:
        packed = pack_tensor_dict(batch)
        return loss_fn(packed["current"], None, packed), loss_fn
    mbs = pack_mb_list(split_padded_tensor_dict_into_mb_list(batch, mb_spec)).mbs
    assert len(mbs) > 1
    total = sum(weight_fn(mb) for mb in mbs)
    return sum(
        loss_fn(mb["current"], None, mb) * weight_fn(mb).double() / total for mb in mbs
    ), loss_fn


# --- the papers ---------------------------------------------------------------------------------


def mean(xs: list[float]) -> float:
    return sum(xs) / len(xs)


def std(xs: list[float]) -> float:
    if len(xs) == 1:
        return 0.0
    return math.sqrt(sum((x - mean(xs)) ** 2 for x in xs) / (len(xs) - 1))


def group_relative(groups: Groups) -> list[list[float]]:
    """A_i = (R_i - mean(R)) / std(R) within the group."""
    out = []
    for group in groups:
        rewards = [s.reward for s in group]
        out.append([(r - mean(rewards)) / (std(rewards) + EPS) for r in rewards])
    return out


def clip(x: torch.Tensor, low: float, high: float) -> torch.Tensor:
    return torch.clamp(x, low, high)


def clipped(r: torch.Tensor, a: float, low: float = 0.2, high: float = 0.2) -> torch.Tensor:
    """min(r A, clip(r, 1 - low, 1 + high) A)."""
    return torch.minimum(r * a, clip(r, 1 - low, 1 + high) * a)


def flat(groups: Groups, advantages: list[list[float]]) -> list[tuple[Sample, float]]:
    return [
        (s, a)
        for group, group_a in zip(groups, advantages, strict=True)
        for s, a in zip(group, group_a, strict=True)
    ]


def token_mean(terms: list[list[torch.Tensor]]) -> torch.Tensor:
    """1/sum_i |o_i| sum_i sum_t."""
    return sum(sum(t) for t in terms) / sum(len(t) for t in terms)


def grpo(groups: Groups) -> torch.Tensor:
    pairs = flat(groups, group_relative(groups))
    return -sum(sum(clipped(r, a) for r in s.ratios()) / len(s.logp) for s, a in pairs) / len(pairs)


def dr_grpo(groups: Groups) -> torch.Tensor:
    advantages = [[s.reward - mean([x.reward for x in g]) for s in g] for g in groups]
    pairs = flat(groups, advantages)
    return -sum(sum(clipped(r, a) for r in s.ratios()) / MAX_NEW_TOKENS for s, a in pairs) / len(
        pairs
    )


def dapo(groups: Groups) -> torch.Tensor:
    pairs = flat(groups, group_relative(groups))
    return -token_mean([[clipped(r, a, 0.2, 0.28) for r in s.ratios()] for s, a in pairs])


def gspo(groups: Groups) -> torch.Tensor:
    total = 0.0
    pairs = flat(groups, group_relative(groups))
    for s, a in pairs:
        s_i = (sum(n - o for n, o in zip(s.logp, s.old, strict=True)) / len(s.logp)).exp()
        total = total + clipped(s_i, a, 3e-4, 4e-4)
    return -total / len(pairs)


def leave_one_out(groups: Groups) -> list[list[float]]:
    out = []
    for group in groups:
        rewards = [s.reward for s in group]
        others = [mean(rewards[:i] + rewards[i + 1 :]) for i in range(len(rewards))]
        out.append([r - b for r, b in zip(rewards, others, strict=True)])
    return out


def rloo(groups: Groups) -> torch.Tensor:
    pairs = flat(groups, leave_one_out(groups))
    return -sum(a * sum(s.ratios()) for s, a in pairs) / len(pairs)


def reinforce(groups: Groups) -> torch.Tensor:
    samples = [s for group in groups for s in group]
    return -sum(s.reward * sum(s.ratios()) for s in samples) / len(samples)


def batch_normalised(advantages: list[list[float]]) -> list[list[float]]:
    """(A - mean) / std over all tokens of the batch."""
    tokens = [a for row in advantages for a in row]
    return [[(a - mean(tokens)) / (std(tokens) + EPS) for a in row] for row in advantages]


def reinforce_pp(groups: Groups) -> torch.Tensor:
    return reinforce_pp_with_kl(groups, beta=0.0)


def reinforce_pp_with_kl(groups: Groups, beta: float) -> torch.Tensor:
    """A_t = r - beta sum_{i >= t} KL(i), normalised over the batch, in PPO's clip."""
    samples = [s for group in groups for s in group]
    advantages = []
    for s in samples:
        kl = [o - f for o, f in zip(s.old, s.ref, strict=True)]
        advantages.append([s.reward - beta * sum(kl[t:]) for t in range(len(kl))])
    advantages = batch_normalised(advantages)
    return -token_mean(
        [
            [clipped(r, a) for r, a in zip(s.ratios(), row, strict=True)]
            for s, row in zip(samples, advantages, strict=True)
        ]
    )


def ppo(groups: Groups) -> torch.Tensor:
    """A_t = sum_l (gamma lambda)^l delta_{t+l} with gamma 1, over the batch; V is 0 at the end."""
    samples = [s for group in groups for s in group]
    advantages = []
    for s in samples:
        nexts = [*s.values[1:], 0.0]
        deltas = [after - before for before, after in zip(s.values, nexts, strict=True)]
        deltas[-1] += s.reward
        steps = range(len(deltas))
        advantages.append(
            [sum(0.95 ** (k - t) * deltas[k] for k in steps if k >= t) for t in steps]
        )
    return -token_mean(
        [
            [clipped(r, a) for r, a in zip(s.ratios(), row, strict=True)]
            for s, row in zip(samples, batch_normalised(advantages), strict=True)
        ]
    )


def lite_ppo(groups: Groups) -> torch.Tensor:
    batch_std = std([s.reward for g in groups for s in g])
    advantages = [
        [(s.reward - mean([x.reward for x in g])) / (batch_std + EPS) for s in g] for g in groups
    ]
    return -token_mean([[clipped(r, a) for r in s.ratios()] for s, a in flat(groups, advantages)])


def cispo(groups: Groups) -> torch.Tensor:
    terms = []
    for s, a in flat(groups, group_relative(groups)):
        weights = [min(r.item(), 5.0) for r in s.ratios()]  # a number: the gradient stops here
        terms.append([w * a * x for w, x in zip(weights, s.logp, strict=True)])
    return -token_mean(terms)


def sapo(groups: Groups) -> torch.Tensor:
    def f(r: torch.Tensor, a: float) -> torch.Tensor:
        tau = 1.0 if a > 0 else 1.05
        return 4 / tau / (1 + torch.exp(-tau * (r - 1)))

    pairs = flat(groups, group_relative(groups))
    return -sum(sum(f(r, a) * a for r in s.ratios()) / len(s.logp) for s, a in pairs) / len(pairs)


def m2po(groups: Groups) -> torch.Tensor:
    pairs = flat(groups, group_relative(groups))
    candidates = []
    for i, (s, a) in enumerate(pairs):
        for t, (prox, old) in enumerate(zip(s.prox, s.old, strict=True)):
            if (a > 0 and prox > old) or (a < 0 and prox < old):
                candidates.append(((prox - old) ** 2, i, t))
    while candidates and mean([m for m, _, _ in candidates]) > 0.04:
        candidates.remove(max(candidates))
    kept = {(i, t) for _, i, t in candidates}
    terms = []
    for i, (s, a) in enumerate(pairs):
        row = []
        for t, r in enumerate(s.ratios()):
            judged = a * (s.prox[t] - s.old[t]) > 0
            row.append(r * a if not judged or (i, t) in kept else r * 0.0)
        terms.append(row)
    return -token_mean(terms)


def decoupled_ppo(groups: Groups) -> torch.Tensor:
    samples = [s for group in groups for s in group]
    advantages = batch_normalised([[s.reward] * len(s.logp) for s in samples])
    terms = []
    for s, row in zip(samples, advantages, strict=True):
        terms.append(
            [
                math.exp(prox - old) * clipped((new - prox).exp(), a)
                for new, prox, old, a in zip(s.logp, s.prox, s.old, row, strict=True)
            ]
        )
    return -token_mean(terms)


REFERENCES: dict[str, Callable[[Groups], torch.Tensor]] = {
    "cispo": cispo,
    "dapo": dapo,
    "decoupled_ppo": decoupled_ppo,
    "dr_grpo": dr_grpo,
    "grpo": grpo,
    "gspo": gspo,
    "lite_ppo": lite_ppo,
    "m2po": m2po,
    "ppo": ppo,
    "reinforce": reinforce,
    "reinforce_pp": reinforce_pp,
    "rloo": rloo,
    "sapo": sapo,
}


# --- tests --------------------------------------------------------------------------------------


def gradients(loss: torch.Tensor, groups: Groups) -> torch.Tensor:
    return torch.stack(torch.autograd.grad(loss, leaves_of(groups), retain_graph=True))


def assert_same(ours: torch.Tensor, reference: torch.Tensor, groups: Groups) -> None:
    torch.testing.assert_close(ours, reference, **TOLERANCE)
    expected = gradients(reference, groups)
    assert expected.abs().max() > 1e-4, "a comparison of zeros shows nothing"
    torch.testing.assert_close(gradients(ours, groups), expected, **TOLERANCE)


def test_every_preset_has_a_reference() -> None:
    assert sorted(REFERENCES) == ALGORITHMS


@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 2, 3)])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_preset_equals_its_paper(algorithm: str, sizes: tuple[int, ...]) -> None:
    groups = make_groups(seed=len(algorithm), sizes=sizes)
    ours, _ = our_loss(groups, make_config(algorithm))
    assert_same(ours, REFERENCES[algorithm](groups), groups)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_micro_batches_add_up(algorithm: str) -> None:
    groups = make_groups(seed=5)
    whole, _ = our_loss(groups, make_config(algorithm))
    spec = MicroBatchSpec(n_mbs=3, max_tokens_per_mb=40)
    parts, _ = our_loss(groups, make_config(algorithm), mb_spec=spec)
    assert_same(parts, whole, groups)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_padding_changes_nothing(algorithm: str) -> None:
    groups = make_groups(seed=6)
    tight, _ = our_loss(groups, make_config(algorithm))
    wide, _ = our_loss(groups, make_config(algorithm), extra_columns=5)
    assert_same(wide, tight, groups)


@pytest.mark.parametrize(("algorithm", "baseline"), [("reinforce", None), ("rloo", leave_one_out)])
def test_on_policy_gradient_is_the_score_times_the_advantage(
    algorithm: str, baseline: Callable[[Groups], list[list[float]]] | None
) -> None:
    groups = make_groups(seed=8)
    for group in groups:
        for s in group:
            s.old = [x.item() for x in s.logp]
    ours, _ = our_loss(groups, make_config(algorithm))
    advantages = baseline(groups) if baseline else [[s.reward for s in g] for g in groups]
    pairs = flat(groups, advantages)
    score = -sum(a * sum(s.logp) for s, a in pairs) / len(pairs)
    torch.testing.assert_close(gradients(ours, groups), gradients(score, groups), **TOLERANCE)


def test_grpo_has_its_kl_term_in_the_loss() -> None:
    groups = make_groups(seed=9)
    ours, _ = our_loss(groups, make_config("grpo", kl_ctl=0.04))
    kl = 0.0
    samples = [s for g in groups for s in g]
    for s in samples:
        terms = [(f - x).exp() - (f - x) - 1 for x, f in zip(s.logp, s.ref, strict=True)]
        kl = kl + sum(terms) / len(terms) / len(samples)
    assert_same(ours, grpo(groups) + 0.04 * kl, groups)


def test_reinforce_pp_has_its_kl_term_in_the_reward() -> None:
    groups = make_groups(seed=10)
    ours, _ = our_loss(groups, make_config("reinforce_pp", kl_ctl=0.05))
    assert_same(ours, reinforce_pp_with_kl(groups, beta=0.05), groups)


def test_dual_clip_bounds_the_loss_of_bad_answers() -> None:
    groups = make_groups(seed=11, spread=1.5)
    ours, loss_fn = our_loss(groups, make_config("grpo", c_clip=1.5))
    pairs = flat(groups, group_relative(groups))
    total = 0.0
    for s, a in pairs:
        terms = [clipped(r, a) for r in s.ratios()]
        if a < 0:
            terms = [torch.maximum(x, torch.full_like(x, 1.5 * a)) for x in terms]
        total = total + sum(terms) / len(terms)
    assert_same(ours, -total / len(pairs), groups)
    assert loss_fn.pop_stats()["dual_clip_ratio"] > 0


@pytest.mark.parametrize("action", ["mask", "clamp"])
def test_behaviour_weights_are_filtered_but_still_counted(action: str) -> None:
    groups = make_groups(seed=12, spread=0.8)
    rejection = RejectionSamplingConfig(action=action, upper=1.5, lower=0.5)
    config = make_config("decoupled_ppo", rejection_sampling=rejection)
    ours, loss_fn = our_loss(groups, config)
    samples = [s for group in groups for s in group]
    advantages = batch_normalised([[s.reward] * len(s.logp) for s in samples])
    terms = []
    for s, row in zip(samples, advantages, strict=True):
        line = []
        for new, prox, old, a in zip(s.logp, s.prox, s.old, row, strict=True):
            weight = math.exp(prox - old)
            if not 0.5 <= weight <= 1.5:
                weight = 0.0 if action == "mask" else min(max(weight, 0.5), 1.5)
            line.append(weight * clipped((new - prox).exp(), a))
        terms.append(line)
    assert_same(ours, -token_mean(terms), groups)
    weights = [math.exp(p - o) for s in samples for p, o in zip(s.prox, s.old, strict=True)]
    outside = sum(not 0.5 <= weight <= 1.5 for weight in weights) / len(weights)
    filtered = loss_fn.pop_stats()["filtered_fraction"]
    assert float(filtered) == pytest.approx(0.0 if action == "clamp" else outside)
    assert 0 < outside < 1


def test_loglinear_needs_no_pass_and_interpolates_by_version() -> None:
    groups = make_groups(seed=13)
    config = make_config("decoupled_ppo", prox_logp_method="loglinear")
    assert not needs_prox_logp(config.actor)
    ours, _ = our_loss(groups, config)
    # Sampled by version 3, updated from 4 to 5: the proximal policy lies half way.
    for group in groups:
        for s in group:
            s.prox = [(o + n.item()) / 2 for o, n in zip(s.old, s.logp, strict=True)]
    assert_same(ours, decoupled_ppo(groups), groups)


def test_reuse_train_logp_is_the_current_policy() -> None:
    groups = make_groups(seed=14)
    config = make_config("decoupled_ppo", prox_logp_method="reuse_train_logp")
    assert not needs_prox_logp(config.actor)
    ours, _ = our_loss(groups, config)
    for group in groups:
        for s in group:
            s.prox = [n.item() for n in s.logp]
    assert_same(ours, decoupled_ppo(groups), groups)


def test_metrics_recomputes_and_reports_the_approximations() -> None:
    groups = make_groups(seed=15)
    for group in groups:
        for s in group:  # the truth is what loglinear guesses
            s.prox = [(o + n.item()) / 2 for o, n in zip(s.old, s.logp, strict=True)]
    ours, loss_fn = our_loss(groups, make_config("decoupled_ppo", prox_logp_method="metrics"))
    assert_same(ours, decoupled_ppo(groups), groups)
    stats = loss_fn.pop_stats()
    assert stats["prox_loglinear_abs_error"] < 1e-6
    assert stats["prox_rollout_abs_error"] > stats["prox_linear_abs_error"] > 1e-3


def test_recomputed_logprobs_replace_the_rollouts() -> None:
    groups = make_groups(seed=16)
    ours, _ = our_loss(groups, make_config("grpo", recompute_logprob=True))
    for group in groups:
        for s in group:
            s.old = s.prox
    assert_same(ours, grpo(groups), groups)
