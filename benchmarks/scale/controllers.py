"""What engines in worker processes cost beside one in this process."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from areal.api.cli_args import InferenceEngineConfig, SchedulingSpec
from areal.api.scheduler_api import Job
from areal.engine.remote import RemoteLocalEngine
from areal.infra.scheduler import LocalScheduler
from benchmarks.results import Result
from benchmarks.settings import ROOT, Settings

_NUM_WORKERS = 2
_TIMEOUT_S = 120.0
# A call within one process is too short to be timed by few.
_MORE_CALLS = 100


def measure(settings: Settings, folder: Path) -> Iterator[Result]:
    """Yield start-up, CPU time of a call and memory of workers whose engine does nothing."""
    config = InferenceEngineConfig(backend="local:d1")
    rounds = [_measure_once(settings, config, folder / str(i)) for i in range(settings.cold_starts)]
    start_s, start_cpu_s, call_ms, memory_mb = (
        statistics.median(each) for each in zip(*rounds, strict=True)
    )
    engine, num_calls = RemoteLocalEngine(config), settings.scale_requests * _MORE_CALLS
    own = psutil.Process()
    before = _cpu_s([own])
    for _ in range(num_calls):
        engine.get_version()
    alone_ms = (_cpu_s([own]) - before) / num_calls * 1000
    own_mb = own.memory_full_info().pss / 2**20
    for name, what, unit, ours, alone in (
        ("start_s", f"from nothing to {_NUM_WORKERS} workers with an engine", "s", start_s, None),
        ("start_cpu_s", "CPU of all processes until then", "s", start_cpu_s, None),
        ("call_ms", "CPU of both sides for a call of a worker's engine", "ms", call_ms, alone_ms),
        ("memory_mb", "memory of a worker whose engine does nothing", "MB", memory_mb, own_mb),
    ):
        yield Result(
            f"scale.controllers.{name}",
            what,
            ours,
            unit,
            alone,
            "" if alone is None else "in this process",
            is_higher_better=False,
            note=f"median of {len(rounds)}",
        )


def _measure_once(
    settings: Settings, config: InferenceEngineConfig, folder: Path
) -> tuple[float, float, float, float]:
    scheduler = LocalScheduler(experiment_name="e", trial_name="t", fileroot=str(folder))
    try:
        own = psutil.Process()
        started, before = time.perf_counter(), _cpu_s([own])
        spec = SchedulingSpec(cpu=1, env_vars={"PYTHONPATH": str(ROOT)})
        ids = scheduler.create_workers(Job("worker", _NUM_WORKERS, [spec]))
        scheduler.get_workers("worker", _TIMEOUT_S)

        async def make_engines() -> None:
            await asyncio.gather(
                *(scheduler.create_engine(each, "local", "engine", config) for each in ids)
            )

        asyncio.run(make_engines())
        start_s = time.perf_counter() - started
        workers = [p for p in own.children() if "rpc_server" in " ".join(p.cmdline())]
        start_cpu_s = _cpu_s([own, *workers]) - before
        memory_mb = sum(w.memory_full_info().pss for w in workers) / 2**20 / len(workers)
        before = _cpu_s([own, *workers])
        for _ in range(settings.scale_requests):
            scheduler.call_engine(ids[0], "get_version", "engine")
        call_ms = (_cpu_s([own, *workers]) - before) / settings.scale_requests * 1000
    finally:
        scheduler.close()
    return start_s, start_cpu_s, call_ms, memory_mb


def _cpu_s(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times)
