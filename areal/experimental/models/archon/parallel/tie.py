"""Keeps an output head that is the token embedding the same parameter through every change.

Stages of a pipeline have a copy each: both get the sum of both gradients, so they stay equal.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


def is_tied(model: nn.Module) -> bool:
    """Return whether the head's weight is the embedding's, where this part of a model has both."""
    embedding, head = _weights(model)
    return embedding is not None and embedding is head


def retie(model: nn.Module) -> None:
    """Make the head's weight the embedding's again, as distributing or wrapping makes two."""
    model.output._parameters["weight"] = model.tok_embeddings._parameters["weight"]


def _weights(model: nn.Module) -> tuple[nn.Parameter | None, nn.Parameter | None]:
    modules = (getattr(model, name, None) for name in ("tok_embeddings", "output"))
    embedding, head = (None if m is None else m._parameters["weight"] for m in modules)
    return embedding, head


def copied_head(head: nn.Module) -> nn.Module:
    """Return a head with a weight of its own, for a stage that has no embedding."""
    found = copy.copy(head)
    weight = found._parameters["weight"]
    assert weight is not None
    found._parameters = {**head._parameters, "weight": nn.Parameter(weight.detach().clone())}
    return found


def tie_stages(parts: Iterable[nn.Module], first: int, last: int) -> None:
    """Note that an embedding and a head on two stages are one parameter.

    Args:
        parts: The stages of this process, already split along other axes.
        first: The process of the pipeline that has the embedding.
        last: The process that has the head.
    """
    for part in parts:
        if part.tok_embeddings is not None or part.output is not None:
            part.tied_stages = (first, last)
        if part.output is not None:
            part.output.weight.is_copy = True


def is_copy(parameter: nn.Parameter) -> bool:
    """Return whether a parameter is counted on another stage already."""
    return getattr(parameter, "is_copy", False)


@torch.no_grad()
def sum_tied_gradients(parts: Sequence[nn.Module], pp_group: dist.ProcessGroup) -> None:
    """Give an embedding and a head that are one parameter the sum of their gradients.

    Call it once, when all gradients of a step are there.

    Args:
        parts: The stages of this process.
        pp_group: The processes of the pipeline.
    """
    ends = [part for part in parts if getattr(part, "tied_stages", None)]
    if not ends:
        return
    first, last = ends[0].tied_stages
    own = [_local_gradient(part) for part in ends]
    if first == last:
        own[0].add_(own[1])
        own[1].copy_(own[0])
        return
    peer = last if pp_group.rank() == first else first
    sent, received = own[0].contiguous(), torch.empty_like(own[0]).contiguous()
    operations = [
        dist.P2POp(dist.isend, sent, group=pp_group, group_peer=peer),
        dist.P2POp(dist.irecv, received, group=pp_group, group_peer=peer),
    ]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    own[0].add_(received)


def _local_gradient(part: nn.Module) -> Tensor:
    module = part.output if part.tok_embeddings is None else part.tok_embeddings
    gradient = module.weight.grad
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient
