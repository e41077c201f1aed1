"""What a benchmark found: our number, the reference's beside it, and the target."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.targets import TARGETS, Target


@dataclass(frozen=True)
class Result:
    """One line of the table.

    Args:
        key: Name in ``TARGETS``; without a target a result has no verdict.
        what: What was measured, for a person.
        ours: Measured here; None where it could not be measured.
        unit: Of ``ours`` and ``reference``.
        reference: What the other package needs or reaches, None where there is none.
        reference_name: Which package, and how it ran.
        is_higher_better: Whether a larger number is the better one.
        note: Spread, conditions, or why a number is missing.
        given_target: Of a result whose benchmark keeps its own targets.
    """

    key: str
    what: str
    ours: float | None
    unit: str
    reference: float | None = None
    reference_name: str = ""
    is_higher_better: bool = True
    note: str = ""
    given_target: Target | None = None

    @property
    def ratio(self) -> float | None:
        """How many times better ours is than the reference; above 1 is better."""
        if self.ours is None or self.reference is None:
            return None
        high, low = (
            (self.ours, self.reference) if self.is_higher_better else (self.reference, self.ours)
        )
        return high / low if low else None

    @property
    def target(self) -> Target | None:
        return self.given_target or TARGETS.get(self.key)

    @property
    def verdict(self) -> str:
        """ "pass", "FALLS SHORT", "not measured", or "" where there is no target."""
        if self.target is None:
            return ""
        judged = self.ratio if self.target.on == "ratio" else self.ours
        if judged is None:
            return "not measured"
        return "pass" if self.target.is_met(judged) else "FALLS SHORT"

    def to_json(self) -> dict[str, Any]:
        """Return everything that the table shows, as JSON can hold it."""
        fields = dataclasses.asdict(self)
        del fields["given_target"]
        target = None if self.target is None else dataclasses.asdict(self.target)
        return fields | {"ratio": self.ratio, "target": target, "verdict": self.verdict}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Result:
        """Return the result that ``to_json`` wrote."""
        names = {field.name for field in dataclasses.fields(cls)}
        fields = {name: value for name, value in row.items() if name in names}
        target = None if row["target"] is None else Target(**row["target"])
        return cls(**fields, given_target=target)


def missed(results: Sequence[Result]) -> list[Result]:
    """Return the results that fall short of their target."""
    return [result for result in results if result.verdict == "FALLS SHORT"]


def format_table(results: Sequence[Result]) -> str:
    """Return the results as text columns, with a line of notes below those that have one."""
    head = ["", "measured", "beside it", "ratio", "target", "verdict"]
    rows = [_cells(result) for result in results]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [_line(head, widths), "  ".join("-" * width for width in widths)]
    for result, row in zip(results, rows, strict=True):
        lines.append(_line(row, widths))
        if result.note:
            lines.append(f"    {result.note}")
    return "\n".join(lines)


def _cells(result: Result) -> list[str]:
    reference = ""
    if result.reference is not None:
        reference = f"{format_number(result.reference)} {result.reference_name}"
    return [
        result.what,
        "-" if result.ours is None else f"{format_number(result.ours)} {result.unit}".rstrip(),
        reference,
        "" if result.ratio is None else f"{result.ratio:.2f}x",
        "" if result.target is None else result.target.text(result.unit),
        result.verdict,
    ]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([first, *others]).rstrip()


def format_number(value: float) -> str:
    """Return a number with about three significant digits: 24,029 or 0.0836 or 2.4e-06."""
    magnitude = abs(value)
    if magnitude >= 1000:
        return f"{value:,.0f}"
    if magnitude >= 100 or value == int(value):
        return f"{value:.0f}"
    if magnitude >= 1e-3:
        return f"{value:.3g}"
    return f"{value:.1e}"
