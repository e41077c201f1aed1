"""Line charts as inline SVG: no script needed to read them, colours from the page's style sheet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from areal.trainer.report.summary import Series, nice_ticks, smooth, thin, value_range

MAX_POINTS = 400


@dataclass(frozen=True)
class Frame:
    """Maps data to the pixels of a chart.

    Attributes:
        width, height: Of the whole chart in px; the margins lie inside.
    """

    width: int
    height: int
    left: int = 46
    right: int = 12
    top: int = 8
    bottom: int = 24
    x_range: tuple[float, float] = (0.0, 1.0)
    y_ticks: tuple[float, ...] = (0.0, 1.0)

    def x(self, step: float) -> float:
        """Return the pixel of a step."""
        low, high = self.x_range
        return self.left + (step - low) / ((high - low) or 1) * (
            self.width - self.left - self.right
        )

    def y(self, value: float) -> float:
        """Return the pixel of a value; larger is higher."""
        low, high = self.y_ticks[0], self.y_ticks[-1]
        inner = self.height - self.top - self.bottom
        return self.top + (1 - (value - low) / ((high - low) or 1)) * inner


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Return the labels of one axis, all in the unit of the largest: k, M, G or none."""
    largest = max(abs(tick) for tick in ticks)
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if largest >= 10 * unit:
            return [f"{tick / unit:.4g}{suffix}" if tick else "0" for tick in ticks]
    return [f"{tick:.4g}" for tick in ticks]


def line_chart(
    train: Series,
    evals: Series | None = None,
    size_px: tuple[int, int] = (340, 150),
    goal: float | None = None,
    resumed_at: Sequence[int] = (),
) -> str:
    """Return an ``<svg>`` of a statistic: raw pale, average strong, evaluations as points.

    Args:
        train: Values of the steps; at least one point here or in ``evals``.
        evals: Values of evaluations.
        goal: A horizontal line.
        resumed_at: Steps with a vertical line.
    """
    evals = evals or Series(train.name, [], [])
    frame = _frame(train, evals, size_px, goal)
    title = escape(f"{train.metric.title} over the steps of the run")
    parts = [
        f'<svg class="chart" viewBox="0 0 {frame.width} {frame.height}" role="img"'
        f' aria-label="{title}"'
        f' data-plot="{escape(_plot_data(train, evals, frame), quote=True)}">'
    ]
    parts += _axes(frame)
    parts += [
        f'<line class="mark" x1="{frame.x(step):.1f}" x2="{frame.x(step):.1f}"'
        f' y1="{frame.top}" y2="{frame.height - frame.bottom}"/>'
        for step in resumed_at
    ]
    if goal is not None:
        parts.append(_horizontal("goal", frame, goal))
    smoothed = smooth(train.values)
    parts.append(_polyline("raw" if smoothed else "avg", frame, train.steps, train.values))
    if smoothed:
        parts.append(_polyline("avg", frame, train.steps, smoothed))
    if evals.steps:
        parts.append(_polyline("eval", frame, evals.steps, evals.values))
        parts += [
            _dot("evaldot", frame, s, v) for s, v in zip(evals.steps, evals.values, strict=True)
        ]
    if len(train.steps) == 1:
        parts.append(_dot("avgdot", frame, train.steps[0], train.values[0]))
    return "".join([*parts, "</svg>"])


def _frame(train: Series, evals: Series, size_px: tuple[int, int], goal: float | None) -> Frame:
    """Fit the axes around everything drawn."""
    steps = [*train.steps, *evals.steps]
    return Frame(
        *size_px,
        x_range=(0, max(1, *steps)),
        y_ticks=tuple(nice_ticks(*value_range(train, evals, goal), count=max(4, size_px[1] // 50))),
    )


def _axes(frame: Frame) -> list[str]:
    """Draw horizontal rules with their numbers, and the steps below."""
    first, last = frame.x_range
    steps = [
        tick for tick in nice_ticks(first, last) if first <= tick <= last and tick.is_integer()
    ]
    rules = [_horizontal("grid", frame, value) for value in frame.y_ticks]
    values = [
        f'<text class="tick" x="{frame.left - 6}" y="{frame.y(value) + 3.5:.1f}"'
        f' text-anchor="end">{label}</text>'
        for value, label in zip(frame.y_ticks, tick_texts(frame.y_ticks), strict=True)
    ]
    below = [
        f'<text class="tick" x="{frame.x(step):.1f}" y="{frame.height - 7}"'
        f' text-anchor="middle">{label}</text>'
        for step, label in zip(steps, tick_texts(steps), strict=True)
    ]
    return [*rules, *values, *below]


def _horizontal(css_class: str, frame: Frame, value: float) -> str:
    y, right = f"{frame.y(value):.1f}", frame.width - frame.right
    return f'<line class="{css_class}" x1="{frame.left}" x2="{right}" y1="{y}" y2="{y}"/>'


def _polyline(css_class: str, frame: Frame, steps: Sequence[int], values: Sequence[float]) -> str:
    pairs = zip(*thin(steps, values, MAX_POINTS), strict=True)
    points = " ".join(f"{frame.x(step):.1f},{frame.y(value):.1f}" for step, value in pairs)
    return f'<polyline class="{css_class}" points="{points}"/>'


def _dot(css_class: str, frame: Frame, step: int, value: float) -> str:
    return f'<circle class="{css_class}" cx="{frame.x(step):.1f}" cy="{frame.y(value):.1f}" r="3"/>'


def _plot_data(train: Series, evals: Series, frame: Frame) -> str:
    """Return what the page's script needs to read a value under the pointer."""
    steps, values = thin(train.steps, train.values, MAX_POINTS)
    return json.dumps(
        {
            "steps": steps,
            "values": [float(f"{value:.5g}") for value in values],
            "evals": [
                [s, float(f"{v:.5g}")] for s, v in zip(evals.steps, evals.values, strict=True)
            ],
            "left": frame.left,
            "right": frame.width - frame.right,
            "width": frame.width,
            "x": frame.x_range,
        },
        separators=(",", ":"),
    )
