"""The learning curve as a picture: reward for RL, loss for SFT."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from areal.trainer.report.console import duration_text
from areal.trainer.report.summary import MEAN_STEPS, RunRecord, Series, ends, smooth, value_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, INK, MUTED, GRID = "#1f5fbf", "#c2410c", "#1c1f24", "#5b6370", "#e3e6ea"
SIZE_IN, DPI = (9.0, 5.0), 150  # 1350 x 750 pixels


def draw_curve(record: RunRecord, path: Path) -> bool:
    """Draw the headline statistic of a run over its steps.

    matplotlib is used without pyplot: no window system, no state that outlives the call.

    Returns:
        Whether there was anything to draw; without a row no file is written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    name = record.headline
    train, evals = record.series(name), record.series(name, of_evals=True)
    if not train.steps and not evals.steps:
        return False
    figure = Figure(figsize=SIZE_IN, dpi=DPI, facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    _draw_lines(axes, train, evals)
    _draw_marks(axes, record, name)
    _dress(axes, record, train, evals)
    part = path.with_name(path.name + ".part")
    figure.savefig(part, format="png")
    part.replace(path)
    return True


def _draw_lines(axes: Axes, train: Series, evals: Series) -> None:
    """Draw the raw values pale, their average strong and the evaluations as points."""
    smoothed = smooth(train.values)
    if smoothed is None:
        marker = "o" if len(train.values) == 1 else ""
        axes.plot(train.steps, train.values, color=BLUE, lw=2, marker=marker, label="training")
    else:
        axes.plot(train.steps, train.values, color=BLUE, lw=1, alpha=0.28, label="each step")
        axes.plot(train.steps, smoothed, color=BLUE, lw=2.2, label=f"mean of {MEAN_STEPS} steps")
    if evals.steps:
        points: dict[str, Any] = {
            "marker": "o",
            "ms": 5.5,
            "mec": "white",
            "mew": 1,
            "zorder": 4,
            "clip_on": False,
        }
        line: dict[str, Any] = {
            "color": ORANGE,
            "lw": 1.2,
            "ls": (0, (4, 2)),
            "label": "evaluation",
        }
        axes.plot(evals.steps, evals.values, **line, **points)


def _draw_marks(axes: Axes, record: RunRecord, name: str) -> None:
    """Draw the value to stop at, and where a run was taken up again."""
    goal = record.goal(name)
    if goal is not None:
        axes.axhline(goal, color=MUTED, lw=1, ls=":", label=f"goal {goal:g}")
    for i, step in enumerate(record.resumed_at):
        axes.axvline(step, color=MUTED, lw=0.8, ls="--", label=None if i else "resumed")


def _dress(axes: Axes, record: RunRecord, train: Series, evals: Series) -> None:
    """Add title, axes and legend."""
    from matplotlib.ticker import MaxNLocator

    title: dict[str, Any] = {"color": INK, "fontsize": 13, "fontweight": "bold", "pad": 24}
    axes.set_title(str(record.run["title"]), loc="left", **title)
    subtitle = _subtitle(record, train)
    axes.text(0, 1.025, subtitle, transform=axes.transAxes, color=MUTED, fontsize=9.5)
    axes.set_xlabel("optimiser step", color=MUTED, fontsize=10)
    axes.set_ylabel(f"{train.metric.title} ({train.metric.unit})", color=MUTED, fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.015, y=0.06)
    axes.set_xlim(left=0)
    axes.tick_params(colors=MUTED, labelsize=9.5, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(GRID)
    if value_range(train, evals) == (0.0, 1.0):
        axes.set_ylim(-0.03, 1.03)
    corner: Any = "upper right" if train.name == "loss" else "lower right"
    legend = axes.legend(loc=corner, edgecolor="none", fontsize=9.5, labelcolor=INK)
    legend.set_zorder(5)


def _subtitle(record: RunRecord, train: Series) -> str:
    """Return one line: where it began, where it came to, in how many steps and how long."""
    parts = []
    if (found := ends(train)) is not None:
        first, last = found
        parts.append(f"{train.metric.title.lower()} {first:.3f} to {last:.3f}")
        parts.append(f"{train.steps[-1]} steps")
    parts.append(duration_text(record.elapsed_s))
    return "   ·   ".join(parts)
