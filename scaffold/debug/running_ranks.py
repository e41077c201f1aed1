"""Finds the ranks of a job among the processes of this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from scaffold.debug.processes import GONE
from scaffold.debug.watch import RECORD
from scaffold.debug.wording import ranks_text
from scaffold.errors import RequestError

_JOB = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")


@dataclass(frozen=True)
class RunningRank:
    """One rank.

    Args:
        world: How many ranks the job has, or None where its environment does not say.
        record: The folder in which it records under `scaffold debug run`, or "".
    """

    pid: int
    rank: int
    world: int | None
    record: str


def find_ranks(pids: Sequence[int]) -> tuple[list[RunningRank], list[str]]:
    """Return the ranks among processes and those below them, and what is to be said of them.

    Args:
        pids: Processes; none for all of this machine.

    Raises:
        RequestError: A process is not there or may not be read, or the ranks are of several jobs.
    """
    found = _below(pids) if pids else list(psutil.process_iter())
    environments = _environments(found)
    ranked = {pid: env for pid, env in environments.items() if env.get("RANK", "").isdigit()}
    # Workers of a rank inherit its RANK; the rank is the uppermost Python that has it.
    ranked = {pid: env for pid, env in ranked.items() if not _inherits(pid, ranked)}
    if not ranked:
        return _without_rank(pids, environments)
    jobs: dict[tuple[str, ...], list[int]] = {}
    for pid, env in ranked.items():
        jobs.setdefault(tuple(env.get(name, "") for name in _JOB), []).append(pid)
    if len(jobs) > 1:
        told = "; ".join(" ".join(map(str, each)) for each in jobs.values())
        raise RequestError(
            f"ranks of {len(jobs)} jobs run here: {told}",
            code="usage",
            hint="give the process ids of one job",
        )
    rows = [
        RunningRank(pid, int(env["RANK"]), _number(env.get("WORLD_SIZE")), env.get(RECORD, ""))
        for pid, env in ranked.items()
    ]
    here = {_number(env.get("LOCAL_WORLD_SIZE")) for env in ranked.values()} - {None}
    notes = [
        f"{count} ranks were started on this machine, and {len(rows)} are given or there"
        for count in here
        if count is not None and count > len(rows)
    ]
    return sorted(rows, key=lambda each: each.rank), notes


def cpu_seconds(pid: int) -> float:
    """Return the time that a process spent on cores, in seconds; 0 where it is gone."""
    with suppress(*GONE):
        spent = psutil.Process(pid).cpu_times()
        return spent.user + spent.system
    return 0.0


def _below(pids: Iterable[int]) -> list[psutil.Process]:
    found: dict[int, psutil.Process] = {}
    for pid in pids:
        try:
            process = psutil.Process(pid)
            found |= {each.pid: each for each in (process, *process.children(recursive=True))}
            process.environ()
        except psutil.AccessDenied as error:
            raise RequestError(
                f"the environment of process {pid} cannot be read: permission denied",
                code="usage",
                hint="run this as the user of the process; a container also needs SYS_PTRACE",
            ) from error
        except GONE as error:
            raise RequestError(
                f"there is no process {pid}", code="usage", hint="see `ps -ef | grep python`"
            ) from error
    return list(found.values())


def _environments(processes: Iterable[psutil.Process]) -> dict[int, dict[str, str]]:
    """Return the environments of the Pythons, in the order in which they were started."""
    rows: list[tuple[float, int, dict[str, str]]] = []
    for process in processes:
        with suppress(*GONE, OSError):
            # The command line may be another one, as that of ray's workers.
            if "python" in process.exe().rpartition("/")[2]:
                rows.append((process.create_time(), process.pid, process.environ()))
    return {pid: env for _, pid, env in sorted(rows, key=lambda row: row[:2])}


def _inherits(pid: int, ranked: dict[int, dict[str, str]]) -> bool:
    with suppress(*GONE):
        above = [each.pid for each in psutil.Process(pid).parents()]
        return any(ranked[each]["RANK"] == ranked[pid]["RANK"] for each in above if each in ranked)
    return False


def _without_rank(
    pids: Sequence[int], environments: dict[int, dict[str, str]]
) -> tuple[list[RunningRank], list[str]]:
    """Take the given processes for ranks, or those that multiprocessing started below them."""
    given = [pid for pid in environments if pid in pids]
    if not given:
        raise RequestError(
            "no process here has RANK in its environment"
            if not pids
            else f"no Python among {', '.join(map(str, pids))} and what they started",
            code="usage",
            hint="give the process ids of the ranks",
        )
    spawned = [pid for pid in environments if pid not in pids and _is_spawned(pid)]
    # Those that are watched tell their ranks themselves.
    watched = [pid for pid, env in environments.items() if env.get(RECORD)]
    chosen = watched or (spawned if len(given) == 1 and spawned else given)
    rows = [
        RunningRank(pid, number, None, environments[pid].get(RECORD, ""))
        for number, pid in enumerate(chosen)
    ]
    note = f"without RANK in the environment {ranks_text(range(len(rows)))} "
    note += "are numbered as they were started"
    return rows, [note] if len(rows) > 1 and not watched else []


def _is_spawned(pid: int) -> bool:
    with suppress(*GONE):
        return any("spawn_main" in word for word in psutil.Process(pid).cmdline())
    return False


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
