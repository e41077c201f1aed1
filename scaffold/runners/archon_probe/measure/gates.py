"""Find a gate on the attention's result.

Shape letters: H heads, T tokens, D size of a head.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archon_probe.measure.algebra import is_close
from archon_probe.measure.hooks import Call
from archon_probe.measure.observation import keep_linear

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "silu": F.silu,
    "tanh": torch.tanh,
}


def observe_gate(
    call: Call, output: Tensor, given: Tensor, linears: list[Call]
) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Describe the gate between attention's result and the output projection.

    Args:
        call: Of the attention module.
        output: [H, T, D], probabilities times values.
        given: [T, H * D], what the output projection got.
        linears: Linear maps inside the module.

    Returns:
        ``when``, ``fn``, ``per`` (head or dim), ``bias``, and the tensors of "gate"; None if no
        linear map of the module's input gates the result.
    """
    heads, length, size = output.shape
    # [T, H, D], as the projection sees it.
    merged = output.transpose(0, 1)
    in_part = _in_wider_map(call, merged.reshape(length, -1), given, linears)
    if in_part is not None:
        return in_part
    # A bias may be a parameter of the attention module and not of the map.
    own = {n: p.detach() for n, p in call.module.named_parameters(recurse=False)}
    biases = [("", None), *((name, bias) for name, bias in own.items() if bias.shape == (heads,))]
    for linear in linears:
        logits = linear.y.reshape(length, -1)
        if not is_close(linear.x.reshape(length, -1), call.x.reshape(length, -1)):
            continue
        # One number for a head, or one for each of its dimensions.
        per = {heads: "head", heads * size: "dim"}.get(logits.shape[-1])
        if per is None:
            continue
        # [T, H, 1] for a gate per head, [T, H, D] for one per dimension: both broadcast.
        shaped = logits.view(length, heads, -1)
        for (name, bias), (fn, function) in itertools.product(biases, FUNCTIONS.items()):
            biased = shaped if bias is None else shaped + bias[None, :, None]
            if is_close((merged * function(biased)).reshape(length, -1), given):
                tensors = {} if bias is None else {"gate_bias": bias}
                has_bias = keep_linear(tensors, "gate", linear.module)
                options = {"fn": fn, "per": per, "bias": has_bias, "head_bias": bool(name)}
                return {"when": True, **options}, tensors
    return None


def _in_wider_map(
    call: Call, merged: Tensor, given: Tensor, linears: list[Call]
) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Describe a gate that is a part of what a wider linear map gives, as queries beside it are."""
    share = (given.double() / merged.double()).nan_to_num()
    # Where the result is next to nothing the share is noise; the median token is not.
    wanted = torch.logit(share.clamp(1e-9, 1 - 1e-9))
    for linear in linears:
        logits = linear.y.reshape(len(merged), -1)
        if logits.shape[-1] <= merged.shape[-1] or linear.x.shape != call.x.shape:
            continue
        # [N, out]: how far each dimension of the gate is from each output of the map.
        apart = (wanted[:, :, None] - logits.double()[:, None, :]).abs().median(dim=0).values
        columns = apart.argmin(dim=-1)
        if is_close(merged * torch.sigmoid(logits[:, columns]), given):
            tensors: dict[str, Tensor] = {}
            has_bias = keep_linear(tensors, "gate", linear.module, columns)
            options = {"fn": "sigmoid", "per": "dim", "bias": has_bias, "head_bias": False}
            return {"when": True, **options}, tensors
    return None
