"""What a person sees while a run goes: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

REFRESH_S = 0.5  # drawing costs about 2 ms, and a small step lasts 100 ms
PLAIN_LINE_S = 2.0
NUMBERS_CHARS = 76  # the widest usual numbers; a narrow terminal gives up the title, then the bar
MAX_BAR_CHARS = 24
RATE_WINDOW_STEPS = 32

Stats = Mapping[str, int | float | None]


def duration_text(seconds: float) -> str:
    """Return ``"42 s"``, ``"3 min 05 s"`` or ``"2 h 07 min"``."""
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def number_text(value: float | None) -> str:
    """Return three significant digits, thousands separated; ``nan`` for what was not finite."""
    if value is None:
        return "nan"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def stats_text(stats: Stats, eval_stats: Stats) -> str:
    """Return what a person watches: the reward (else the loss), accuracy on pairs, and the pace."""
    parts = []
    for name in ("reward" if "reward" in stats else "loss", "accuracy"):
        if name not in stats:
            continue
        value = stats[name]
        parts.append(f"{name} {'nan' if value is None else f'{value:.3f}'}")
        if eval_stats.get(name) is not None:
            parts[-1] += f" (eval {eval_stats[name]:.3f})"
    if "tokens_per_s" in stats:
        parts.append(f"{number_text(stats['tokens_per_s'])} tok/s")
    if "staleness" in stats:
        value = stats["staleness"]
        parts.append(f"staleness {'nan' if value is None else f'{value:.1f}'}")
    return "  ".join(parts)


class _TimeLeftColumn(ProgressColumn):
    """Shows the time left that the run itself estimates."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["left"], style="progress.remaining")


@contextmanager
def _handlers_through(old: tuple[TextIO, ...], new: TextIO) -> Iterator[None]:
    """Let logging handlers that hold a standard stream write above the bar instead of into it."""
    loggers = [
        logging.root,
        *(logging.getLogger(name) for name in list(logging.root.manager.loggerDict)),
    ]
    moved: list[tuple[logging.StreamHandler[TextIO], TextIO]] = []
    for handler in {handler for logger in loggers for handler in logger.handlers}:
        if isinstance(handler, logging.StreamHandler) and handler.stream in old:
            moved.append((handler, handler.stream))
            handler.setStream(new)
    try:
        yield
    finally:
        for handler, stream in moved:
            handler.setStream(stream)


class RunConsole:
    """Draws the progress of one run on standard error.

    Args:
        title: What is trained, shown before the bar.
        total_steps: Steps of the whole run.
        done_steps: Steps that an earlier process finished.
        stream: Where to draw; a bar needs a terminal.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        title: str,
        total_steps: int,
        done_steps: int = 0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total_steps = total_steps
        self._clock = clock
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self._marks: deque[tuple[int, float]] = deque([(done_steps, clock())], RATE_WINDOW_STEPS)
        self._shown_at = float("-inf")
        self._eval_stats: Stats = {}
        self._progress: Progress | None = None
        if self._console.is_terminal:
            room = self._console.width - NUMBERS_CHARS
            title = f"{title} " if room > len(title) + MAX_BAR_CHARS // 2 else ""
            self._progress = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=max(3, min(MAX_BAR_CHARS, room - len(title)))),
                TextColumn("{task.completed}/{task.total}"),
                TextColumn("{task.fields[numbers]}", markup=False),
                _TimeLeftColumn(),
                console=self._console,
                auto_refresh=False,
            )
            self._task = self._progress.add_task(
                title, total=total_steps, completed=done_steps, numbers="", left=""
            )
            self._start_bar(self._progress)

    def _start_bar(self, progress: Progress) -> None:
        """Start the bar; what handlers write to the old streams is led above it."""
        old = (sys.stderr, sys.stdout)
        progress.start()
        self._handlers = _handlers_through(old, sys.stderr)
        self._handlers.__enter__()

    def say(self, text: str, style: str | None = None) -> None:
        """Write a line above the bar."""
        self._console.print(text, style=style, markup=False)

    def eval(self, stats: Stats) -> None:
        """Remember the latest evaluation, which every later line shows."""
        self._eval_stats = stats

    def step(self, step: int, stats: Stats) -> None:
        """Show a finished step, if the last drawing is old enough or the run is at its end."""
        now = self._clock()
        self._marks.append((step, now))
        is_edge = step >= self._total_steps or self._shown_at == float("-inf")
        interval_s = PLAIN_LINE_S if self._progress is None else REFRESH_S
        if not is_edge and now - self._shown_at < interval_s:
            return
        self._shown_at = now
        numbers, left = stats_text(stats, self._eval_stats), self._time_left_text()
        if self._progress is None:
            self.say("  ".join(filter(None, [f"step {step}/{self._total_steps}", numbers, left])))
            return
        self._progress.update(self._task, completed=step, numbers=numbers, left=left)
        self._progress.refresh()

    def _time_left_text(self) -> str:
        """Estimate from the pace of the latest steps."""
        (first_step, first_s), (last_step, last_s) = self._marks[0], self._marks[-1]
        if last_step <= first_step or last_step >= self._total_steps:
            return ""
        pace_s = (last_s - first_s) / (last_step - first_step)
        return f"{duration_text(pace_s * (self._total_steps - last_step))} left"

    def close(self) -> None:
        """Take the bar down and give the streams back; a second call does nothing."""
        if self._progress is not None:
            self._handlers.__exit__(None, None, None)
            self._progress.stop()
            self._progress = None
