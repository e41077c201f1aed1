"""Warnings that explain: pure functions from the latest statistics to what is wrong and what to do.

They read these statistics of a step; one that is missing is not judged:

==========================  =====================================================================
reward                      mean reward of the trained samples
loss, grad_norm             of the optimiser step
truncated_ratio             fraction of samples cut at the length limit
flat_group_ratio            fraction of groups whose samples all got the same reward
logp_abs_diff, staleness    mean ``|log p_train - log p_rollout|`` in nats, and how many weight
                            versions lie between the two
rollout/accepted            episodes that gave a trajectory
rollout/failed              episodes that raised, hung or broke the trajectory format
rollout/failed/<exception>  the same by cause
reward/failures             calls of the reward that raised, died or ran out of time
==========================  =====================================================================
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Stats = Mapping[str, int | float | None]

PATIENCE_STEPS = 3
MAX_LOGPROB_GAP_NATS = 0.05  # bf16 servers against bf16 trainers differ by 0.01 to 0.02
MAX_FAILED_FRACTION = 0.1
COLLAPSE_WINDOW_STEPS = 8


class Finding(NamedTuple):
    """Something that a person should look at."""

    code: str
    text: str


def _latest(recent: Sequence[Stats], name: str, count: int = PATIENCE_STEPS) -> list[float] | None:
    """Return a statistic of the last steps, or None where it is missing in one of them."""
    values = [row.get(name) for row in recent[-count:]]
    if len(values) < count or any(value is None for value in values):
        return None
    return [float(value) for value in values if value is not None]


def all_truncated(recent: Sequence[Stats]) -> Finding | None:
    """Find that no sample ends by itself."""
    values = _latest(recent, "truncated_ratio")
    if values is None or min(values) < 0.999:
        return None
    return Finding(
        "all_truncated",
        f"every sample of the last {PATIENCE_STEPS} steps was cut at the length limit, so no "
        "answer is complete: raise gconfig.max_new_tokens, check that the tokenizer's "
        "end-of-sequence token is a stop token, or warm up with SFT",
    )


def no_learning_signal(recent: Sequence[Stats]) -> Finding | None:
    """Find that every group is unanimous, so that every advantage is zero."""
    values = _latest(recent, "flat_group_ratio")
    if values is None or min(values) < 0.999:
        return None
    reward = recent[-1].get("reward")
    level = f" (all near {reward:.3g})" if reward is not None else ""
    return Finding(
        "no_learning_signal",
        f"in the last {PATIENCE_STEPS} steps all samples of each prompt got one reward{level}, "
        "so no advantage differs from zero and nothing is learned: the task is too hard, already "
        "solved, or the reward reads no answer; look at the sampled episodes, raise "
        "gconfig.n_samples or gconfig.temperature, or warm up with SFT",
    )


def reward_collapse(recent: Sequence[Stats]) -> Finding | None:
    """Find that the reward lost more than half of what it had gained, and a quarter of its best.

    The noise of one step is the median absolute change between steps; a mean over the window has it
    divided by the window's root. A fall within eight times that does not count: of 100 runs of 128
    steps that are nothing but noise none is found, with seven times four are.
    """
    rewards = [float(reward) for row in recent if (reward := row.get("reward")) is not None]
    window = COLLAPSE_WINDOW_STEPS
    if len(rewards) < 3 * window:
        return None
    means = [math.fsum(rewards[i : i + window]) / window for i in range(len(rewards) - window + 1)]
    best_at = max(range(len(means)), key=means.__getitem__)
    gained = means[best_at] - min(means[: best_at + 1])
    lost = means[best_at] - means[-1]
    changes = [abs(b - a) for a, b in itertools.pairwise(rewards)]
    noise = statistics.median(changes) / math.sqrt(window)
    if lost <= max(0.5 * gained, 0.25 * abs(means[best_at]), 8 * noise):
        return None
    return Finding(
        "reward_collapse",
        f"the mean reward of {window} steps fell from {means[best_at]:.3g} to {means[-1]:.3g}: "
        "lower actor.optimizer.lr, keep a KL term (actor.kl_ctl), lower "
        "rollout.max_head_offpolicyness, and look for a reward that can be gamed in the episodes",
    )


def logprob_drift(recent: Sequence[Stats]) -> Finding | None:
    """Find that training and rollout disagree on the probability of the same tokens.

    Samples of older weights are meant to differ, so only steps without any are judged.
    """
    values = _latest(recent, "logp_abs_diff")
    is_fresh = not any(row.get("staleness") for row in recent[-PATIENCE_STEPS:])
    if values is None or not is_fresh or min(values) <= MAX_LOGPROB_GAP_NATS:
        return None
    return Finding(
        "logprob_drift",
        f"trainer and rollout differ by {values[-1]:.3g} nats a token on the same weights (limit "
        f"{MAX_LOGPROB_GAP_NATS:g}), so the policy ratio is wrong: use one dtype and one attention "
        "implementation on both sides, equal temperatures, and check that the weights were updated",
    )


def grader_failures(recent: Sequence[Stats]) -> Finding | None:
    """Find that rewards could not be computed; such an episode is left out, it is no zero."""
    failed = recent[-1].get("reward/failures") if recent else None
    if not failed:
        return None
    total = sum(float(row.get("reward/failures") or 0) for row in recent)
    return Finding(
        "grader_failures",
        f"{failed:g} reward calls of this step failed ({total:g} in the last {len(recent)} steps); "
        "their episodes are left out of training: the log names each cause, often an unusable gold "
        "answer or a time limit that is too short",
    )


def many_episodes_failed(recent: Sequence[Stats]) -> Finding | None:
    """Find that a good part of the episodes never reaches the batch."""
    accepted = _latest(recent, "rollout/accepted")
    failed = _latest(recent, "rollout/failed")
    if accepted is None or failed is None:
        return None
    fraction = sum(failed) / max(1.0, sum(failed) + sum(accepted))
    if fraction <= MAX_FAILED_FRACTION:
        return None
    return Finding(
        "episodes_failed",
        f"{fraction:.0%} of the episodes of the last {PATIENCE_STEPS} steps failed"
        f"{_causes(recent[-PATIENCE_STEPS:])}; the log has each cause once with its traceback, and "
        "training stops when more than half of 64 in a row fail",
    )


def _causes(rows: Sequence[Stats]) -> str:
    """Return the three most frequent causes of failed episodes with their counts."""
    counts: Counter[str] = Counter()
    for row in rows:
        for name, value in row.items():
            if name.startswith("rollout/failed/"):
                counts[name.removeprefix("rollout/failed/")] += int(value or 0)
    named = ", ".join(f"{cause} {count} times" for cause, count in counts.most_common(3) if count)
    return f" ({named})" if named else ""


def not_finite(recent: Sequence[Stats]) -> Finding | None:
    """Find a loss or gradient that is NaN or infinite, which the rows hold as None."""
    names = ("loss", "grad_norm", "ppo_critic/critic_loss", "ppo_critic/grad_norm")
    broken = [name for name in names if recent and recent[-1].get(name, 0.0) is None]
    if not broken:
        return None
    section = "critic" if broken[0].startswith("ppo_critic/") else "actor"
    return Finding(
        "not_finite",
        f"{' and '.join(broken)} of this step is NaN or infinite: lower {section}.optimizer.lr, "
        f"check {section}.optimizer.gradient_clipping, and train in float32 or bfloat16 rather "
        "than float16",
    )


CHECKS: tuple[Callable[[Sequence[Stats]], Finding | None], ...] = (
    all_truncated,
    grader_failures,
    logprob_drift,
    many_episodes_failed,
    no_learning_signal,
    not_finite,
    reward_collapse,
)


def diagnose(recent: Sequence[Stats]) -> list[Finding]:
    """Return everything that the latest statistics give reason to warn about.

    Args:
        recent: Statistics of consecutive steps, oldest first.
    """
    return [finding for check in CHECKS if (finding := check(recent)) is not None]
