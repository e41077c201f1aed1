"""Shapes measured rotations into rotary tables and the option that picks one for a layer."""

from __future__ import annotations

import math
from typing import Any

from archon_probe.design.expressions import ABSENT
from archon_probe.design.shaper import Shaper

KINDS_BY_LAYER_TYPE = "rope_parameters"


def shape_ropes(shaper: Shaper, design: dict[str, Any]) -> dict[str, Any]:
    """Adds ``rope`` to the attention of a design, and returns the tables it needs."""
    attention = design.get("attention", {})
    name = next(m["name"] for m in design["block"]["modules"] if m["kind"] == "attention")
    rows = [
        [m["rope"] if m != ABSENT else ABSENT for m in row]
        for row in shaper.rows(lambda layer: layer["modules"][name])
    ]
    used = [r for row in rows for r in row if r != ABSENT and r["when"]]
    if not used:
        return {}
    a = shaper.arguments
    when = a.layer_value(
        "attention.rope.when", [[r["when"] if r != ABSENT else ABSENT for r in row] for row in rows]
    )
    attention["rope"] = {"when": when}
    reverse = used[0]["inv_freq"][0] < 0
    options: dict[str, Any] = {"pairing": _pairing(shaper, rows), "reverse": reverse}
    parameters = getattr(shaper.measured[0][0].config, "rope_parameters", None)
    if _is_by_layer_type(parameters):
        attention["rope"]["key"] = a.add_layer_types()
        size = _whole_head(shaper, used, name)
        return {
            f"rope_{kind}": {
                "expr": f"RopeArgs.from_hf(hf_config, layer_type={kind!r}{size})",
                "layer_type": kind,
                **options,
            }
            for kind, value in parameters.items()
            if isinstance(value, dict)
        }
    text = _plain_expression(shaper, rows, used, parameters)
    return {"rope": {"expr": text, **options}}


def _pairing(shaper: Shaper, rows: list[list[Any]]) -> Any:
    """Returns which dimensions turn together; a configuration may choose. One pair has no order."""
    each = [
        next((r["pairing"] for r in row if r != ABSENT and r["when"] and r["dim"] > 2), ABSENT)
        for row in rows
    ]
    known = [p == "interleaved" if p != ABSENT else ABSENT for p in each]
    chosen = shaper.arguments.value("attention.rope.interleaved", known)
    if isinstance(chosen, dict):
        return {"expr": f"'interleaved' if args.{chosen['arg']} else 'half'"}
    return "interleaved" if chosen else "half"


def _is_by_layer_type(parameters: Any) -> bool:
    """Says whether rotations are stated for each type of layer; a type may have none."""
    values = list(parameters.values()) if isinstance(parameters, dict) else []
    return any(isinstance(v, dict) for v in values) and all(
        v is None or isinstance(v, dict) for v in values
    )


def _whole_head(shaper: Shaper, used: list[Any], name: str) -> str:
    """Returns the argument that says that whole heads rotate, where no configuration changes it."""
    rows = shaper.rows(lambda layer: layer["modules"][name])
    sizes = {m["head_dim"] for row in rows for m in row}
    return ", dim={head_dim}" if {r["dim"] for r in used} <= sizes else ""


def _plain_expression(shaper: Shaper, rows: Any, used: list[Any], parameters: Any) -> str:
    a = shaper.arguments
    dims = [next((r["dim"] for r in row if r != ABSENT and r["when"]), ABSENT) for row in rows]
    expected = [
        _declared_dim(c.config, h)
        for (c, _), h in zip(shaper.measured, a.known["head_dim"], strict=True)
    ]
    if isinstance(parameters, dict):
        first = [next((r for r in row if r != ABSENT and r["when"]), ABSENT) for row in rows]
        for number, (rope, stated) in enumerate(zip(first, expected, strict=True)):
            if rope != ABSENT and _has_too_few_frequencies(rope, stated):
                # It runs by accident, where the one frequency of a table meets many pairs.
                case = a.cases[number].name
                a.missed.setdefault(case, set()).add("attention.rope: one frequency for all pairs")
                dims[number] = ABSENT
        # An odd number rotates with the next even one, which a generated model refuses.
        if all(d == ABSENT or d in {e, e + e % 2} for d, e in zip(dims, expected, strict=True)):
            return "RopeArgs.from_hf(hf_config)"
        dim = a.value("attention.rope.dim", dims, ("args.head_dim",), is_size=True)
        return f"RopeArgs.from_hf(hf_config, dim={_text(dim, a)})"
    dim = a.value("attention.rope.dim", dims, ("args.head_dim",), is_size=True)
    theta = [next((_theta(r) for r in row if r != ABSENT and r["when"]), ABSENT) for row in rows]
    base = a.value("attention.rope.theta", theta)
    return f"RopeArgs(dim={_text(dim, a)}, theta={_text(base, a)})"


def _has_too_few_frequencies(rope: dict[str, Any], stated: int) -> bool:
    """Says whether more pairs turn than the configuration states, all of them alike."""
    first, *others = rope["inv_freq"]
    is_wider = rope["dim"] > stated + stated % 2
    return is_wider and all(math.isclose(f, first, rel_tol=1e-4) for f in others)


def _text(value: Any, arguments: Any) -> str:
    if isinstance(value, dict):
        name = value.get("arg") or value["expr"].removeprefix("args.")
        return f"{{{name}}}"
    return repr(value)


def _theta(rope: dict[str, Any]) -> float:
    """Solves the second frequency, theta ** (-2 / dim), for theta."""
    theta = abs(rope["inv_freq"][1]) ** (-rope["dim"] / 2)
    return float(f"{theta:.4g}") if math.isfinite(theta) else theta


def _declared_dim(config: Any, head_dim: int) -> int:
    """Returns the rotated dimensions that a configuration states."""
    parameters = getattr(config, "rope_parameters", None) or {}
    factor = (
        parameters.get("partial_rotary_factor")
        or getattr(config, "partial_rotary_factor", None)
        or 1.0
    )
    size = getattr(config, "qk_rope_head_dim", None) or getattr(config, "head_dim", None)
    size = size or config.hidden_size // config.num_attention_heads
    return int(size * factor) if size else head_dim
