"""Runs a job under watch, for the command ``scaffold debug run``."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from scaffold.debug.checksums import has_checksums, read_checksums
from scaffold.debug.memory import memory_json, memory_text, read_memory
from scaffold.debug.numbers import judge_numbers
from scaffold.debug.report import report_json, verdict_text
from scaffold.debug.watch import WatchResult, find_program, watch
from scaffold.errors import RequestError
from scaffold.report import Report


def run_job(
    argv: tuple[str, ...],
    root: Path,
    *,
    timeout_s: float,
    folder: str | None,
    checksums: bool,
    steps: int,
    memory: bool,
    as_json: bool,
) -> Report:
    """Run a job under watch and report what is wrong with it, if anything.

    Args:
        root: Where the job runs, and where its record is relative to.
        timeout_s: How long a rank may be in one call.
        folder: Where to record; a temporary folder where it is None.
        checksums: Whether modules record the checksums of their outputs and gradients.
        steps: For how many steps they do.
        memory: Whether modules record what memory they hold.
        as_json: Whether one object goes to stdout, and so nothing of the job.

    Raises:
        RequestError: No program was given, or none of its name exists; the folder holds files.
    """
    if not argv:
        raise RequestError(
            "no command was given",
            code="usage",
            hint="scaffold debug run -- torchrun --nproc-per-node 2 train.py",
        )
    # Sessions, signals and named pipes of POSIX carry the watch.
    if sys.platform == "win32":
        raise RequestError(
            "jobs are watched on Linux and macOS alone", code="usage", hint="run it under WSL"
        )
    find_program(argv[0], root)  # before a folder is made for nothing
    place = _record_folder(folder, root)
    options = json.dumps({"checksums": checksums, "steps": steps, "memory": memory})
    seen = watch(argv, root, place, timeout_s, options, quiet=as_json)
    if checksums:
        seen = _with_numbers(seen, place)
    looked = checksums and has_checksums(place)
    text = verdict_text(seen, folder or str(place), with_numbers=looked)
    extra = report_json(seen, str(place))
    if memory:
        held = read_memory(place, seen.snapshot.job)
        text, extra = text + memory_text(held), {**extra, "memory": memory_json(held)}
    return Report("debug run", ok=seen.verdict is None, text=text, extra={"debug": extra})


def _with_numbers(seen: WatchResult, folder: Path) -> WatchResult:
    """Judge the numbers too; where ranks parted or failed, a NaN may be why."""
    verdict = judge_numbers(read_checksums(folder)) if has_checksums(folder) else None
    if verdict is None or seen.verdict is None:
        return replace(seen, verdict=seen.verdict or verdict)
    notes = (*seen.verdict.notes, verdict.text)
    return replace(seen, verdict=replace(seen.verdict, notes=notes))


def _record_folder(name: str | None, root: Path) -> Path:
    if name is None:
        return Path(tempfile.mkdtemp(prefix="scaffold-debug-"))
    folder = (root / name).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise RequestError(
            f"{name} cannot be used for the record: {error.strerror}", code="source_unreadable"
        ) from error
    if not is_empty:
        raise RequestError(
            f"{name} is not empty", code="file_exists", hint="give --report a new folder"
        )
    return folder
