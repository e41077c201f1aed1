"""Explain how a tensor of a checkpoint is made from parameters, by trying one way after another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from archon_probe.weight_rules.merge import EVERY_ROW
from archon_probe.weight_rules.values import ValueIndex

# Sizes by which blocks of rows are most often counted, so that these names come first.
_USUAL_GROUPS = ("n_kv_heads", "n_heads")


@dataclass
class Match:
    """How one tensor on the Hub holds parameters.

    Args:
        parts: Names of the parameters, in order.
        entry: Which entry of the parameters' first dimension it fills; None for all of them.
        rows: Which rows of the parameter it is, from the first to before the second number.
        options: Of the rule.
        candidates: Names for the number of groups, the most likely first.
    """

    rule: str
    parts: list[str]
    entry: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    candidates: list[Any] = field(default_factory=list)
    rows: tuple[int, int] | None = None


def explain(
    tensor: Tensor, index: ValueIndex, sizes: Mapping[str, Any], layer: int | None
) -> Match | None:
    """Return how a tensor holds parameters, or None where no rule does."""
    owners, places = index.look_up(tensor)
    known = owners[owners >= 0]
    if not known.numel():
        return None
    order = list(dict.fromkeys(known.flatten().tolist()))  # in the order of appearance
    parts = [index.names[owner] for owner in order]
    values = tensor.detach().double()
    wholes = [index.tensors[owner] for owner in order]
    if direct := _arranged(values, wholes, sizes, layer):
        return Match(direct.rule, parts, None, direct.options, direct.candidates)
    if len(wholes) == 1 and (rows := _rows_of(values, wholes[0], places)):
        return Match("Split", parts, rows=rows)
    entries = [_entry(owners, places, owner, index) for owner in order]
    if None in entries or len(set(entries)) != 1:
        return None
    entry = entries[0]
    inner = _arranged(values, [whole[entry] for whole in wholes], sizes, layer)
    return inner and Match(inner.rule, parts, entry, inner.options, inner.candidates)


def _rows_of(tensor: Tensor, whole: Tensor, places: Tensor) -> tuple[int, int] | None:
    """Return which rows of a parameter a tensor is, from the first to before the second number."""
    if tensor.dim() == 0 or tensor.shape[1:] != whole.shape[1:] or len(tensor) >= len(whole):
        return None
    # Some values may occur twice by chance; any other one shows where the tensor begins.
    known = int((places >= 0).flatten().nonzero()[0])
    start = (int(places.flatten()[known]) - known) // whole[0].numel()
    rows = (start, start + len(tensor))
    return rows if torch.equal(whole[slice(*rows)], tensor) else None


def _entry(owners: Tensor, places: Tensor, owner: int, index: ValueIndex) -> int | None:
    """Return the only entry of a parameter's first dimension that a tensor has values of."""
    whole = index.tensors[owner]
    if whole.dim() < 2:
        return None
    entries = (places[owners == owner] // whole[0].numel()).unique()
    return int(entries[0]) if len(entries) == 1 else None


def _arranged(
    tensor: Tensor, parts: Sequence[Tensor], sizes: Mapping[str, Any], layer: int | None
) -> Match | None:
    """Return the rule by which a tensor is made from all of some parameters."""
    if sum(part.numel() for part in parts) != tensor.numel():
        return None
    if len(parts) > 1:
        return _fused(tensor, parts, sizes, layer)
    part = parts[0]
    # The simplest rule first: a square or symmetric tensor would fit several.
    if torch.equal(tensor, part):
        return Match("Rename", [])
    if part.dim() == tensor.dim() >= 2 and torch.equal(tensor.transpose(-2, -1), part):
        return Match("Transposed", [])
    for axis in range(tensor.dim()):
        if tensor.dim() == part.dim() + 1 and torch.equal(tensor.squeeze(axis), part):
            return Match("Unsqueezed", [], options={"axis": axis} if axis else {})
    if part.dim() == 3 and tensor.dim() == 2:
        if torch.equal(tensor, part.flatten(0, 1)):
            return Match("Flattened", [])
        if torch.equal(tensor, part.transpose(1, 2).flatten(0, 1)):
            return Match("Flattened", [], options={"transposed": True})
    return None


def _fused(
    tensor: Tensor, parts: Sequence[Tensor], sizes: Mapping[str, Any], layer: int | None
) -> Match | None:
    """Return how rows of several parameters follow each other in a tensor."""
    for transposed in (False, True) if tensor.dim() >= 2 else (False,):
        upright = tensor.transpose(-2, -1) if transposed else tensor
        for axis in range(tensor.dim()):
            groups = _groups(upright, parts, axis)
            if groups is not None:
                rows = [part.shape[axis] for part in parts]
                options = {"axis": axis} if axis else {}
                options |= {"transposed": True} if transposed else {}
                # What the number of groups can be called, the most likely name first.
                names: list[Any] = [EVERY_ROW] if set(rows) == {groups} and groups > 1 else []
                named = _names_of(groups, sizes, layer)
                names += [1, *named] if groups == 1 else [*named, groups]
                return Match("Fused", [], None, options, names)
    return None


def _groups(tensor: Tensor, parts: Sequence[Tensor], axis: int) -> int | None:
    """Return into how many blocks, each with a share of every part, an axis is divided."""
    if any(part.dim() != tensor.dim() for part in parts):
        return None
    rest = {(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts}
    if rest != {(*tensor.shape[:axis], *tensor.shape[axis + 1 :])}:
        return None
    rows = [part.shape[axis] for part in parts]
    most = math.gcd(*rows)
    for groups in (n for n in range(1, most + 1) if most % n == 0):
        blocks = [
            p.unflatten(axis, (groups, n // groups)) for p, n in zip(parts, rows, strict=True)
        ]
        if torch.equal(torch.cat(blocks, axis + 1).flatten(axis, axis + 1), tensor):
            return groups
    return None


def _names_of(number: int, sizes: Mapping[str, Any], layer: int | None) -> list[str]:
    """Return the arguments that have a value, those that usually count groups first."""

    def size(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return value[layer] if layer is not None and layer < len(value) else None

    equal = [name for name in sizes if size(sizes[name]) == number]
    return sorted(
        equal, key=lambda n: _USUAL_GROUPS.index(n) if n in _USUAL_GROUPS else len(_USUAL_GROUPS)
    )
