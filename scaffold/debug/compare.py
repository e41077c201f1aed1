"""Finds the first tensor in which two recorded runs, or two ranks of one, are not the same."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaffold.debug.checksums import (
    PHASES,
    Checksum,
    Checksums,
    Key,
    key_text,
    read_checksums,
    whole,
)
from scaffold.debug.wording import cut, tensor_text
from scaffold.errors import RequestError
from scaffold.report import Report

# Later differences mostly follow from the first one.
MAX_SHOWN = 5


@dataclass(frozen=True)
class Difference:
    """One tensor that is not the same on both sides."""

    key: Key
    sides: tuple[str, str]
    first: Checksum
    second: Checksum
    why: str


@dataclass
class Comparison:
    """The result of a comparison.

    Args:
        different: Those that do not, in the order of execution.
        alone: How many only one side has.
        first_alone: Which is the first of those, and who has it.
        undecided: How many cannot be compared: partial sums, whose whole nobody holds.
    """

    same: int = 0
    different: list[Difference] = field(default_factory=list[Difference])
    alone: int = 0
    first_alone: str = ""
    undecided: int = 0


def compare_runs(
    records: tuple[str, ...],
    root: Path = Path(),
    *,
    ranks: str | None = None,
    rtol: float = 0.0,
    phases: tuple[str, ...] = (),
) -> Report:
    """Return where two runs, or two ranks, first part.

    Args:
        records: Two recorded runs, or one.
        root: The folder that the records are relative to.
        ranks: The ranks of one run that should agree, as "0,1"; of two runs, those to look at.
        rtol: How far numbers may be apart, relative to the larger; 0 compares every bit.
        phases: What of a step to compare; everything where it is empty.

    Raises:
        RequestError: The request names too many records, or ranks that are none; a record cannot
            be read, or lacks the ranks.
    """
    pairs = _pairs(records, root, _asked_ranks(ranks or ""))
    outcome = Comparison()
    for pair in pairs:
        _compare(outcome, pair, frozenset(phases or PHASES), rtol)
    # The order of execution, in which the first difference is the cause of the later ones.
    places = {(names, key): at for names, first, _ in pairs for at, key in enumerate(first)}
    outcome.different.sort(key=lambda each: (each.key.step, places[each.sides, each.key]))
    if not outcome.same and not outcome.different:
        raise RequestError(
            "the two sides have no tensor in common",
            code="record_invalid",
            hint="record the same model, for the same steps",
        )
    text, extra = _text(outcome, rtol), {"debug": _json(outcome)}
    return Report("debug compare", ok=not outcome.different, text=text, extra=extra)


Pair = tuple[tuple[str, str], Checksums, Checksums]


def _pairs(records: tuple[str, ...], root: Path, ranks: tuple[int, ...]) -> list[Pair]:
    if len(records) not in (1, 2):
        raise RequestError(
            f"{len(records)} records were given", code="usage", hint="give two, or one and --ranks"
        )
    left, right = records[0], records[-1]
    runs = {each: whole(read_checksums(root / each)) for each in records}
    if len(records) == 2:
        # Two runs: each rank is compared with the same one of the other run.
        common = ranks or tuple(sorted(set(runs[left]) & set(runs[right])))
        sides = [(f"{left} rank {rank}", f"{right} rank {rank}", rank, rank) for rank in common]
    else:
        # One run: its first rank is compared with each other one.
        first, *others = asked = ranks or tuple(sorted(runs[left]))
        if len(asked) < 2:
            raise RequestError(
                "one run needs two ranks to compare",
                code="usage",
                hint="give --ranks 0,1, or two runs",
            )
        sides = [(f"rank {first}", f"rank {each}", first, each) for each in others]
    return [
        ((one, other), _of_rank(runs[left], a, left), _of_rank(runs[right], b, right))
        for one, other, a, b in sides
    ]


def _asked_ranks(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in text.split(",") if each.strip())
    except ValueError:
        raise RequestError(
            f"{text!r} are not ranks", code="usage", hint="give them as --ranks 0,1"
        ) from None


def _of_rank(checksums: dict[int, Checksums], rank: int, record: str) -> Checksums:
    if rank not in checksums:
        raise RequestError(
            f"{record} has no checksums of rank {rank}",
            code="record_invalid",
            hint=f"it has those of {', '.join(map(str, sorted(checksums)))}",
        )
    return checksums[rank]


def _compare(outcome: Comparison, pair: Pair, phases: frozenset[str], rtol: float) -> None:
    names, first, second = pair
    known = {key for key in (*first, *second) if key.phase in phases}
    for name, one, other in ((names[0], first, second), (names[1], second, first)):
        alone = [key for key in one if key in known and key not in other]
        outcome.alone += len(alone)
        if alone and not outcome.first_alone:
            outcome.first_alone = f"{key_text(alone[0])} is the first that only {name} has"
    for key, left in first.items():
        right = second.get(key)
        if right is None or key not in known:
            continue
        # Parts that are yet to be summed may differ and still have the same sum.
        if left.is_partial or right.is_partial:
            outcome.undecided += 1
        elif why := difference(left, right, rtol):
            outcome.different.append(Difference(key, names, left, right, why))
        else:
            outcome.same += 1


def difference(left: Checksum, right: Checksum, rtol: float) -> str:
    """Return how two tensors differ, or "" where they are the same.

    Args:
        rtol: How far norm, largest element, sum and samples may be apart; 0 compares all bits.
    """
    if left.shape != right.shape:
        return "shape"
    # Before the numbers, which are those of the finite elements alone.
    if (left.nan, left.inf) != (right.nan, right.inf):
        return "nan" if left.nan != right.nan else "inf"
    if rtol == 0 and left.dtype != right.dtype:
        return "dtype"
    if rtol == 0 and left.checksum is not None and right.checksum is not None:
        return "" if left.checksum == right.checksum else "values"
    # Reached with rtol 0 where shards could not be joined: only statistics are left to compare.
    return _numbers_differ(left, right, rtol or 1e-12)


def _numbers_differ(left: Checksum, right: Checksum, rtol: float) -> str:
    # A sum may cancel to nothing, so it is measured by what it can be at most.
    scale = math.sqrt(max(left.norm, right.norm) * max(1, math.prod(left.shape)))
    pairs = {
        "norm": (math.sqrt(left.norm), math.sqrt(right.norm), 0.0),
        "largest": (left.largest, right.largest, 0.0),
        "sum": (left.total, right.total, rtol * scale),
    }
    for name, (one, other, slack) in pairs.items():
        if not math.isclose(one, other, rel_tol=rtol, abs_tol=slack):
            return name
    widest = max(left.largest, right.largest)
    for one, other in zip(left.samples, right.samples, strict=False):
        is_number = isinstance(one, int | float) and isinstance(other, int | float)
        if is_number and not math.isclose(one, other, rel_tol=rtol, abs_tol=rtol * widest):
            return "samples"
    return ""


def _text(outcome: Comparison, rtol: float) -> str:
    precision = f"within {rtol:g}" if rtol else "bit by bit"
    told = f"{outcome.same} tensors agree {precision}"
    left = [f"{outcome.alone} only on one side"] if outcome.alone else []
    left += [f"{outcome.undecided} undecided: partial sums"] if outcome.undecided else []
    rest = f" ({'; '.join(left)})" if left else ""
    alone = [f"alone      {outcome.first_alone}"] if outcome.alone else []
    if not outcome.different:
        return f"ok         {told}{rest}\n" + "".join(f"{row}\n" for row in alone)
    first = outcome.different[0]
    rows = [f"verdict    {key_text(first.key)} is the first that differs: {first.why}"]
    width = max(len(side) for side in first.sides)
    for side, each in zip(first.sides, (first.first, first.second), strict=True):
        rows.append(f"  {side:<{width}}  {_checksum_text(each)}")
    rows += [f"agree      {told}{rest}", *alone]
    following = outcome.different[1:]
    rows += [f"then       {key_text(each.key)}: {each.why}" for each in following[:MAX_SHOWN]]
    more = len(following) - MAX_SHOWN
    rows += [f"then       {more} more"] if more > 0 else []
    return "\n".join(rows) + "\n"


def _checksum_text(each: Checksum) -> str:
    checksum = "-" if each.checksum is None else f"{each.checksum:016x}"
    odd = "".join(
        f" {name} {count}" for name, count in (("nan", each.nan), ("inf", each.inf)) if count
    )
    placed = f" {' '.join(each.placements)}" if each.placements else ""
    samples = ", ".join(f"{value:.4g}" if isinstance(value, float) else str(value)
                        for value in each.samples[:3])  # fmt: skip
    numbers = f"norm {math.sqrt(each.norm):.6g} largest {each.largest:.6g}{odd} sum {checksum}"
    shown = f" [{cut(samples, 40)}, ...]" if samples else ""
    return f"{tensor_text(each.dtype, each.shape)}{placed} {numbers}{shown}"


def _json(outcome: Comparison) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for each in outcome.different:
        sides = zip(each.sides, (each.first, each.second), strict=True)
        told = [{"of": name, **_checksum_json(one)} for name, one in sides]
        rows.append({**each.key._asdict(), "why": each.why, "sides": told})
    counts = {"agree": outcome.same, "alone": outcome.alone, "undecided": outcome.undecided}
    return {"first": rows[0] if rows else None, "differences": rows, **counts}


def _checksum_json(each: Checksum) -> dict[str, Any]:
    checksum = None if each.checksum is None else f"{each.checksum:016x}"
    return {
        "dtype": each.dtype,
        "shape": list(each.shape),
        "checksum": checksum,
        "norm": math.sqrt(each.norm),
        "largest": each.largest,
        "sum": each.total,
        "nan": each.nan,
        "inf": each.inf,
        "samples": list(each.samples),
        "placements": list(each.placements),
    }
