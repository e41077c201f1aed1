"""The grouped matrix product: rows sorted by group, one matrix per group.

Shape letters: N rows, G groups, I features in, O features out.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def grouped_linear(
    x_NI: Tensor, weight_GOI: Tensor, ends_G: Tensor, use_grouped_mm: bool = True
) -> Tensor:
    """Multiply each group's rows with its matrix, as ``F.linear`` does.

    CUDA's grouped kernel never waits for the CPU; it takes bf16 and widths that are multiples of
    eight. Everything else goes through one product per group.

    Args:
        x_NI: Rows in the order of their groups.
        weight_GOI: One matrix per group.
        ends_G: Where each group's rows end; rows after the last end belong to none.
        use_grouped_mm: Whether the grouped kernel may be used.

    Returns:
        [N, O]. Rows of no group are zero on the CPU and undefined from the grouped kernel.
    """
    if use_grouped_mm and _kernel_takes(x_NI, weight_GOI):
        return F.grouped_mm(x_NI, weight_GOI.transpose(-2, -1), offs=ends_G.to(torch.int32))
    return _group_by_group(x_NI, weight_GOI, ends_G)


def _kernel_takes(x: Tensor, weight: Tensor) -> bool:
    if not x.is_cuda or weight.dtype != torch.bfloat16 or x.dtype != torch.bfloat16:
        return False
    # Its rows are read in pieces of 16 bytes.
    return weight.shape[-1] % 8 == 0 and weight.shape[-2] % 8 == 0


@torch.library.custom_op("archon::group_by_group", mutates_args=())
def _group_by_group(x_NI: Tensor, weight_GOI: Tensor, ends_G: Tensor) -> Tensor:
    ends: list[int] = ends_G.tolist()
    out_NO = x_NI.new_empty(x_NI.shape[0], weight_GOI.shape[1])
    start = 0
    for group, end in enumerate(ends):
        if end > start:
            torch.mm(x_NI[start:end], weight_GOI[group].t(), out=out_NO[start:end])
        start = end
    out_NO[start:].zero_()
    return out_NO


@torch.library.custom_op("archon::group_by_group_backward", mutates_args=())
def _group_by_group_backward(
    grad_NO: Tensor, x_NI: Tensor, weight_GOI: Tensor, ends_G: Tensor
) -> tuple[Tensor, Tensor]:
    ends: list[int] = ends_G.tolist()
    grad_NO = grad_NO.contiguous()
    # Slices written in place: autograd's own products would add up G tensors as large as all
    # weights together.
    grad_x, grad_weight = torch.empty_like(x_NI), torch.empty_like(weight_GOI)
    start = 0
    for group, end in enumerate(ends):
        if end > start:
            rows = slice(start, end)
            torch.mm(grad_NO[rows], weight_GOI[group], out=grad_x[rows])
            torch.mm(grad_NO[rows].t(), x_NI[rows], out=grad_weight[group])
        else:
            grad_weight[group].zero_()
        start = end
    grad_x[start:].zero_()
    return grad_x, grad_weight


@_group_by_group.register_fake
def _(x_NI: Tensor, weight_GOI: Tensor, ends_G: Tensor) -> Tensor:
    return x_NI.new_empty(x_NI.shape[0], weight_GOI.shape[1])


@_group_by_group_backward.register_fake
def _(grad_NO: Tensor, x_NI: Tensor, weight_GOI: Tensor, ends_G: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x_NI), torch.empty_like(weight_GOI)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad_NO: Tensor) -> tuple[Tensor, Tensor, None]:
    x_NI, weight_GOI, ends_G = ctx.saved_tensors
    return *_group_by_group_backward(grad_NO, x_NI, weight_GOI, ends_G), None


_group_by_group.register_autograd(_backward, setup_context=_keep)
