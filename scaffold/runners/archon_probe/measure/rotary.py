"""Find whether and how queries and keys are rotated by position.

Shape letters: H heads, T tokens, D size of a head, P pairs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archon_probe.measure.algebra import is_close
from archon_probe.measure.roles import UnknownStructureError

ANGLE_TOLERANCE = 1e-4
"""Radians between an angle and position times frequency: fp32 cosines of a few tens."""

Pair = tuple[Tensor, Tensor]


def observe_rotation(q: Pair, k: Pair) -> dict[str, Any] | None:
    """Describe the rotation between projected and multiplied queries and keys.

    Args:
        q: [H, T, D] before and after.
        k: The same of the keys.

    Returns:
        ``when``; with it ``pairing`` (half or interleaved), ``dim`` (rotated leading dimensions),
        ``inv_freq`` and ``factor`` (on cosine and sine); and ``temperature``: factors on the
        queries by position, [] where there are none. None if it is no rotation of pairs.
    """
    temperature = _temperature(q, k)
    q = (q[0] * torch.tensor(temperature)[None, :, None] if temperature else q[0], q[1])
    if is_close(*q) and is_close(*k):
        return {"when": False, "temperature": temperature}
    found = _rotation(*q), _rotation(*k)
    if found[0] is None or found[1] is None or found[0]["pairing"] != found[1]["pairing"]:
        return None
    return {"when": True, **found[0], "temperature": temperature}


def observe_temperature(factors: list[float], config: Any) -> dict[str, Any]:
    """Describe factors on queries that grow with the logarithm of the position.

    Args:
        factors: By position, [] where there are none.
        config: Its whole numbers are tried as the length after which the factor grows.

    Raises:
        UnknownStructureError: They are neither
            1 + scale * log(1 + floor((position + offset) / floor)) nor
            (1 + (position + offset) / length) ** power.
    """
    if not factors:
        return {"when": False}
    wholes = {
        v for v in config.to_dict().values() if isinstance(v, int) and not isinstance(v, bool)
    }
    rope = getattr(config, "rope_parameters", None) or {}
    wholes |= {v for v in rope.values() if isinstance(v, int)}
    # 1 + scale * log(1 + (position + offset) // floor), where floor is a number of the config.
    target = torch.tensor(factors, dtype=torch.float64) - 1
    positions = torch.arange(len(factors))
    for floor in sorted(w for w in wholes if w > 0):
        for offset in (0, 1):
            growth = torch.log1p(((positions + offset) // floor).double())
            if not float(growth.abs().max()):
                continue
            # Least squares; below, rounded to what a config would have.
            scale = (growth * target).sum() / growth.square().sum()
            if is_close(growth * scale, target, 1e-4):
                return {
                    "when": True,
                    "rule": "log",
                    "scale": float(f"{float(scale):.4g}"),
                    "floor": floor,
                    "position_offset": offset,
                }
    power = _power_of_position(factors, [w for w in wholes if w > 0])
    if power is not None:
        return {"when": True, "rule": "power", **power}
    raise UnknownStructureError("attention", "queries grow by position in an unknown way")


def _power_of_position(factors: list[float], lengths: list[int]) -> dict[str, Any] | None:
    """Write factors as (1 + (position + offset) / length) ** power, as well as it goes."""
    logarithms = torch.tensor(factors, dtype=torch.float64).log()
    positions = torch.arange(len(factors), dtype=torch.float64)
    best: tuple[float, dict[str, Any]] | None = None
    # Lengths of the configuration first: for short sequences others fit nearly as well.
    for length in [*sorted(lengths), *(2**k for k in range(5, 21))]:
        for offset in (0, 1):
            growth = torch.log1p((positions + offset) / length)
            power = float(f"{float((growth * logarithms).sum() / growth.square().sum()):.4g}")
            error = float((growth * power - logarithms).norm() / logarithms.norm())
            if error < 1e-3 and (best is None or error < 0.5 * best[0]):
                found = {"power": power, "length": length, "position_offset": offset}
                best = (error, found)
    return best[1] if best is not None else None


def _temperature(q: Pair, k: Pair) -> list[float]:
    """Return the growth of the queries by position beside that of the keys."""
    growth = [(after.norm(dim=-1) / before.norm(dim=-1)).double() for before, after in (q, k)]
    if any(not is_close(g, g.mean(0, keepdim=True).expand_as(g), 1e-3) for g in growth):
        return []  # a factor on the rotated part alone: heads grow differently, both sides alike
    ratio = growth[0].mean(0) / growth[1].mean(0)
    if is_close(ratio, torch.ones_like(ratio), 1e-5):
        return []
    return [float(r) for r in ratio]


def _rotation(before: Tensor, after: Tensor) -> dict[str, Any] | None:
    size = before.shape[-1]
    # A dimension that any position changes is rotated.
    threshold = 1e-7 * before.abs().amax()
    changed = ((before - after).abs().amax(dim=(0, 1)) > threshold).nonzero().flatten()
    if not len(changed) or int(changed.min()) > 1:
        return None
    dim = int(changed.max()) + 1
    dim += dim % 2
    for pairing in ("half", "interleaved"):
        for width in dict.fromkeys((dim, size)):
            found = _angles(_paired(before, width, pairing), _paired(after, width, pairing))
            if found is not None:
                return {"pairing": pairing, "dim": width, **found}
    return None


def _paired(x: Tensor, dim: int, pairing: str) -> Tensor:
    """Return the rotated part as complex numbers [H, T, P]."""
    x = x[..., :dim].double()
    if pairing == "half":
        return torch.complex(x[..., : dim // 2], x[..., dim // 2 :])
    return torch.complex(x[..., 0::2], x[..., 1::2])


def _angles(before: Tensor, after: Tensor) -> dict[str, Any] | None:
    # All heads turn alike, so the turn is what best maps all of them at once.
    turn = (after * before.conj()).sum(0) / before.abs().square().sum(0)
    if not is_close(torch.view_as_real(turn * before), torch.view_as_real(after), 1e-4):
        return None
    factor = turn.abs()
    if not is_close(factor, factor.mean().expand_as(factor), 1e-4):
        return None
    inv_freq = turn[1].angle()  # position 1 turns by the frequency itself
    positions = torch.arange(turn.shape[0], dtype=torch.float64)
    expected = torch.polar(factor.mean().expand_as(factor), positions[:, None] * inv_freq)
    if float((expected - turn).abs().max()) > ANGLE_TOLERANCE * 20:
        return None
    return {"inv_freq": [float(f) for f in inv_freq], "factor": float(factor.mean())}
