"""Copies between tensors of the Hub and parameters, at the speed of memory where layouts differ."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from areal.experimental.models.archon.state_dict.rules import HubTensor


def copy_in(state: Mapping[str, Tensor], holder: HubTensor, tensor: Tensor) -> None:
    """Copy a tensor of the Hub into those of its parameters that are given."""
    for piece in holder.pieces:
        if piece.archon in state:
            place(piece.archon_view(state[piece.archon]), piece.hub_view(tensor))


def gather(holder: HubTensor, state: Mapping[str, Tensor]) -> Tensor:
    """Return a tensor of the Hub, made from the parameters in it; a view where it is one."""
    source = state[holder.parameters[0]]
    if not holder.pieces:
        return torch.zeros(holder.shape, dtype=source.dtype, device=source.device)
    first = holder.pieces[0]
    if first.is_whole:
        return source
    if first.is_same:
        return first.archon_view(source)
    whole = torch.empty(holder.shape, dtype=source.dtype, device=source.device)
    for piece in holder.pieces:
        place(piece.hub_view(whole), piece.archon_view(state[piece.archon]))
    return whole


def place(target: Tensor, source: Tensor) -> None:
    """Copy a tensor into another one of its shape.

    torch copies a matrix crosswise in blocks only if the target is contiguous and the source is a
    whole transposed matrix; other crosswise copies are several times slower. So what lies crosswise
    is first made a whole matrix.
    """
    target, source = target.squeeze(), source.squeeze()
    if target.dim() < 2 or _is_crosswise(target) == _is_crosswise(source):
        target.copy_(source)
    elif target.dim() > 2:
        for inner, values in zip(target, source, strict=True):
            place(inner, values)
    elif _is_crosswise(source):
        upright = source.T.contiguous().to(target.dtype)
        target.copy_(upright.T)
    else:
        across = target.T
        whole = across if across.is_contiguous() else across.new_empty(across.shape)
        whole.copy_(source.to(target.dtype).T)
        if whole is not across:
            across.copy_(whole)


def _is_crosswise(tensor: Tensor) -> bool:
    """Return whether neighbours in memory are neighbours in a column, not in a row."""
    return 0 < tensor.stride(-2) < tensor.stride(-1)
