"""An index from values to the parameters that have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class ValueIndex:
    """The parameter that has a value, and where, for each value."""

    def __init__(self, archon: Mapping[str, Tensor]) -> None:
        self.twins = twins_of(archon)
        self.names = [name for name in archon if name not in self.twins]
        self.tensors = [archon[name].detach().double() for name in self.names]
        sizes = torch.tensor([tensor.numel() for tensor in self.tensors], dtype=torch.long)
        values = torch.cat([tensor.flatten() for tensor in self.tensors])
        owners = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        starts = torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
        places = torch.arange(len(values)) - starts
        # Sorted once, so that each look-up is a binary search over all parameters.
        self._values, order = values.sort(stable=True)
        self._owners, self._places = owners[order], places[order]
        # Equal neighbours in the sorted values occur more than once.
        same = self._values[1:] == self._values[:-1]
        self._is_repeated = torch.zeros(len(values), dtype=torch.bool)
        self._is_repeated[1:] |= same
        self._is_repeated[:-1] |= same

    def look_up(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Return parameter and place of each element, -1 where none or several have the value."""
        tensor = tensor.detach().double().contiguous()
        at = torch.searchsorted(self._values, tensor).clamp(max=len(self._values) - 1)
        is_known = (self._values[at] == tensor) & ~self._is_repeated[at]
        unknown = torch.tensor(-1)
        return (
            torch.where(is_known, self._owners[at], unknown),
            torch.where(is_known, self._places[at], unknown),
        )

    def share_known(self, tensor: Tensor) -> float:
        """Return which share of a parameter's values occurs nowhere else."""
        return float((self.look_up(tensor)[0] >= 0).double().mean()) if tensor.numel() else 1.0


def twins_of(archon: Mapping[str, Tensor]) -> dict[str, str]:
    """Return parameters whose values are all those of an earlier one, to that one."""
    twins: dict[str, str] = {}
    # Shape and first value rule out most pairs, so that few tensors are compared as a whole.
    by_head: dict[Any, list[str]] = {}
    for name, tensor in archon.items():
        if not tensor.numel():
            continue
        key = (tuple(tensor.shape), float(tensor.flatten()[0]))
        first = next((n for n in by_head.get(key, []) if torch.equal(archon[n], tensor)), None)
        if first is not None and tensor.unique().numel() > 1:
            twins[name] = first
        by_head.setdefault(key, []).append(name)
    return twins
