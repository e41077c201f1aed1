"""Where an entry belongs among others: the order that they keep, and the group it resembles.

Orders are tried from plain to particular; the first one that the present keys obey is the
registry's own. `isort_style` is that of ruff and isort for ``__all__``: names in SCREAMING_CASE,
then CamelCase, then the rest, each with numbers in them compared as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

Order = Callable[[str], Any]

# The words of snake_case and CamelCase: `GSM8KReward` is GSM, 8, K and Reward.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\x00-\x7f]+")


def natural(text: str) -> tuple[str | int, ...]:
    """Return a sort key that compares the numbers in a text as numbers."""
    # `v10b` gives `["v", "10", "b"]`: text at even and numbers at odd places, so two keys compare.
    parts: list[str] = re.split(r"(\d+)", text)
    return tuple(int(part) if n % 2 else part for n, part in enumerate(parts))


def _dashes(key: str) -> str:
    return key.replace("-", "_")


def isort_style(key: str) -> tuple[int, tuple[str | int, ...]]:
    """Return the key by which ``__all__`` is sorted.

    Source: ruff's rule RUF022, which counts the bytes of a name.
    """
    rank = 0 if len(key.encode()) > 1 and key.isupper() else 1 if key[:1].isupper() else 2
    return rank, natural(key)


# By code points, without regard to case, with `-` as `_`, with both, as `__all__`, and by numbers.
ORDERS: tuple[Order, ...] = (
    str,
    str.casefold,
    _dashes,
    lambda key: _dashes(key).casefold(),
    isort_style,
    natural,
    lambda key: natural(key.casefold()),
)


def _number(key: str) -> float:
    return float(key.replace("_", ""))


def order_of(runs: Sequence[Sequence[str]], likely: Order | None = None) -> Order | None:
    """Return the first order that every run of keys is in, or None where there is none.

    Args:
        runs: Keys in the order of the file.
        likely: An order to try before the others.
    """
    keys = [key for run in runs for key in run]
    orders = ORDERS if likely is None else (likely, *ORDERS)
    # Keys that are all numbers, such as ports, are more likely sorted by value than as texts.
    if all(re.fullmatch(r"-?[\d_.]+", key) for key in keys):
        orders = (_number, *orders)
    return next((order for order in orders if all(_is_in(run, order) for run in runs)), None)


def _is_in(keys: Sequence[str], order: Order) -> bool:
    try:
        ranks = [order(key) for key in keys]
    except ValueError:  # digits that make no number
        return False
    return all(one <= other for one, other in pairwise(ranks))


def sorted_index(keys: Sequence[str], key: str, order: Order) -> int:
    """Return the index of the first key after which the new one must not come."""
    try:
        rank = order(key)
    except ValueError:
        return len(keys)
    return next((n for n, each in enumerate(keys) if order(each) > rank), len(keys))


def similarity(one: tuple[str, str], other: tuple[str, str]) -> int:
    """Count what two entries, each key and value, have in common at their ends.

    Words of the keys count from both ends ("gsm8k_reward_fn" and "math_reward_fn" share two), the
    parts of dotted values from the front.
    """
    keys = [[word.casefold() for word in _WORDS.findall(key)] for key, _ in (one, other)]
    values = [re.split(r"[.:/]", value) if value else [] for _, value in (one, other)]
    return (
        _shared(keys[0], keys[1])
        + _shared(keys[0][::-1], keys[1][::-1])
        + _shared(values[0], values[1])
    )


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
