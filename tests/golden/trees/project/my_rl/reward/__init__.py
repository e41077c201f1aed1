"""Rewards: one small module each, named in one table."""

from __future__ import annotations

from collections.abc import Callable

from areal.api.registry import resolve

REWARDS: dict[str, str] = {
    # "name": "my_rl.reward.name:name_reward_fn", sorted, one per line
    "asserted": "my_rl.reward.asserted:asserted_reward_fn",
    "captured": "my_rl.reward.captured:captured_reward_fn",
    "last_line": "my_rl.reward.last_line:last_line_reward_fn",
    "last_number": "my_rl.reward.last_number:last_number_reward_fn",
    "marked_math": "my_rl.reward.marked_math:marked_math_reward_fn",
    "other_column": "my_rl.reward.other_column:other_column_reward_fn",
    "plain_code": "my_rl.reward.plain_code:plain_code_reward_fn",
    "plain_exact": "my_rl.reward.plain_exact:plain_exact_reward_fn",
    "plain_judge": "my_rl.reward.plain_judge:plain_judge_reward_fn",
    "plain_math": "my_rl.reward.plain_math:plain_math_reward_fn",
    "plain_regex": "my_rl.reward.plain_regex:plain_regex_reward_fn",
    "present": "my_rl.reward.present:present_reward_fn",
    "said_yes": "my_rl.reward.said_yes:said_yes_reward_fn",
}


def get_reward_fn(name: str) -> Callable[..., float]:
    """Returns the reward of a name in the table, or of a dotted path.

    Raises:
        areal.api.errors.UnknownNameError: There is none; the message suggests the nearest name.
    """
    return resolve(REWARDS, "reward", name)
