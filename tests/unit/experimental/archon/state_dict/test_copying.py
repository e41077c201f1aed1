"""Copies between any two layouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from areal.experimental.models.archon.state_dict.copying import place

SHAPES = [(), (5,), (4, 6), (3, 4, 6), (2, 3, 4, 6), (4, 1, 6), (1, 1)]
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda t: t,
    "crosswise": lambda t: t.transpose(-2, -1).contiguous().transpose(-2, -1),
    "part of crosswise": lambda t: torch.cat([t, t], -2).mT.contiguous().mT[..., : t.shape[-2], :],
    "every other column": lambda t: torch.stack([t, t], -1)[..., 0],
    "every other row": lambda t: torch.stack([t, t], -2)[..., 0, :],
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("source_layout", LAYOUTS)
@pytest.mark.parametrize("target_layout", LAYOUTS)
def test_every_value_arrives(
    shape: tuple[int, ...], source_layout: str, target_layout: str
) -> None:
    values = torch.randn(shape).double()
    of = LAYOUTS if len(shape) >= 2 else dict.fromkeys(LAYOUTS, LAYOUTS["rows"])
    source = of[source_layout](values)
    for dtype in (torch.float64, torch.float32):
        target = of[target_layout](torch.zeros(shape, dtype=dtype))
        place(target, source)
        assert torch.equal(target, values.to(dtype))
