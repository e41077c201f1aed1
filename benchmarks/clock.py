"""Time and memory of this process, and repetitions that alternate.

Where rounds alternate, drift of the machine hits all sides alike.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch


def use_one_thread() -> None:
    """Keep tensor work in the calling thread, so that CPU seconds count work and not waiting."""
    torch.set_num_threads(1)


def cpu_seconds(work: Callable[[], int]) -> tuple[float, int]:
    """Run work once.

    Returns:
        CPU seconds of all threads of this process, and what the work returned: the units it did.
    """
    started = time.process_time()
    units = work()
    return time.process_time() - started, units


def interleaved_rates(
    works: Mapping[str, Callable[[], int]], repetitions: int
) -> dict[str, list[float]]:
    """Measure units per CPU second of several works in turn, after one round that does not count.

    Each round starts with another work, so none always follows the same one.

    Args:
        works: Each returns the number of units it did.
        repetitions: Rounds that count.
    """
    names = list(works)
    rates: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        works[name]()
    # As the trainers do: what exists now need not be looked at by each collection to come.
    gc.collect()
    gc.freeze()
    for i in range(repetitions):
        start = i % len(names)
        for name in names[start:] + names[:start]:
            seconds, units = cpu_seconds(works[name])
            rates[name].append(units / seconds)
    return rates


def spread(values: Sequence[float]) -> str:
    """Return "median of 7, 0.083 to 0.091"."""
    return f"median of {len(values)}, {min(values):.4g} to {max(values):.4g}"


def ratio_spread(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return the range of the ratios of single rounds."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.median(ratios)
    return (
        f"{len(ratios)} rounds, ratio {min(ratios):.2f} to {max(ratios):.2f}, median {middle:.2f}"
    )


def peak_memory_mb() -> float:
    """Return the largest resident size that this process has had, in MB of 2**20 bytes.

    Source:
        ``VmHWM`` of proc(5). ``getrusage`` would count what the process was before ``exec``.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM")
