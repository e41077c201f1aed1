"""Rewards: one small file each, named in one table.

A reward is a module-level function ``fn(prompt, completions, prompt_ids, completion_ids, answer,
**kwargs) -> float`` that gets every column of the dataset row by keyword. It returns 0.0 only for
an answer that is wrong or cannot be read; anything that keeps it from grading is an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from areal.api.registry import lazy_exports, resolve

REWARDS: dict[str, str] = {
    "arithmetic": "areal.reward.arithmetic:arithmetic_reward_fn",
    "clevr_count_70k": "areal.reward.clevr_count_70k:clevr_count_70k_reward_fn",
    "geometry3k": "areal.reward.geometry3k:geometry3k_reward_fn",
    "gsm8k": "areal.reward.gsm8k:gsm8k_reward_fn",
    "math_verify": "areal.reward.math_verify:math_verify_reward_fn",
}

VALID_REWARD_FN: list[str] = list(REWARDS)

_LAZY_IMPORTS: dict[str, str] = {
    "MathVerifyWorker": "areal.reward.math_verify",
    "get_math_verify_worker": "areal.reward.math_verify",
    **{target.partition(":")[2]: target.partition(":")[0] for target in REWARDS.values()},
}

__all__ = ["REWARDS", "VALID_REWARD_FN", "get_reward_fn", *_LAZY_IMPORTS]

__getattr__, _lazy_dir = lazy_exports(__name__, _LAZY_IMPORTS)


def __dir__() -> list[str]:
    return sorted(__all__)


def get_reward_fn(name: str) -> Callable[..., Any]:
    """Return a reward function.

    Args:
        name: A registered name, or a dotted path such as ``"my_rl.reward.exact:exact_reward_fn"``.

    Raises:
        UnknownNameError: It is neither; the message suggests the nearest registered name.
    """
    return resolve(REWARDS, "reward", name)
