"""The checksums that modules recorded, and those of a tensor that lies in shards on many ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from scaffold.debug.records import read_job, rows_of
from scaffold.errors import RequestError

PHASES = ("start", "forward", "backward", "gradient", "parameter")
"""What is recorded of a step, in the order in which it happens."""

# Checksums are sums that wrap around at 64 bits, so that those of shards can be added.
MODULUS = 1 << 64

_SUMMED = ("norm", "total", "nan", "inf")


class Key(NamedTuple):
    """The tensor of a row: the n-th of a module's in a phase of a step."""

    step: int
    phase: str
    name: str
    part: str
    n: int


@dataclass(frozen=True)
class Checksum:
    """The checksum of a tensor, with its shape and statistics.

    Args:
        checksum: Of all its bits and their places; None where shards could not be put together.
        norm: The squared 2-norm of what is finite.
        placements: How a DTensor is placed, () for a plain tensor.
        counts: Whether this shard is the first of its copies.
        is_partial: Whether ranks hold parts that are still to be summed.
    """

    dtype: str
    shape: tuple[int, ...]
    checksum: int | None
    norm: float
    largest: float
    total: float
    nan: int
    inf: int
    samples: tuple[Any, ...] = ()
    placements: tuple[str, ...] = ()
    counts: bool = True
    is_partial: bool = False


Checksums = dict[Key, Checksum]
"""The tensors of one rank, in the order of execution."""


def has_checksums(folder: Path) -> bool:
    """Return whether any process of a recorded run has left checksums."""
    return any(folder.glob("*.sums.jsonl"))


def read_checksums(folder: Path) -> dict[int, Checksums]:
    """Return the tensors of each rank of a recorded run; a job without ranks is rank 0.

    Raises:
        RequestError: The folder is no record, or has no checksums.
    """
    files = sorted(folder.glob("*.sums.jsonl"))
    if not files:
        what = "holds no checksums" if folder.is_dir() else "is not a folder"
        raise RequestError(
            f"{folder} {what}",
            code="record_invalid",
            hint="record a run with `scaffold debug run --checksums --report DIR -- COMMAND`",
        )
    pids = {process.pid: rank for rank, process in read_job(folder).ranks.items()}
    found: dict[int, Checksums] = {}
    for file in files:
        # In a job with ranks, a process without one is a helper and no rank 0.
        rank = pids.get(int(file.name.partition(".")[0]), 0 if not pids else None)
        if rank is not None and rank not in found:
            found[rank] = _in_order(_read(file))
    return found


def _read(file: Path) -> Checksums:
    try:
        return {
            Key(row["step"], row["phase"], row["name"], row["part"], row["n"]): _as_checksum(row)
            for row in rows_of(file)
        }
    except (KeyError, TypeError) as error:
        raise RequestError(
            f"{file} is not a record of checksums that this release reads",
            code="record_invalid",
            hint="record the run again",
        ) from error


def _as_checksum(row: dict[str, Any]) -> Checksum:
    placed: dict[str, Any] = row.get("placed") or {}
    is_whole = not placed or placed.get("offset") is not None
    same = ("dtype", "norm", "largest", "total", "nan", "inf")
    return Checksum(
        shape=tuple(row["shape"]),
        # Without its offset a shard's places in the whole are unknown, and so are its weights.
        checksum=row["sum"] if is_whole else None,
        samples=tuple(row["samples"]),
        placements=tuple(placed.get("placements", ())),
        counts=placed.get("counts", True),
        is_partial=placed.get("partial", False),
        **{name: row[name] for name in same},
    )


def _in_order(checksums: Checksums) -> Checksums:
    """Put gradients in the order of the backward pass; an optimizer has an order of its own."""
    last = {
        (key.step, key.name): at
        for at, key in enumerate(checksums)
        if key.phase in ("forward", "start")
    }

    def place(key: Key) -> tuple[int, int, int]:
        owner = (key.step, key.name.rpartition(".")[0])
        is_gradient = key.phase == "gradient"
        # The backward pass goes through the modules from the last one to the first.
        return key.step, PHASES.index(key.phase), -last.get(owner, 0) if is_gradient else 0

    return {key: checksums[key] for key in sorted(checksums, key=place)}


def whole(ranks: Mapping[int, Checksums]) -> dict[int, Checksums]:
    """Return the ranks with each DTensor as the whole that its shards make up.

    The weights of the checksums are those of places in the whole, so that the sums of shards add.
    """
    shards: dict[Key, list[Checksum]] = {}
    for checksums in ranks.values():
        for key, each in checksums.items():
            # Replicas of a shard would be counted several times.
            if each.placements and each.counts:
                shards.setdefault(key, []).append(each)
    joined = {key: _joined(each) for key, each in shards.items()}
    return {
        rank: {key: joined.get(key, e) if e.placements else e for key, e in checksums.items()}
        for rank, checksums in ranks.items()
    }


def _joined(shards: list[Checksum]) -> Checksum:
    known = [each.checksum for each in shards if each.checksum is not None]
    sums = {name: sum(getattr(each, name) for each in shards) for name in _SUMMED}
    return replace(
        shards[0],
        checksum=sum(known) % MODULUS if len(known) == len(shards) else None,
        largest=max(each.largest for each in shards),
        # Samples are taken at places of the shard, which mean nothing in the whole.
        samples=(),
        is_partial=any(each.is_partial for each in shards),
        **sums,
    )


def key_text(key: Key) -> str:
    """Return a tensor's place in words."""
    call = f", call {key.n}" if key.n > 1 else ""
    part = f" output {key.part}" if key.part else ""
    what = {
        "start": "parameter {} at the start",
        "forward": "{}, forward",
        "backward": "{}, gradient of its output",
        "gradient": "gradient of parameter {}",
        "parameter": "parameter {} behind the step",
    }[key.phase].format(key.name)
    return f"{what}{part}{call}, step {key.step}"
