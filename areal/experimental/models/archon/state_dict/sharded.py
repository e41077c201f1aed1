"""The part of a sharded parameter that this process has, filled from whole tensors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from areal.experimental.models.archon.state_dict.copying import place
from areal.experimental.models.archon.state_dict.rules import Piece


class LocalPart:
    """Copies pieces of tensors of the Hub into the local part of one parameter.

    Args:
        tensor: The parameter; every dimension may be sharded, evenly or not.
    """

    def __init__(self, tensor: DTensor) -> None:
        self._local = tensor.to_local()
        sizes, starts = compute_local_shape_and_global_offset(
            tensor.shape, tensor.device_mesh, tensor.placements
        )
        self._shape = tuple(tensor.shape)
        self._cuts = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]

    def wants(self, piece: Piece) -> bool:
        """Return whether a piece touches this part."""
        if self._local.numel() == 0:
            return False
        if not self._cuts:
            return True
        first = self._cuts[0]
        if piece.rows is not None:
            return first.start < piece.rows[1] and piece.rows[0] < first.stop
        return piece.index is None or first.start <= piece.index < first.stop

    def copy_in(self, piece: Piece, tensor: Tensor) -> None:
        """Copy what a piece of a tensor of the Hub gives to this part."""
        if not self.wants(piece):
            return
        if piece.rows is not None:
            self._copy_rows(*piece.rows, tensor)
            return
        if piece.index is None:
            self.copy_whole(_arranged(piece, tensor, self._shape))
            return
        entry = _arranged(piece, tensor, self._shape[1:])
        self._local[piece.index - self._cuts[0].start].copy_(entry[tuple(self._cuts[1:])])

    def _copy_rows(self, start: int, stop: int, tensor: Tensor) -> None:
        """Copy those rows of a tensor, the ones from start to stop, that this part has."""
        own = self._cuts[0]
        first, last = max(own.start, start), min(own.stop, stop)
        rows = tensor[first - start : last - start]
        self._local[first - own.start : last - own.start].copy_(rows[:, *self._cuts[1:]])

    def copy_whole(self, tensor: Tensor) -> None:
        """Copy this part of a whole parameter."""
        if self._local.numel():
            self._local.copy_(tensor[tuple(self._cuts)])


def _arranged(piece: Piece, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return what a piece holds, in the shape that it has in the parameter."""
    if piece.is_same:
        return tensor
    whole = torch.empty(shape, dtype=tensor.dtype)
    place(piece.part_view(whole), piece.hub_view(tensor))
    return whole
