"""Report what no rule explains, with the candidate that comes nearest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from archon_probe.weight_rules.values import ValueIndex

Problem = dict[str, Any]


def repeated_values(archon: Mapping[str, Tensor], index: ValueIndex) -> list[Problem]:
    """Return a problem for each parameter whose values do not show where they went."""
    return [
        {
            "side": "archon",
            "name": name,
            "shape": list(archon[name].shape),
            "why": "its values are not distinct, so it cannot be matched by value",
        }
        for name in index.names
        # A few values meet by accident; with half of them repeated no match is certain.
        if index.share_known(archon[name]) < 0.5
    ]


def unknown_tensor(name: str, tensor: Tensor, index: ValueIndex) -> Problem:
    """Return a problem with a tensor of a checkpoint that names the nearest parameter."""
    owners, _ = index.look_up(tensor)
    shares = {index.names[int(o)]: int((owners == o).sum()) for o in owners.unique() if o >= 0}
    # Random values meet by accident; what was taken from a parameter shares a good part of it.
    shares = {name: n for name, n in shares.items() if n > tensor.numel() / 20}
    if not shares:
        return unexplained("hub", name, tensor, dict(zip(index.names, index.tensors, strict=True)))
    why = f"shares values, but in an order that no rule covers: {shares} of {owners.numel()}"
    nearest = max(shares, key=lambda n: shares[n])
    shape = list(tensor.shape)
    return {"side": "hub", "name": name, "shape": shape, "nearest": nearest, "why": why}


def unexplained(side: str, name: str, tensor: Tensor, pool: Mapping[str, Tensor]) -> Problem:
    """Return a problem that names the nearest candidate."""
    nearest, distance, relation = _nearest(tensor.double(), pool)
    why = relation or f"values differ by {distance:.3g}"
    why = "no weight has its shape" if nearest is None else why
    shape = list(tensor.shape)
    return {"side": side, "name": name, "shape": shape, "nearest": nearest, "why": why}


def _nearest(tensor: Tensor, pool: Mapping[str, Tensor]) -> tuple[str | None, float, str | None]:
    """Return the tensor of equal shape that differs least, by how much, and what relates them."""
    best: tuple[str | None, float, str | None] = (None, math.inf, None)
    for name, other in pool.items():
        if other.shape != tensor.shape:
            continue
        other = other.double()
        distance = float((other - tensor).abs().mean()) if tensor.numel() else 0.0
        relation = _relation(tensor, other)
        if relation or (distance < best[1] and not best[2]):
            best = (name, distance, relation)
    return best


def _relation(tensor: Tensor, other: Tensor) -> str | None:
    """Return how all values of one tensor follow from another's: by adding or multiplying."""
    if tensor.numel() < 2:
        return None
    difference, ratio = other - tensor, other / tensor
    # One constant between all elements, such as a norm that stores its weight minus 1.
    if float(difference.std()) < 1e-6:
        return f"it is {-float(difference.mean()):+.6g} from it everywhere"
    if float(ratio.std()) < 1e-5 * float(ratio.mean().abs()):
        return f"it is {1 / float(ratio.mean()):.6g} times it everywhere"
    return None


def grouped(problems: Sequence[Problem]) -> list[Problem]:
    """Return one problem for all layers and experts that have it, with their number."""
    found: dict[tuple[str, str, str], list[Problem]] = {}
    for problem in problems:
        pattern = in_layers(problem["name"])
        key = (problem["side"], pattern, repr(problem.get("shape")))
        found.setdefault(key, []).append(problem)
    return [
        same[0] if len(same) == 1 else same[0] | {"name": pattern, "count": len(same)}
        for (_, pattern, _), same in found.items()
    ]


def in_layers(name: str) -> str:
    """Return a name with a placeholder for each of its numbers."""
    return ".".join("{}" if part.isdigit() else part for part in name.split("."))


def named(name: str, why: str) -> Problem:
    return {"side": "hub", "name": name, "why": why}
