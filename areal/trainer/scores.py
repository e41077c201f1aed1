"""What evaluation episodes amount to: avg@k, pass@k and their uncertainty, by source of the rows.

Source of pass@k: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Columns in which data sets of several sources name them; the first that a row has is taken.
SOURCE_COLUMNS = ("data_source", "source")


@dataclass
class RowScore:
    """The episodes of one dataset row.

    Attributes:
        index: Of the row in the dataset.
        source: Where the row comes from; "" where the rows do not name it.
        rewards: Of the episodes that ended with one.
        num_failed: Episodes that were rejected or failed; they count in no figure.
    """

    index: int
    source: str = ""
    rewards: list[float] = field(default_factory=list)
    num_failed: int = 0


def source_of(row: Mapping[str, Any], column: str | None = None) -> str:
    """Return where a row comes from.

    Args:
        row: Of the dataset.
        column: That names it; None takes the first of ``SOURCE_COLUMNS``.

    Raises:
        KeyError: The row lacks the column.
    """
    if column is not None:
        return str(row[column])
    return next((str(row[name]) for name in SOURCE_COLUMNS if row.get(name) is not None), "")


def pass_at_k(num_episodes: int, num_passed: int, k: int) -> float:
    """Return the probability that one of ``k`` episodes passes, drawn from those that were run.

    Raises:
        ValueError: There are fewer than ``k`` episodes.
    """
    if num_episodes < k:
        raise ValueError(f"pass@{k} needs {k} episodes of a row, there are {num_episodes}")
    return 1.0 - math.comb(num_episodes - num_passed, k) / math.comb(num_episodes, k)


def usual_ks(num_samples: int) -> list[int]:
    """Return for which k pass@k is given unasked: the powers of two, and all episodes of a row."""
    return sorted({num_samples, *(2**i for i in range(num_samples.bit_length()))})


def summarize(
    rows: Sequence[RowScore], threshold: float = 1.0, ks: Sequence[int] = ()
) -> dict[str, float]:
    """Return the figures of some rows, each row counting alike.

    Args:
        rows: Those without any episode are counted and left out.
        threshold: An episode passes with at least this reward.
        ks: For which pass@k is given, NaN where a row has fewer episodes; empty takes
            ``usual_ks``, up to the episodes that every row has.

    Returns:
        ``reward`` (the mean over rows of the mean of their episodes, avg@k), its standard error
        ``reward_stderr`` (NaN for one row), ``n_rows``, ``n_seqs``, ``n_failed``, and ``pass@k``
        for each k.
    """
    scored = [row for row in rows if row.rewards]
    means = [statistics.fmean(row.rewards) for row in scored]
    found = {
        "reward": statistics.fmean(means) if means else math.nan,
        "reward_stderr": statistics.stdev(means) / math.sqrt(len(means))
        if len(means) > 1
        else math.nan,
        "n_rows": len(scored),
        "n_seqs": sum(len(row.rewards) for row in scored),
        "n_failed": sum(row.num_failed for row in rows),
    }
    least = min((len(row.rewards) for row in scored), default=0)
    most = max((len(row.rewards) + row.num_failed for row in scored), default=0)
    for k in ks or [k for k in usual_ks(most) if 0 < k <= least]:
        found[f"pass@{k}"] = _mean_pass_at_k(scored, threshold, k) if k <= least else math.nan
    return found


def _mean_pass_at_k(rows: Sequence[RowScore], threshold: float, k: int) -> float:
    return statistics.fmean(
        pass_at_k(len(row.rewards), sum(r >= threshold for r in row.rewards), k) for row in rows
    )


def by_source(
    rows: Sequence[RowScore], threshold: float = 1.0, ks: Sequence[int] = ()
) -> dict[str, dict[str, float]]:
    """Return ``summarize`` for each source in the order of their names; {} where there is one."""
    sources = sorted({row.source for row in rows})
    if len(sources) < 2:
        return {}
    return {
        source: summarize([row for row in rows if row.source == source], threshold, ks)
        for source in sources
    }
