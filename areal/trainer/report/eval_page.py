"""The page of an evaluation: scores by source, how rows fared, and episodes to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from areal.trainer.report.console import number_text
from areal.trainer.report.page import episode_view, load_template, spread, write_html
from areal.trainer.report.records import EpisodeSample, episode_row, plain_number

MAX_EPISODES_A_GROUP = 12

Scores = Mapping[str, float]


def score_table(
    scores: Scores, sources: Mapping[str, Scores], num_samples: int
) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the columns of a table of scores, and its rows: all, then each source.

    Args:
        scores: Of all rows.
        sources: Of each source, where there are several.
        num_samples: Episodes that each row was given.
    """
    passes = [name for name in scores if name.startswith("pass@")]
    names = ["rows", f"avg@{num_samples}", "±", *passes, "failed"]
    rows = []
    for source, found in {"all": scores, **sources}.items():
        numbers = [found["reward"], found["reward_stderr"], *(found.get(name) for name in passes)]
        cells = [_score_text(number) for number in numbers]
        rows.append((source, [f"{found['n_rows']:,.0f}", *cells, f"{found['n_failed']:,.0f}"]))
    return names, rows


def _score_text(value: float | None) -> str:
    number = plain_number(value)
    return "-" if number is None else f"{number:.3f}"


def write_eval_page(
    title: str,
    facts: Sequence[str],
    table: tuple[list[str], list[tuple[str, list[str]]]],
    episodes: Sequence[EpisodeSample],
    threshold: float,
    path: Path,
) -> None:
    """Write the page; the file is complete or absent.

    Args:
        title: What was evaluated.
        facts: In words, under the title.
        table: Of ``score_table``.
        episodes: All that ended; ``task_id`` is "row/episode".
        threshold: An episode passes with at least this reward.
        path: Where the page goes.
    """
    names, rows = table
    passed = [each for each in episodes if each.reward >= threshold]
    others = [each for each in episodes if not each.reward >= threshold]
    groups = [
        _group(f"Below {number_text(threshold)}", others),
        _group(f"At least {number_text(threshold)}", passed),
    ]
    html = load_template("eval.html.jinja").render(
        title=title,
        facts=facts,
        tiles=[
            {"label": name, "value": cell, "note": ""}
            for name, cell in zip(names, rows[0][1], strict=True)
            if name != "±"
        ],
        table={"names": names, "rows": rows},
        passes=_passes(episodes, threshold),
        groups=[group for group in groups if group["rows"]],
    )
    write_html(html, path)


def _group(title: str, episodes: Sequence[EpisodeSample]) -> dict[str, Any]:
    ranked = sorted(episodes, key=lambda each: each.reward)
    picked = [ranked[i] for i in spread(range(len(ranked)), MAX_EPISODES_A_GROUP)]
    views = [episode_view(episode_row(each)) for each in picked]
    return {"title": title, "total": f"{len(ranked):,}", "rows": views}


def _passes(episodes: Sequence[EpisodeSample], threshold: float) -> list[dict[str, Any]]:
    """Return a bar for each number of passes that a row may have."""
    by_row: dict[str, list[bool]] = {}
    for each in episodes:
        by_row.setdefault(each.task_id.partition("/")[0], []).append(each.reward >= threshold)
    counts = Counter(sum(found) for found in by_row.values())
    most = max(counts.values(), default=0)
    return [
        {"passed": n, "count": f"{counts[n]:,}", "percent": round(100 * counts[n] / most, 1)}
        for n in range(max(map(len, by_row.values()), default=-1) + 1)
    ]
