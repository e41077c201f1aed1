"""What memory the modules of a job hold, from what its ranks recorded."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scaffold.debug.records import Job

KINDS = ("parameters", "gradients", "optimizer", "saved")
# The largest ones; a model has hundreds.
MAX_MODULES = 12
LARGE = 0.01
"""Which share of all parameters one has to be, to be named where it is not sharded."""


@dataclass(frozen=True)
class MemoryUse:
    """The memory that one rank held at one moment.

    Args:
        moment: Such as "out of memory in Model.layers.3".
        modules: Bytes of each kind, by module, without those of inner modules.
        parameters: Bytes held and bytes of the whole, and how it is placed, by parameter.
        device: The peaks of the process, and of its accelerator.
        phases: What was measured, and under "rows" bytes by phase.
    """

    rank: int
    moment: str
    step: int
    modules: dict[str, dict[str, int]]
    parameters: dict[str, dict[str, Any]]
    device: dict[str, Any]
    phases: dict[str, Any] = field(default_factory=dict[str, Any])

    def total(self, kind: str) -> int:
        return sum(row[kind] for row in self.modules.values())

    def unsharded(self) -> dict[str, int]:
        """Return the large parameters that every rank holds whole, with their bytes."""
        whole = sum(row["whole"] for row in self.parameters.values())
        return {
            name: row["held"]
            for name, row in sorted(self.parameters.items(), key=lambda each: -each[1]["held"])
            # A sharded parameter can be held whole for a moment, while it is gathered.
            if row["held"] == row["whole"] >= LARGE * whole and not is_sharded(row)
        }


def is_sharded(row: dict[str, Any]) -> bool:
    return any("Shard" in each or each.startswith("S(") for each in row["placements"])


def read_memory(folder: Path, job: Job) -> dict[int, MemoryUse]:
    """Return what each rank held last; a job without ranks is rank 0."""
    ranks = {process.pid: rank for rank, process in job.ranks.items()}
    found: dict[int, MemoryUse] = {}
    for file in sorted(folder.glob("*.memory.json")):
        rank = ranks.get(int(file.name.partition(".")[0]), None if ranks else 0)
        try:
            row: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if rank is not None:
            found[rank] = MemoryUse(rank, **row)
    return found


def memory_text(found: dict[int, MemoryUse]) -> str:
    """Return the report: the rank that holds most, or that ran out, by module."""
    if not found:
        return "memory     no model ran, or none that is a torch.nn.Module\n"
    # The rank that ran out is the one in question, even if another one held more.
    held = max(found.values(), key=lambda each: ("out of memory" in each.moment, _sum(each)))
    rows = [f"memory     rank {held.rank}, when {held.moment}, step {held.step}; {_peaks(held)}"]
    rows += _table(held)
    rows += _phase_rows(held.phases)
    rows += _unsharded_rows(held, len(found))
    return "\n".join(rows) + "\n"


def _sum(held: MemoryUse) -> int:
    return sum(held.total(kind) for kind in KINDS)


def _table(held: MemoryUse) -> list[str]:
    shown = sorted(held.modules.items(), key=lambda row: -sum(row[1].values()))
    whole = {kind: held.total(kind) for kind in KINDS}
    sized = [("all modules", whole), *shown[:MAX_MODULES]]
    cells: list[tuple[str, ...]] = [("module", *KINDS, "all")]
    for name, row in sized:
        cells.append(
            (name, *(size_text(row[kind]) for kind in KINDS), size_text(sum(row.values())))
        )
    left = len(shown) - MAX_MODULES
    return _aligned(cells) + ([f"and {left} modules more"] if left > 0 else [])


def _aligned(cells: list[tuple[str, ...]]) -> list[str]:
    first, *widths = (max(map(len, column)) for column in zip(*cells, strict=True))
    return [
        "  ".join([name.ljust(first), *map(str.rjust, sizes, widths)]) for name, *sizes in cells
    ]


def _phase_rows(phases: dict[str, Any]) -> list[str]:
    found: dict[str, dict[str, int]] = phases.get("rows") or {}
    if not found:
        return []
    meter = phases["meter"]
    what = "the process, as no accelerator is used" if meter == "process" else meter
    cells: list[tuple[str, ...]] = [("phase", "times", "at begin", "at end", "raised the peak by")]
    for name, row in found.items():
        sizes = [size_text(row[key]) for key in ("begin", "end", "raised")]
        cells.append((name, str(row["times"]), *sizes))
    top = max(found, key=lambda name: found[name]["peak"])
    words = (
        f"phases     of {what}; the peak of {size_text(found[top]['peak'])} was reached in {top}"
    )
    return [words, *_aligned(cells)]


def _unsharded_rows(held: MemoryUse, ranks: int) -> list[str]:
    sharded = sum(1 for row in held.parameters.values() if is_sharded(row))
    if ranks == 1 and not sharded:
        return []
    if not sharded:
        size = size_text(held.total("parameters"))
        return [f"unsharded  all {len(held.parameters)} parameters: each rank holds {size} of them"]
    return [
        f"unsharded  {name}: each rank holds all {size_text(size)} of it, while {sharded} of "
        f"{len(held.parameters)} parameters are sharded"
        for name, size in list(held.unsharded().items())[:5]
    ]


def _peaks(held: MemoryUse) -> str:
    resident = f"peak of the process {size_text(held.device.get('resident_peak', 0))}"
    cuda: dict[str, Any] = held.device.get("cuda") or {}
    if not cuda:
        return resident
    return (
        f"peak of {cuda['device']} {size_text(cuda['allocated_peak'])} of "
        f"{size_text(cuda['total'])}, reserved {size_text(cuda['reserved'])}"
    )


def size_text(size: float) -> str:
    """Return a number of bytes as people read it."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def memory_json(found: dict[int, MemoryUse]) -> dict[str, Any]:
    """Return the report for machines, by rank."""
    names = ("moment", "step", "modules", "parameters", "unsharded", "device", "phases")
    told = {rank: {**asdict(held), "unsharded": held.unsharded()} for rank, held in found.items()}
    return {str(rank): {name: told[rank][name] for name in names} for rank in sorted(told)}
