"""The log of one run: what it writes each step, shows, warns of and leaves behind."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import platform
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from areal.trainer.identity import identify, new_run_id
from areal.trainer.report.config_view import changed_leaves, find_block, plain_config
from areal.trainer.report.console import RunConsole
from areal.trainer.report.curve import draw_curve
from areal.trainer.report.diagnosis import diagnose
from areal.trainer.report.page import write_page
from areal.trainer.report.records import (
    EPISODES_FILE,
    RUN_FILE,
    STATS_FILE,
    EpisodeSample,
    JsonLines,
    episode_row,
    keep_rows,
    plain_stats,
    read_rows,
    set_aside,
    write_json,
)
from areal.trainer.report.summary import MEAN_STEPS, load_record
from areal.trainer.report.trackers import open_trackers

logger = logging.getLogger("RunReport")

RECENT_STEPS = 64
WARN_AGAIN_STEPS = 100


class ReportPaths(NamedTuple):
    """Where a run's results lie.

    Attributes:
        reward_png: The learning curve, of the loss for SFT; None where the run made no step.
    """

    reward_png: Path | None
    html: Path
    stats_jsonl: Path
    episodes_jsonl: Path


class RunLog:
    """Writes, shows and explains one run; made and used by one process, rank 0.

    Steps are counted from 1: after the first optimiser step ``step(1, ...)`` is called. As a
    context manager it closes itself, with the exception as the status where there is one.

    Args:
        log_dir: The run's folder; made if missing.
        config: The experiment's configuration, shown in the report and read for ``stats_logger``.
        total_steps: Steps of the whole run, those of an earlier process included.
        resume_step: Finished steps of the checkpoint that the run continues from. Rows of later
            steps are dropped. At 0 the files of an earlier run are renamed, never overwritten.
        run_id: The id of the run, the same after it was resumed; a new one where None.
        console: Whether to show progress on standard error.
        title: What is trained; made of the configuration's names where None.
        clock: Seconds, monotonic.

    Raises:
        ConfigError: A statistics service is asked for whose package is missing.
    """

    def __init__(
        self,
        log_dir: str | Path,
        config: Any,
        total_steps: int,
        resume_step: int = 0,
        console: bool = True,
        title: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        run_id: str | None = None,
    ) -> None:
        self.log_dir = Path(log_dir)
        self._clock = clock
        self._step = resume_step
        self._recent: deque[dict[str, int | float | None]] = deque(maxlen=RECENT_STEPS)
        self._warned_at: dict[str, int] = {}
        self._paths: ReportPaths | None = None
        self.log_dir.mkdir(parents=True, exist_ok=True)
        plain = plain_config(config)
        self._trackers = open_trackers(config, plain, self.log_dir, resume_step)
        identity = identify(run_id or new_run_id(), plain)
        before_s = self._take_up(resume_step)
        self._started_s = clock() - before_s
        self._run = describe_run(self.log_dir, config, plain, total_steps, title)
        self._run |= identity._asdict()
        code = f", code {identity.commit}" if identity.commit else ""
        self._run["facts"].append(f"run {identity.run_id}{code}")
        write_json(self.log_dir / RUN_FILE, self._run)
        self._stats_file = JsonLines(self.log_dir / STATS_FILE)
        self._episodes_file = JsonLines(self.log_dir / EPISODES_FILE)
        self._append("resume" if resume_step else "start", resume_step, **identity._asdict())
        self._console = self._open_console(config, total_steps, resume_step) if console else None

    def _open_console(self, config: Any, total_steps: int, resume_step: int) -> RunConsole:
        """Open the progress display and say how large a step is, in rows and in sequences."""
        console = RunConsole(self._run["title"], total_steps, resume_step, clock=self._clock)
        run_id = self._run["run_id"]
        console.say(
            f"resuming from step {resume_step} of run {run_id}, {total_steps} in all"
            if resume_step
            else f"fresh run {run_id}, {total_steps} steps"
        )
        if line := batch_text(config):
            console.say(line)
        return console

    def _take_up(self, resume_step: int) -> float:
        """Leave only what the checkpoint knows of, and return the seconds that this took then."""
        if not resume_step:
            set_aside(self.log_dir, (STATS_FILE, EPISODES_FILE, RUN_FILE))
            return 0.0
        for name in (STATS_FILE, EPISODES_FILE):
            keep_rows(self.log_dir / name, lambda row: row["step"] <= resume_step)
        rows = read_rows(self.log_dir / STATS_FILE)
        self._recent.extend(row["stats"] for row in rows[-RECENT_STEPS:] if row["kind"] == "train")
        return max((row["time_s"] for row in rows), default=0.0)

    def _append(self, kind: str, step: int, **content: Any) -> None:
        """Write one row of ``stats.jsonl``."""
        time_s = round(self._clock() - self._started_s, 3)
        self._stats_file.append([{"kind": kind, "step": step, "time_s": time_s, **content}])

    def step(
        self,
        step: int,
        stats: Mapping[str, Any],
        episodes: Sequence[EpisodeSample] | None = None,
    ) -> None:
        """Record a finished optimiser step.

        Args:
            step: Finished steps, this one included.
            stats: Name to number; ``diagnosis`` lists the names that warnings read.
            episodes: Some of the step's episodes, for a person to read.
        """
        self._step = step
        row = plain_stats(stats)
        self._append("train", step, stats=row)
        if episodes:
            self._episodes_file.append(map(episode_row, episodes))
        for tracker in self._trackers:
            tracker.log(step, row)
        self._recent.append(row)
        if self._console is not None:
            self._console.step(step, row | self._means(row))
        for finding in diagnose(list(self._recent)):
            if step - self._warned_at.get(finding.code, -WARN_AGAIN_STEPS) >= WARN_AGAIN_STEPS:
                self.warn(finding.code, finding.text)

    def _means(self, row: Mapping[str, Any]) -> dict[str, float | None]:
        """Return what the console leads with, over the latest steps."""
        name = "reward" if "reward" in row else "loss"
        latest = [each.get(name) for each in list(self._recent)[-MEAN_STEPS:]]
        values = [value for value in latest if value is not None]
        return {name: sum(values) / len(values) if values else None} if name in row else {}

    def eval(self, step: int, stats: Mapping[str, Any]) -> None:
        """Record an evaluation after a number of finished steps; before training that is 0."""
        row = plain_stats(stats)
        self._append("eval", step, stats=row)
        for tracker in self._trackers:
            tracker.log(step, {f"eval/{name}": value for name, value in row.items()})
        if self._console is not None:
            self._console.eval(row)

    def warn(self, code: str, text: str) -> None:
        """Record a warning and show it; the report gathers warnings by code.

        Args:
            code: A short name of the kind ("reward_collapse").
            text: What was found, and what to do.
        """
        self._warned_at[code] = self._step
        self._append("warning", self._step, code=code, text=text)
        if self._console is not None:
            self._console.say(f"warning ({code}) at step {self._step}: {text}", style="yellow")

    def close(self, status: str = "completed") -> ReportPaths:
        """End the run and write its report; a second call returns the first one's paths.

        Args:
            status: ``"completed"``, ``"interrupted"`` or ``"failed: <reason>"``.
        """
        if self._paths is not None:
            return self._paths
        for tracker in self._trackers:
            tracker.close()
        self._stats_file.close()
        self._episodes_file.close()
        write_json(self.log_dir / RUN_FILE, self._run | {"status": status})
        self._paths = render_report(self.log_dir)
        if self._console is not None:
            self._console.close()
            self._say_end(self._console, status, self._paths)
        return self._paths

    @staticmethod
    def _say_end(console: RunConsole, status: str, paths: ReportPaths) -> None:
        console.say(f"run {status}")
        if paths.reward_png is not None:
            console.say(f"  curve   {paths.reward_png}")
        console.say(f"  report  {paths.html}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        is_stop = isinstance(error, (KeyboardInterrupt, SystemExit))
        try:
            self.close("interrupted" if is_stop else f"failed: {type(error).__name__}: {error}")
        except Exception:  # the run's own error is the one to raise
            logger.exception("the report of %s could not be written", self.log_dir)


def render_report(log_dir: str | Path) -> ReportPaths:
    """Draw curve and page from a run's files; works on a run that goes on or was killed too.

    Raises:
        FileNotFoundError: No run has written there.
    """
    record = load_record(Path(log_dir))
    png = record.log_dir / f"{record.headline}.png"
    is_drawn = draw_curve(record, png)
    paths = ReportPaths(
        reward_png=png if is_drawn else None,
        html=record.log_dir / "report.html",
        stats_jsonl=record.log_dir / STATS_FILE,
        episodes_jsonl=record.log_dir / EPISODES_FILE,
    )
    write_page(record, paths.html, paths.reward_png)
    return paths


def batch_text(config: Any) -> str:
    """Return how large a step is, in dataset rows and in trained sequences; "" if unknown."""
    rows = find_block(find_block(config, "train_dataset"), "batch_size")
    samples = find_block(find_block(config, "gconfig"), "n_samples")
    if not isinstance(rows, int):
        return ""
    if find_block(find_block(config, "train_dataset"), "type") in ("dpo", "rw"):
        return f"{rows} pairs a step"
    if not isinstance(samples, int):
        return f"{rows} sequences a step"
    return f"{rows} rows x {samples} samples = {rows * samples} sequences a step"


def describe_run(
    log_dir: Path, config: Any, plain: Mapping[str, Any], total_steps: int, title: str | None
) -> dict[str, Any]:
    """Return the content of ``run.json``: all that the report has beside the rows.

    Args:
        log_dir: The run's folder.
        config: The configuration, for what differs from its defaults.
        plain: The same as plain data, secrets hidden.
        total_steps: Steps of the whole run.
        title: What is trained, or None for the configuration's names.
    """
    names = [str(plain[key]) for key in ("experiment_name", "trial_name") if plain.get(key)]
    run = plain.get("run") or {}
    facts = [run.get("algorithm"), batch_text(config), f"{total_steps} steps planned"]
    changed = {key: json.dumps(value, default=str) for key, value in changed_leaves(config).items()}
    packages = ("torch", "transformers")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    return {
        "version": 1,
        "title": title or " / ".join(names) or log_dir.name,
        "status": "running",
        "started_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "total_steps": total_steps,
        "stop_at_reward": run.get("stop_at_reward"),
        "stop_at_accuracy": run.get("stop_at_accuracy"),
        "facts": [fact for fact in facts if fact],
        "log_dir": str(log_dir.resolve()),
        "changed": changed,
        "config_text": json.dumps(plain, indent=2, default=str),
        "software": [f"Python {platform.python_version()}", *versions],
    }
