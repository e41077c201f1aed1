"""Find how scores follow from queries and keys: scale, cap, mask, sinks, position bias.

Shape letters: H heads, T tokens, D size of a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from archon_probe.measure.algebra import is_close, ratio, rounded, uncapped
from archon_probe.measure.roles import UnknownStructureError

MASKED = -1e4
"""What is below it is no score: masks are -inf, the smallest number, or -10,000."""


@dataclass
class Products:
    """The core of one attention call, as the model computed it.

    Args:
        q: [H, T, D], as multiplied with the keys.
        k: [H, T, D], repeated for the heads that share it.
        v: [H, T, D].
        scores: [H, T, T or more], what the softmax got.
        output: [H, T, D], probabilities times values.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scores: Tensor
    output: Tensor


def observe_scores(products: Products, config: Any) -> dict[str, Any]:
    """Describe what comes between the product of queries and keys and the softmax.

    Args:
        products: Of one attention call.
        config: Its numbers are tried as caps.

    Returns:
        ``scale``, ``softcap``, ``window`` and ``chunk`` (None without), ``sinks``, ``alibi``, and
        ``causal`` where tokens see later ones.

    Raises:
        UnknownStructureError: No combination of them gives the scores.
    """
    length = products.q.shape[1]
    # In double precision, so that what is left is the rounding of the model alone.
    raw = products.q.double() @ products.k.double().transpose(-1, -2)
    extra = products.scores.shape[-1] - length
    scores = products.scores[..., :length].double()
    visible = scores > MASKED
    features: dict[str, Any] = {"sinks": {"when": extra == 1}, "softcap": None}
    features |= _mask(visible)
    features["alibi"] = {"when": False}
    if extra == 1:
        # Sinks come with the row's maximum taken off, which a softmax does not see.
        scores = _beside_sinks(scores - products.scores[..., -1:].double(), raw, visible)
    x, y = raw[visible], scores[visible]
    if (plain := ratio(y, x)) is not None:
        return features | {"scale": plain}
    for cap in config_numbers(config):
        if cap <= float(y.abs().max()):
            continue  # capped scores stay below the cap
        inner = uncapped(y, cap)
        scale = float((x * inner).sum() / x.square().sum())
        if is_close(cap * torch.tanh(x * scale / cap), y):
            return features | {"scale": rounded(scale), "softcap": cap}
    bias = _position_bias(raw, scores, visible)
    if bias is not None:
        return features | bias
    raise UnknownStructureError("attention", "scores are not scaled, capped or biased product")


def _beside_sinks(scores: Tensor, raw: Tensor, visible: Tensor) -> Tensor:
    """Add the sink of each head back to scores that it was taken off.

    Beside it they are scaled products, so it is what is off in a head, whatever a row holds.
    """
    counts = visible.sum((-1, -2), keepdim=True)
    means = [torch.where(visible, x, 0).sum((-1, -2), keepdim=True) / counts for x in (raw, scores)]
    dx, dy = (raw - means[0])[visible], (scores - means[1])[visible]
    scale = (dx * dy).sum() / dx.square().sum()
    return scores - means[1] + scale * means[0]


def _mask(visible: Tensor) -> dict[str, Any]:
    """Read window or chunk off what each token sees; all heads see the same.

    Raises:
        UnknownStructureError: It is neither, or a token sees nothing, not even itself.
    """
    length = visible.shape[-1]
    seen = visible[0]
    if not bool(visible.any(-1).all()):
        # No score is left that shows a scale, and a softmax of such a row mixes what is masked.
        raise UnknownStructureError("attention", "a token sees no key at all")
    if not bool((visible == seen).all()):
        raise UnknownStructureError("attention", "heads see different keys")
    query = torch.arange(length)[:, None]
    key = torch.arange(length)[None, :]
    if bool((seen == (key <= query)).all()):
        return {"window": None, "chunk": None}
    if bool(seen[0, 1:].any()):
        return {"window": _reach(seen), "chunk": None, "causal": False}
    width = int(seen[-1].sum())
    if bool((seen == ((key <= query) & (query - key < width))).all()):
        return {"window": width, "chunk": None}
    for chunk in range(1, length):
        if bool((seen == ((key <= query) & (query // chunk == key // chunk))).all()):
            return {"window": None, "chunk": chunk}
    raise UnknownStructureError("attention", "tokens see neither all before, a window nor a chunk")


def _reach(seen: Tensor) -> int | None:
    """Return how many keys of one side, its own included, a token sees that looks both ways.

    Raises:
        UnknownStructureError: It is not the same for all tokens, or not on both sides.
    """
    if bool(seen.all()):
        return None
    token = torch.arange(len(seen))
    width = int(seen[0].sum())
    if bool((seen == ((token[:, None] - token[None, :]).abs() < width)).all()):
        return width
    raise UnknownStructureError("attention", "tokens see neither all others nor a window of them")


def _position_bias(raw: Tensor, scores: Tensor, visible: Tensor) -> dict[str, Any] | None:
    """Find a bias that is linear in the distance, one slope for each head."""
    heads, length, _ = raw.shape
    distance = (torch.arange(length)[None, :] - torch.arange(length)[:, None]).double()
    slopes: list[float] = []
    scales: list[float] = []
    for head in range(heads):
        seen = visible[head]
        rows = seen.nonzero()[:, 0]
        design = torch.stack([raw[head][seen], distance[seen]], dim=1)
        target = scores[head][seen]
        # A constant in a row cancels in the softmax.
        design = design - _row_means(design, rows, length)[rows]
        target = target - _row_means(target[:, None], rows, length)[rows][:, 0]
        solution = torch.linalg.lstsq(design, target[:, None]).solution[:, 0]
        if not is_close(design @ solution, target, 1e-4):
            return None
        scales.append(float(solution[0]))
        slopes.append(float(solution[1]))
    if max(abs(s) for s in slopes) < 1e-5:
        return {"scale": rounded(sum(scales) / heads)}
    if max(scales) - min(scales) > 1e-4 * abs(max(scales)):
        return None
    return {
        "scale": rounded(sum(scales) / heads),
        "alibi": {"when": True, **_rule(slopes)},
    }


def _rule(slopes: list[float]) -> dict[str, Any]:
    """Describe slopes as powers of two: multiplier * 2 ** (-max_bias * (head + 1) / heads).

    Raises:
        UnknownStructureError: They are no such powers.
    """
    # Where heads are no power of two, the first of them are those of the next smaller one.
    heads = 2 ** int(math.log2(len(slopes)))
    ratios = [slopes[i + 1] / slopes[i] for i in range(heads - 1)]
    if any(r <= 0 or abs(r / ratios[0] - 1) > 1e-3 for r in ratios):
        raise UnknownStructureError("attention", f"position slopes {slopes}")
    max_bias = rounded(float(f"{-heads * math.log2(ratios[0]):.4g}"))
    multiplier = slopes[0] / 2 ** (-max_bias / heads)
    return {"rule": "geometric", "max_bias": max_bias, "multiplier": float(f"{multiplier:.5g}")}


def _row_means(x: Tensor, rows: Tensor, length: int) -> Tensor:
    sums = torch.zeros(length, x.shape[1], dtype=x.dtype).index_add_(0, rows, x)
    counts = torch.zeros(length, dtype=x.dtype).index_add_(
        0, rows, torch.ones_like(rows, dtype=x.dtype)
    )
    return sums / counts[:, None].clamp_min(1)


def config_numbers(config: Any) -> list[float]:
    """Return the positive numbers of a configuration, once each."""
    values = [v for v in config.to_dict().values() if isinstance(v, (int, float))]
    return sorted({float(v) for v in values if not isinstance(v, bool) and v > 0})
