"""Find how a dense feed-forward block computes its output.

Shape letters: T tokens, F inner features.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN

from archon_probe.measure.algebra import is_close, ratio
from archon_probe.measure.hooks import Call
from archon_probe.measure.norm import norm_giving
from archon_probe.measure.observation import Observed, keep, keep_linear, linear_weight
from archon_probe.measure.roles import UnknownStructureError


def observe_mlp(calls: list[Call], inner: list[Call], config: Any) -> Observed:
    """Describe a block of linear maps with an activation between them.

    Args:
        calls: The block's own calls: one module, or its linear maps one after the other.
        inner: All calls under them, and themselves.
        config: Of several names for one activation, the one it uses is reported.

    Returns:
        ``gated``, ``activation``, ``hidden_dim``, biases of w1, w2, w3, ``inner_norm``, multipliers
        before the activation and of the result; the tensors w1 (activated), w3 (multiplied, where
        gated) and w2.

    Raises:
        UnknownStructureError: It computes something else.
    """
    path = calls[0].path
    x, y = calls[0].x_rows, calls[-1].y_rows
    linears = [c for c in inner if linear_weight(c.module) is not None]
    downs = [(c, factor) for c in linears if (factor := ratio(y, c.y_rows)) is not None]
    ups = [c for c in linears if is_close(c.x_rows, x)]
    if not downs or not ups:
        raise UnknownStructureError(path, "no linear map of its input, or none to its output")
    down, multiplier = downs[-1]  # an inner map may return the same where nothing follows it
    given = down.x_rows
    # What the last map gets: the product of gate and up, or what a norm makes of it.
    features: dict[str, Any] = {"inner_norm": {"when": False}, "hidden_dim": given.shape[-1]}
    features["down_multiplier"] = multiplier
    tensors: dict[str, Tensor] = {}
    if (norm := norm_giving(inner, given)) is not None:
        call, features["inner_norm"] = norm
        keep(tensors, "inner_norm", call.module)
        given = call.x_rows
    modules = [c.module for c in inner]
    options = list(activations(modules, config))
    # One of the numbers that modules keep may multiply what is activated.
    kept = [v for m in modules for v in vars(m).values() if isinstance(v, float) and v]
    factors = dict.fromkeys([1.0, *kept])
    for first, (name, function, parameters) in itertools.product(factors, options):
        found = _combination(function, ups, given, first)
        if found is None:
            continue
        features["first_multiplier"] = first
        tensors |= {f"act.{n}": p for n, p in parameters.items()}
        for part, (linear, rows) in found.items():
            features[f"{part}_bias"] = keep_linear(tensors, part, linear.module, rows)
        features |= {"gated": "w3" in found, "activation": name}
        features["w2_bias"] = keep_linear(tensors, "w2", down.module)
        return Observed(features, tensors)
    raise UnknownStructureError(path, "its activation is unknown, gated or not")


def activations(
    modules: list[nn.Module], config: Any
) -> Iterator[tuple[str, Any, dict[str, Tensor]]]:
    """Yield activations by the names of configurations, those with weights of their own first."""
    for module in modules:
        own = {n: p.detach() for n, p in module.named_parameters(recurse=False)}
        state = dict(module.named_buffers(recurse=False))
        for name, factory in ACT2FN.items():
            kind = factory[0] if isinstance(factory, tuple) else factory
            # An activation with weights is called through the module that holds them.
            if own and isinstance(kind, type) and type(module) is kind:
                yield name, module, own | state
    # Several names mean one function: the one that the configuration uses wins.
    used = [v for v in config.to_dict().values() if isinstance(v, str) and v in ACT2FN]
    for name in dict.fromkeys([*used, *ACT2FN]):
        function = ACT2FN[name]
        if any(True for _ in function.parameters()):
            continue
        yield name, function, {}


@torch.no_grad()
def _combination(
    function: Any, ups: list[Call], given: Tensor, factor: float
) -> dict[str, tuple[Call, Any]] | None:
    """Return which rows of which linear map are activated, and which multiply the result.

    Args:
        function: The activation.
        ups: Calls of the maps.
        given: What it has to be.
        factor: Of what is activated.
    """
    width = given.shape[-1]
    pieces: list[tuple[Call, Any, Tensor]] = []
    for call in ups:
        y = call.y_rows
        if y.shape[-1] == width:
            pieces.append((call, slice(None), y))
        if y.shape[-1] == 2 * width:
            # Gate and up in one map: side by side, or row by row in turns.
            halves = (slice(0, width), slice(width, None), slice(0, None, 2), slice(1, None, 2))
            pieces += [(call, rows, y[:, rows]) for rows in halves]
    try:
        activated = [function(y * factor if factor != 1 else y) for _, _, y in pieces]
    except (RuntimeError, TypeError, AttributeError):
        return None  # an activation that needs more than numbers
    for (call, rows, _), a in zip(pieces, activated, strict=True):
        # Without a second factor first: a plain feed-forward is the simpler reading.
        if is_close(a, given):
            return {"w1": (call, rows)}
    for (call, rows, _), a in zip(pieces, activated, strict=True):
        for other, other_rows, y in pieces:
            if is_close(a * y, given):
                return {"w1": (call, rows), "w3": (other, other_rows)}
    return None
