"""Find how one tensor follows from others: equal, a sum with coefficients, a choice of columns."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch
from torch import Tensor

TOLERANCE = 2e-5
"""Relative to the norm of what is explained: fp32 rounding through one or two operations."""

# The longest sum in use: a residual and two parallel branches.
MAX_TERMS = 3


def is_close(found: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> bool:
    """Return whether two tensors differ by rounding alone; False where their shapes do."""
    if found.shape != expected.shape:
        return False
    difference = (found.double() - expected.double()).norm()
    return bool(difference <= tolerance * expected.double().norm().clamp_min(1e-12))


def explain(target: Tensor, known: Mapping[str, Tensor]) -> list[tuple[str, float]] | None:
    """Write a tensor as the shortest weighted sum of known ones.

    Args:
        target: Any shape.
        known: Candidates of as many elements, the most recent last; ties go to it.

    Returns:
        Names and coefficients in the order of ``known``; None if no sum of three or fewer fits.
    """
    flat = target.double().flatten()
    columns = {n: t.double().flatten() for n, t in known.items() if t.numel() == flat.numel()}
    names = list(columns)
    # The shortest sum wins: more terms always fit at least as well.
    for count in range(1, min(MAX_TERMS, len(names)) + 1):
        best: tuple[float, list[tuple[str, float]]] | None = None
        for chosen in itertools.combinations(reversed(names), count):
            matrix = torch.stack([columns[n] for n in chosen], dim=1)
            weights = torch.linalg.lstsq(matrix, flat[:, None]).solution[:, 0]
            error = float((matrix @ weights - flat).norm() / flat.norm().clamp_min(1e-12))
            if error > TOLERANCE:
                continue
            # A term that hardly counts explains rounding: the sum is one of fewer terms.
            if float(weights.abs().min()) < 1e-4 * float(weights.abs().max()):
                continue
            # What was normed twice is almost what was normed once: rounding separates them.
            if best is None or error < 0.2 * best[0]:
                order = sorted(range(count), key=lambda i: names.index(chosen[i]))
                best = (error, [(chosen[i], rounded(float(weights[i]))) for i in order])
        if best is not None:
            return best[1]
    return None


def ratio(target: Tensor, source: Tensor) -> float | None:
    """Return the number that makes one tensor the other, None where there is none."""
    if target.shape != source.shape:
        return None
    factor = (target * source).sum() / source.square().sum()  # of least squares
    return rounded(float(factor)) if is_close(source * factor, target) else None


def uncapped(capped: Tensor, cap: float) -> Tensor:
    """Return the numbers of which ``cap * tanh(numbers / cap)`` was taken, in double precision."""
    # The argument stays inside of what rounding makes of 1.
    return cap * torch.atanh((capped.double() / cap).clamp(-1 + 1e-12, 1 - 1e-12))


def rounded(value: float, tolerance: float = 2e-6) -> float:
    """Return a measured number without its noise where it is a short decimal.

    Args:
        tolerance: Relative; above the rounding of fp32 (1.2e-7), and finer than any short decimal.
    """
    for digits in range(1, 6):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= tolerance * abs(value):
            return short
    return value


def match_columns(
    wanted: Tensor, sources: Mapping[str, Tensor], tolerance: float = 1e-5
) -> list[tuple[str, int]] | None:
    """Find each element of one row among the elements of other rows.

    Args:
        wanted: [N].
        sources: Rows by name.

    Returns:
        For each element the source's name and index; None if one has no or no unique match.
    """
    names = list(sources)
    values = torch.cat([sources[n].double().flatten() for n in names])
    owner: list[tuple[str, int]] = [(n, i) for n in names for i in range(sources[n].numel())]
    scale = float(values.abs().mean())
    distance = (wanted.double()[:, None] - values[None, :]).abs()
    best = distance.argmin(dim=1)
    gap = distance.gather(1, best[:, None])[:, 0]
    if float(gap.max()) > tolerance * max(scale, 1e-12):
        return None
    return [owner[int(i)] for i in best]


def match_scaled(
    wanted: Tensor, sources: Mapping[str, Tensor]
) -> tuple[float, list[tuple[str, int]]] | None:
    """Find each element of a row among others, all of them times one positive factor.

    Returns:
        The factor and the matches; None if there are none.
    """
    plain = match_columns(wanted, sources)
    if plain is not None:
        return 1.0, plain
    values = torch.cat([row.double().flatten() for row in sources.values()])
    # Whatever the first element comes from, the factor is its quotient with one of the values.
    factors = float(wanted[0]) / values
    factors = factors[(factors > 1e-3) & (factors < 1e3)]
    # A factor that brings the next elements nowhere need not be tried on all.
    for element in wanted.double()[1:4]:
        distance = (element / factors[:, None] - values[None, :]).abs().amin(dim=1)
        factors = factors[distance < 1e-4 * values.abs().mean()]
    for factor in factors.tolist():
        found = match_columns(wanted / factor, sources)
        if found is not None:
            return rounded(factor), found
    return None


def match_partly_scaled(
    wanted: Tensor, sources: Mapping[str, Tensor]
) -> tuple[float, list[tuple[str, int]]] | None:
    """Find each element of a row among others, as it is or times one factor.

    A rotation of a part of a head scales that part alone.
    """
    values = torch.cat([row.double().flatten() for row in sources.values()])
    scale = float(values.abs().mean())
    row = wanted.double()

    def distance(numbers: Tensor) -> Tensor:
        return (numbers[:, None] - values[None, :]).abs().amin(dim=1)

    plain_gap = distance(row)
    plain = plain_gap < 1e-5 * scale
    if bool(plain.all()) or not bool(plain.any()):
        return None
    first = row[~plain][0]
    for factor in (first / values).tolist():
        if not 1e-3 < factor < 1e3 or abs(factor - 1) < 1e-6:
            continue
        # A scaled number may lie near another one by chance, and nearer to its own.
        undone = torch.where(plain_gap <= distance(row / factor), row, row / factor)
        found = match_columns(undone, sources)
        if found is not None:
            return rounded(factor), found
    return None
