"""What a run leaves as data: rows of statistics and sampled episodes, one JSON object a line.

A row of ``stats.jsonl`` has ``kind``: ``train`` and ``eval`` rows carry ``stats``, ``warning`` rows
``code`` and ``text``, ``resume`` rows mark where a run was taken up again. ``step`` counts finished
optimiser steps: the first step writes 1, an evaluation before training 0.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STATS_FILE = "stats.jsonl"
EPISODES_FILE = "episodes.jsonl"
RUN_FILE = "run.json"


@dataclass(frozen=True, slots=True)
class EpisodeSample:
    """One finished episode as a person reads it.

    Attributes:
        step: The finished optimiser step that trained on it.
        task_id: The dataset row it answers.
        version: The weight version that sampled its last token.
        stop_reason: Why sampling ended: ``"stop"``, ``"length"`` or another word of the engine's.
        answer: The gold answer, where the dataset has one.
        info: What the workflow noted of it.
        turns: What the model sampled and what the workflow put between, in order, each a mapping of
            ``sampled`` and ``text``; None where the completion is one turn.
    """

    step: int
    task_id: str
    prompt: str
    completion: str
    reward: float
    version: int
    stop_reason: str | None
    answer: str | None = None
    info: dict[str, Any] | None = None
    turns: list[dict[str, Any]] | None = None


def plain_number(value: Any) -> int | float | None:
    """Return a Python number for anything that holds one; None for None and what is not finite."""
    if value is None:
        return None
    number = value if isinstance(value, int) else float(value)
    return number if math.isfinite(number) else None


def plain_stats(stats: Mapping[str, Any]) -> dict[str, int | float | None]:
    """Return the statistics as JSON can hold them: NaN and infinity become null."""
    return {name: plain_number(value) for name, value in stats.items()}


def episode_row(sample: EpisodeSample) -> dict[str, Any]:
    """Return one row of ``episodes.jsonl``."""
    return asdict(sample) | {"reward": plain_number(sample.reward)}


class JsonLines:
    """Appends rows to a file; each call hands its lines to the system, so a kill loses none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab")

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write one line for each row."""
        lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows]
        # A lone surrogate, which a byte-level tokenizer can leave, has no UTF-8 form.
        self._file.write("".join(lines).encode("utf-8", errors="backslashreplace"))
        self._file.flush()

    def close(self) -> None:
        """Write to the disk itself and close; a second call does nothing."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, [] without a file; a last line that a kill cut off is left out.

    Raises:
        ValueError: A line before the last is no JSON.
    """
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            if number == len(lines):  # no newline behind it: the write was cut
                break
            raise ValueError(
                f"{path}:{number} is not valid JSON ({error}); the file was edited"
            ) from error
    return rows


def keep_rows(path: Path, is_kept: Callable[[Mapping[str, Any]], bool]) -> None:
    """Rewrite a file with some of its rows; the old file stays until the new one is complete."""
    rows = [row for row in read_rows(path) if is_kept(row)]
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    writer = JsonLines(part)
    writer.append(rows)
    writer.close()
    part.replace(path)


def set_aside(log_dir: Path, names: Iterable[str]) -> int | None:
    """Rename the files of an earlier run, ``stats.jsonl`` to ``stats.1.jsonl``, and so keeps them.

    Returns:
        The number that they got, or None where there was nothing to keep.
    """
    old = [log_dir / name for name in names]
    old = [path for path in old if path.exists() and path.stat().st_size]
    if not old:
        return None
    number = 1
    while any(path.with_name(f"{path.stem}.{number}{path.suffix}").exists() for path in old):
        number += 1
    for path in old:
        path.replace(path.with_name(f"{path.stem}.{number}{path.suffix}"))
    return number


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file that is complete or absent."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
    part.replace(path)
