"""Reads the flight records that the ranks of a job left, on one machine or on several."""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from scaffold.debug.diagnosis import Snapshot, Verdict, diagnose, who_waits
from scaffold.debug.flight_recorder import as_call
from scaffold.debug.matching import waits
from scaffold.debug.records import Group, Job, Place, Process
from scaffold.debug.report import report_json, verdict_text
from scaffold.debug.stacks import own_frames
from scaffold.debug.watch import WatchResult
from scaffold.debug.wording import ranks_text
from scaffold.errors import RequestError
from scaffold.report import Report

# torch names a dump by its rank: `nccl_trace_rank_12`, or TORCH_FR_DUMP_TEMP_FILE and 12.
_RANK = re.compile(r"(\d+)(?:\.\w+)?$")

Dump = Mapping[str, Any]


class _Plain(pickle.Unpickler):
    """Unpickles what a dump consists of, texts, numbers and containers, and nothing that runs."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, which no dump does")


def read_flights(names: Sequence[str], root: Path) -> Report:
    """Match the dumps of torch's flight recorder by collective, and report the rank that parted.

    Args:
        names: Files, or folders of them; the number at the end of a file's name is its rank.
        root: What they are relative to.

    Raises:
        RequestError: A file cannot be read, is no dump, or two of them are of one rank.
    """
    files = [file for name in names for file in _files(root / name)]
    dumps: dict[int, tuple[Path, Dump]] = {}
    for file in files:
        named = _RANK.search(file.name)
        if named is None:
            raise _invalid(f"the name of {file} does not end in a rank, as nccl_trace_rank_3 does")
        rank = int(named[1])
        if rank in dumps:
            raise _invalid(f"{file} and {dumps[rank][0]} are both of rank {rank}")
        dumps[rank] = (file, _read(file))
    job = as_job({rank: dump for rank, (_, dump) in sorted(dumps.items())})
    times = [call.since_s for each in job.ranks.values() for call in each.calls]
    snapshot = Snapshot(job, frozenset(job.ranks), now_s=max(times, default=0.0))
    verdict = diagnose(snapshot)
    # Ranks that left no dump were not absent for all that is known.
    if verdict is not None and verdict.kind == "absent":
        verdict = _of_missing(job)
    seen = WatchResult(snapshot, verdict, 0.0)
    shown = ", ".join(names)
    count = max((len(process.calls) for process in job.ranks.values()), default=0)
    text = f"ok         {len(job.ranks)} ranks agree in what they recorded, up to {count} calls\n"
    if job.missing:
        text += f"note       {ranks_text(job.missing)} left no dump here\n"
    text = verdict_text(seen, shown) if verdict else text
    extra = report_json(seen, shown)
    return Report("debug flight", ok=verdict is None, text=text, extra={"debug": extra})


def as_job(dumps: Mapping[int, Dump]) -> Job:
    """Return the job of which ranks left dumps, with their collectives as they number them."""
    ranks: dict[int, Process] = {}
    for rank, dump in dumps.items():
        process = Process(pid=rank, rank=rank, joined=0.0)
        for name, config in cast("dict[str, Any]", dump.get("pg_config") or {}).items():
            members = config.get("ranks", "[]")
            members = json.loads(members) if isinstance(members, str) else members
            description = str(config.get("desc", ""))
            process.groups[str(name)] = Group(str(name), tuple(map(int, members)), description)
        for entry in cast("list[dict[str, Any]]", dump.get("entries") or []):
            if not entry.get("is_p2p"):
                call = as_call(entry)
                call.at = _places(entry)
                call.is_native = not call.at
                process.calls.append(call)
        ranks[rank] = process
    members = [each for process in ranks.values() for group in process.groups.values()
               for each in group.ranks]  # fmt: skip
    return Job(max([*members, *ranks], default=-1) + 1, ranks, [])


def _of_missing(job: Job) -> Verdict | None:
    """Return the verdict where ranks wait for one that left no dump."""
    missing = set(job.missing)
    waiting = [wait for wait in waits(job).values() if missing & set(wait.for_ranks)]
    if not waiting:
        return None
    lost = sorted(missing & {each for wait in waiting for each in wait.for_ranks})
    text = f"{ranks_text(lost)} left no dump here; {who_waits(job, waiting)}"
    hint = "bring the dumps of all machines together; a rank without one may have died first"
    return Verdict("absent", tuple(lost), text, waiting[0].call.group, (), hint)


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    found = sorted(e for e in place.iterdir() if e.is_file() and _RANK.search(e.name))
    if not found:
        raise _invalid(f"{place} holds no file whose name ends in a rank")
    return found


def _read(file: Path) -> Dump:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RequestError(
            f"{file} cannot be read: {error.strerror}", code="source_unreadable"
        ) from error
    try:
        found = json.loads(data) if data[:1] == b"{" else _Plain(io.BytesIO(data)).load()
    except Exception as error:  # damaged pickles raise nearly anything
        raise _invalid(f"{file} is no dump of torch's flight recorder: {error}") from error
    if not isinstance(found, dict) or "entries" not in found:
        raise _invalid(f"{file} is no dump of torch's flight recorder: it has no entries")
    return cast("Dump", found)


def _places(entry: Mapping[str, Any]) -> tuple[Place, ...]:
    frames = tuple(
        Place(str(each["filename"]), int(each["line"]), str(each["name"]))
        for each in cast("list[dict[str, Any]]", entry.get("frames") or [])
    )
    return (own_frames(frames) or frames)[:1]


def _invalid(message: str) -> RequestError:
    return RequestError(
        message,
        code="record_invalid",
        hint="give the files that torch wrote where TORCH_NCCL_DUMP_ON_TIMEOUT is set",
    )
