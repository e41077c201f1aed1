"""The HTML report of a run: one file with charts, warnings, episodes and configuration."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from areal.trainer.report.charts import line_chart
from areal.trainer.report.console import duration_text, number_text
from areal.trainer.report.summary import MEAN_STEPS, METRICS, RunRecord, Series, ends, smooth

MAX_EPISODE_STEPS = 6
MAX_EPISODES_A_STEP = 4
MAX_TEXT_CHARS = 4000
FIRST_CHARTS = 9


@cache
def load_template(name: str) -> Template:
    """Load a page's template; what it is given is escaped unless it is marked ``safe``."""
    environment = Environment(
        loader=PackageLoader("areal.trainer.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name, globals={"style": _style()})


def _style() -> str:
    source = resources.files("areal.trainer.report").joinpath("style.css.jinja")
    return source.read_text(encoding="utf-8")


def write_html(html: str, path: Path) -> None:
    """Write a page that is complete or absent."""
    part = path.with_name(path.name + ".part")
    # Tokens may decode to lone surrogates, which have no UTF-8 form.
    part.write_bytes(html.encode("utf-8", errors="replace"))
    part.replace(path)


def write_page(record: RunRecord, path: Path, picture: Path | None = None) -> None:
    """Write the report; the file is complete or absent.

    Args:
        record: What the run has written.
        path: Where the page goes.
        picture: The learning curve, which is carried inside the page for saving and sharing.
    """
    html = load_template("report.html.jinja").render(
        run=record.run,
        status=_status(record.run.get("status", "running")),
        tiles=_tiles(record),
        headline=_headline(record),
        charts=_charts(record),
        constants=_constants(record),
        warnings=_warnings(record.warnings),
        evals=_eval_table(record),
        episodes=_episodes(record.episodes),
        episode_count=len(record.episodes),
        files=_files(record.log_dir),
        picture=_data_url(picture),
    )
    write_html(html, path)


def _data_url(picture: Path | None) -> str:
    """Return a PNG as a URL that carries it."""
    if picture is None or not picture.exists():
        return ""
    return "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode("ascii")


def _status(status: str) -> dict[str, str]:
    """Return the word for the badge, its colour class and the reason behind a colon."""
    word, _, detail = status.partition(":")
    level = {"completed": "good", "running": "info"}.get(word.strip(), "bad")
    return {"word": word.strip(), "level": level, "detail": detail.strip()}


def _tiles(record: RunRecord) -> list[dict[str, str]]:
    """Return the few numbers at the top: label, value, and what it is compared with."""
    tiles = []
    headline = record.series(record.headline)
    if found := ends(headline):
        label = headline.metric.title
        note = f"from {found[0]:.3f}"
        if smooth(headline.values) is not None:
            note = f"mean of {MEAN_STEPS} steps, {note}"
        tiles.append({"label": label, "value": f"{found[1]:.3f}", "note": note})
    evals = record.series(record.headline, of_evals=True)
    if evals.values:
        note = f"from {evals.values[0]:.3f}" if len(evals.values) > 1 else "one evaluation"
        tiles.append({"label": "Evaluation", "value": f"{evals.values[-1]:.3f}", "note": note})
    if record.steps:
        total = record.run.get("total_steps")
        note = f"of {total}" if total else ""
        tiles.append({"label": "Steps", "value": f"{record.steps[-1]['step']:,}", "note": note})
    tiles.append(
        {
            "label": "Time",
            "value": duration_text(record.elapsed_s),
            "note": "training and evaluation",
        }
    )
    speed = record.series("tokens_per_s").values
    if speed:
        middle = sorted(speed)[len(speed) // 2]
        tiles.append(
            {"label": "Throughput", "value": number_text(middle), "note": "tokens/s, median"}
        )
    return tiles


def _chart(record: RunRecord, name: str, size_px: tuple[int, int]) -> dict[str, str]:
    """Return one statistic as title, unit, latest value and picture."""
    series, evals = record.series(name), record.series(name, of_evals=True)
    last = f"latest {number_text((series.values or evals.values)[-1])}"
    if name == record.headline and (means := smooth(series.values)) is not None:
        last = f"mean of {MEAN_STEPS} steps {means[-1]:.3f}"
    svg = line_chart(series, evals, size_px, goal=record.goal(name), resumed_at=record.resumed_at)
    metric = series.metric
    return {
        "name": name,
        "title": metric.title,
        "unit": metric.unit,
        "last": last,
        "svg": svg,
    }


def _headline(record: RunRecord) -> dict[str, Any] | None:
    """Return the large chart, or None where the run wrote no value of it."""
    series = record.series(record.headline)
    evals = record.series(record.headline, of_evals=True)
    if not series.values and not evals.values:
        return None
    chart = _chart(record, record.headline, (1000, 300))
    return {
        **chart,
        "has_average": smooth(series.values) is not None,
        "has_evals": bool(evals.values),
        "goal": record.goal(record.headline),
    }


def _charts(record: RunRecord) -> dict[str, list[dict[str, str]]]:
    """Return the small charts: known statistics first, and what does not fit folded away."""
    names = [
        name for name in record.names() if name != record.headline and _varies(record.series(name))
    ]
    charts = [_chart(record, name, (340, 150)) for name in names]
    return {"shown": charts[:FIRST_CHARTS], "folded": charts[FIRST_CHARTS:]}


def _varies(series: Series) -> bool:
    return len(set(series.values)) > 1


def _constants(record: RunRecord) -> dict[str, str]:
    """Return the statistics that never changed, which need no chart."""
    series = [record.series(name) for name in record.names() if name != record.headline]
    return {s.name: number_text(s.values[0]) for s in series if s.values and not _varies(s)}


def _warnings(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry for each kind of warning, latest text, with the steps it was raised at."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = found.setdefault(row["code"], {"code": row["code"], "steps": []})
        entry["text"] = row["text"]
        entry["steps"].append(row["step"])
    return list(found.values())


def _eval_table(record: RunRecord) -> dict[str, Any] | None:
    """Return the evaluations as a table, latest last."""
    if not record.evals:
        return None
    found = {name for row in record.evals for name in row["stats"]}
    names = [n for n in METRICS if n in found] + sorted(found.difference(METRICS))
    rows = [
        [
            str(row["step"]),
            *(number_text(row["stats"][n]) if n in row["stats"] else "" for n in names),
        ]
        for row in record.evals
    ]
    return {"names": names, "rows": rows}


def spread(items: Sequence[int], count: int) -> list[int]:
    """Return at most ``count`` items at equal distances, end included."""
    if len(items) <= count:
        return list(items)
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def _cut(text: str) -> str:
    """Return the text, or its beginning with the number of characters left out."""
    if len(text) <= MAX_TEXT_CHARS:
        return text
    left_out = len(text) - MAX_TEXT_CHARS
    return f"{text[:MAX_TEXT_CHARS]}\n[{left_out:,} characters more in episodes.jsonl]"


def _episodes(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a few steps from the whole run, each with episodes from its worst to its best."""
    by_step: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_step.setdefault(row["step"], []).append(row)
    shown = []
    for step in spread(sorted(by_step), MAX_EPISODE_STEPS):
        ranked = sorted(by_step[step], key=_reward_of)
        picked = [ranked[i] for i in spread(range(len(ranked)), MAX_EPISODES_A_STEP)]
        shown.append(
            {"step": step, "total": len(ranked), "rows": [episode_view(row) for row in picked]}
        )
    return shown


def _reward_of(row: Mapping[str, Any]) -> float:
    return float("-inf") if row["reward"] is None else row["reward"]


def episode_view(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one episode, texts cut, its reward as text and as a level for the colour."""
    reward = row["reward"]
    level = "bad" if reward is None or reward <= 0 else "good" if reward >= 1 else "mid"
    prompt = {"label": "Prompt", "text": _cut(row["prompt"])}
    # Where the workflow spoke again, each turn is by itself.
    turns = row.get("turns") or [{"sampled": True, "text": row["completion"]}]
    labels = {True: "Completion", False: "Feedback"}
    parts = [{"label": labels[turn["sampled"]], "text": _cut(turn["text"])} for turn in turns]
    answer = None if row["answer"] is None else _cut(str(row["answer"]))
    return {
        **row,
        "parts": [prompt, *parts],
        "answer": answer,
        "reward": number_text(reward),
        "level": level,
    }


def _files(log_dir: Path) -> list[dict[str, str]]:
    """Return what the run left in its folder, with sizes."""
    found = []
    for path in sorted(log_dir.iterdir()):
        if path.is_file() and not path.name.endswith(".part"):
            found.append({"name": path.name, "size": _size_text(path.stat().st_size)})
        elif path.is_dir():
            found.append({"name": path.name + "/", "size": ""})
    return found


def _size_text(size_bytes: int) -> str:
    """Return ``"812 B"``, ``"4.2 kB"`` or ``"1.3 MB"``."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    if size_bytes < 1_000_000:
        return f"{size_bytes / 1000:.1f} kB"
    return f"{size_bytes / 1_000_000:.1f} MB"
