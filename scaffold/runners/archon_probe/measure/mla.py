"""Find how latent attention makes its keys and values from a compressed state.

Shape letters: H heads, T tokens, N dimensions of a head that are not rotated, R that are, V of a
value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from archon_probe.measure.algebra import (
    is_close,
    match_columns,
    match_partly_scaled,
    match_scaled,
    ratio,
)
from archon_probe.measure.attention import norms_under, products_of
from archon_probe.measure.hooks import Call, Trace
from archon_probe.measure.observation import Observed, keep, keep_linear, linear_weight
from archon_probe.measure.roles import UnknownStructureError
from archon_probe.measure.rotary import observe_rotation
from archon_probe.measure.scores import Products, observe_scores


@dataclass
class _Parts:
    """The parts of a module, and what is found of them.

    Args:
        path: Of the module.
        x: [T, width], its input.
        linears: Calls of its linear maps.
        norms: Calls of its norms with what they are.
        observed: The result.
    """

    path: str
    x: Tensor
    linears: list[Call]
    norms: list[tuple[Call, dict[str, Any]]]
    observed: Observed

    def keep(self, name: str, call: Call, feature: str) -> None:
        """Keep a linear map's tensors, and whether it has a bias."""
        self.observed.features[feature] = keep_linear(self.observed.tensors, name, call.module)


def observe_mla(trace: Trace, call: Call, config: Any) -> Observed | None:
    """Describe latent attention; None if keys do not come from a normed latent state.

    Raises:
        UnknownStructureError: They do, and something else cannot be explained.
    """
    products = products_of(trace, call.path)
    leaves = [c for c in trace.under(call.path) if not any(c.module.children())]
    linears = [c for c in leaves if linear_weight(c.module) is not None]
    parts = _Parts(call.path, call.x_rows, linears, norms_under(trace, call), Observed({}))
    expansion = _expansion(parts, products)
    if expansion is None:
        return None
    features = parts.observed.features
    features |= {"kind_of_attention": "mla", "n_heads": len(products.q)}
    features |= {"n_kv_heads": len(products.q), "head_dim": products.q.shape[-1]}
    latent = _keys_and_values(parts, products, expansion)
    factor = _queries(parts, products)
    _rotation(parts, products, latent)
    features |= observe_scores(products, config)
    features["q_multiplier"] = factor
    # The last linear layer whose output is the module's own.
    out = next((c for c in reversed(linears) if is_close(c.y_rows, call.y_rows)), None)
    merged = products.output.transpose(0, 1).reshape(products.output.shape[1], -1)
    if out is None or not is_close(out.x_rows, merged):
        raise UnknownStructureError(
            call.path, "its output is not a projection of what it attends to"
        )
    parts.keep("wo", out, "o_bias")
    return parts.observed


def _expansion(parts: _Parts, products: Products) -> Call | None:
    """Return the linear map that makes values, where its input is no input of the module."""
    wanted = products.v[:, 0].flatten()
    for linear in parts.linears:
        # Plain attention makes its values from the module's input, latent attention from a state.
        if is_close(linear.x_rows, parts.x):
            continue
        if match_columns(wanted, {"y": linear.y_rows[0]}) is not None:
            return linear
    return None


def _keys_and_values(parts: _Parts, products: Products, expansion: Call) -> Call:
    """Describe what keys and values are made of, and return the map to the latent state."""
    features = parts.observed.features
    heads, _, size = products.k.shape
    row = expansion.y_rows[0]
    first = products.k[0, 0]
    values = row.view(heads, -1)
    # Those dimensions of a key that the expanded state has too are not rotated.
    nope = sum(int(bool((values[0] - v).abs().min() < 1e-6 * values.abs().mean())) for v in first)
    width = products.v.shape[-1]
    # Each head's part of the map holds the key that is not rotated, and behind it the value.
    expected = torch.cat([products.k[:, 0, :nope], products.v[:, 0]], dim=-1)
    if not is_close(values, expected):
        raise UnknownStructureError(parts.path, "heads of its expanded state are not key and value")
    features |= {"qk_nope_head_dim": nope, "qk_rope_head_dim": size - nope, "v_head_dim": width}
    parts.keep("wkv_b", expansion, "kv_b_bias")
    given = expansion.x_rows
    norm, kind, factor = _norm_before(parts, given)
    features |= {"kv_norm": {"when": True, **kind}, "kv_lora_rank": given.shape[-1]}
    features["kv_multiplier"] = factor
    keep(parts.observed.tensors, "kv_norm", norm.module)
    latent = next(
        (c for c in parts.linears if is_close(c.y_rows[:, : given.shape[-1]], norm.x_rows)),
        None,
    )
    if latent is None or not is_close(latent.x_rows, parts.x):
        raise UnknownStructureError(parts.path, "its latent state is not a projection of its input")
    parts.keep("wkv_a", latent, "kv_a_bias")
    return latent


def _norm_before(parts: _Parts, given: Tensor) -> tuple[Call, dict[str, Any], float]:
    """Return the norm whose output, times a factor, is what a map gets."""
    for norm, kind in parts.norms:
        if (factor := ratio(given, norm.y_rows)) is not None:
            return norm, kind, factor
    raise UnknownStructureError(parts.path, "a projection of a state that is not normed")


def _queries(parts: _Parts, products: Products) -> float:
    """Describe what queries are made of, and return the factor on them."""
    features = parts.observed.features
    nope = features["qk_nope_head_dim"]
    wanted = products.q[:, 0, :nope].flatten()
    for linear in parts.linears:
        matched = match_scaled(wanted, {"y": linear.y_rows[0]})
        if matched is None:
            continue
        if is_close(linear.x_rows, parts.x):
            # Straight from the hidden states, without a latent state.
            parts.keep("wq", linear, "q_bias")
            features |= {"q_lora_rank": None, "q_norm": {"when": False}}
            return matched[0]
        # Else in three steps: wq_b(norm(wq_a(x))).
        norm, kind, factor = _norm_before(parts, linear.x_rows)
        down = next((c for c in parts.linears if is_close(c.y_rows, norm.x_rows)), None)
        if down is None:
            raise UnknownStructureError(parts.path, "its queries do not come from a latent state")
        parts.keep("wq_b", linear, "q_b_bias")
        parts.keep("wq_a", down, "q_a_bias")
        features |= {"q_lora_rank": norm.y_rows.shape[-1], "q_norm": {"when": True, **kind}}
        keep(parts.observed.tensors, "q_norm", norm.module)
        return matched[0] * factor
    raise UnknownStructureError(parts.path, "its queries are not a projection")


def _rotation(parts: _Parts, products: Products, latent: Call) -> None:
    """Describe the rotation of the rest of each head; pairs may have been put in halves before."""
    features = parts.observed.features
    nope, size = features["qk_nope_head_dim"], features["qk_rope_head_dim"]
    rank = features["kv_lora_rank"]
    before = latent.y_rows[:, rank:]
    after = products.k[:1, :, nope:]  # the same for all heads
    wanted, row = after[0, 0], {"y": before[0]}
    matched = match_scaled(wanted, row) or match_partly_scaled(wanted, row)
    if matched is None:
        raise UnknownStructureError(parts.path, "the rotated part of its keys is not a projection")
    # The first position is not turned, so its values show the order alone.
    order = [i for _, i in matched[1]]
    halves = [*range(0, size, 2), *range(1, size, 2)]
    if order not in (list(range(size)), halves):
        raise UnknownStructureError(parts.path, f"the rotated part of its keys is in order {order}")
    pair = (before[:, torch.tensor(order)][None], after)
    found = observe_rotation(pair, pair)
    if found is None:
        raise UnknownStructureError(parts.path, "a part of its keys is neither rotated nor kept")
    # Put in halves before it turns, as a table of interleaved pairs needs it.
    if order == halves and size > 2:
        found["pairing"] = "interleaved"
    features["temperature"] = {"when": False}
    found.pop("temperature")
    features["rope"] = found
