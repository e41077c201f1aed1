"""Find a gate on the attention's result.

Shape letters: H heads, T tokens, D size of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archon_probe.measure.algebra import is_close
from archon_probe.measure.hooks import Call

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
    own: dict[str, Any] = {n: p.detach() for n, p in call.module.named_parameters(recurse=False)}
    for linear in linears:
        logits = linear.y.reshape(length, -1)
        if not is_close(linear.x.reshape(length, -1), call.x.reshape(length, -1)):
            continue
        # One number for a head, or one for each of its dimensions.
        for per, width in (("head", heads), ("dim", heads * size)):
            if logits.shape[-1] != width:
                continue
            # [T, H, 1] for a gate per head, [T, H, D] for one per dimension: both broadcast.
            shaped = logits.view(length, heads, -1)
            # A bias may be a parameter of the attention module and not of the map.
            for name, bias in [("", None), *own.items()]:
                if bias is not None and bias.shape != (heads,):
                    continue
                biased = shaped if bias is None else shaped + bias[None, :, None]
                for fn, function in FUNCTIONS.items():
                    result = (merged * function(biased)).reshape(length, -1)
                    if not is_close(result, given):
                        continue
                    feature: dict[str, Any] = {"when": True, "fn": fn, "per": per}
                    tensors = {"gate.weight": linear.module.weight.detach()}
                    feature["bias"] = getattr(linear.module, "bias", None) is not None
                    if feature["bias"]:
                        tensors["gate.bias"] = linear.module.bias.detach()
                    feature["head_bias"] = bool(name)
                    if name:
                        tensors["gate_bias"] = bias
                    return feature, tensors
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
            bias = getattr(linear.module, "bias", None)
            feature = {"when": True, "fn": "sigmoid", "per": "dim"}
            feature |= {"bias": bias is not None, "head_bias": False}
            tensors = {"gate.weight": linear.module.weight.detach()[columns]}
            if bias is not None:
                tensors["gate.bias"] = bias.detach()[columns]
            return feature, tensors
    return None
