"""Shape measured rotations into rotary tables and the option that picks one for a layer."""

from __future__ import annotations

import math
from typing import Any

from archon_probe.design.arguments import Arguments, each, read
from archon_probe.design.expressions import ABSENT


def shape_ropes(a: Arguments, design: dict[str, Any]) -> dict[str, Any]:
    """Add ``rope`` to the attention of a design, and return the tables it needs."""
    attention = design.get("attention", {})
    name = next(m["name"] for m in design["block"]["modules"] if m["kind"] == "attention")
    rows = each(a.modules(name), "rope")
    used = [r for row in rows for r in row if r != ABSENT and r["when"]]
    if not used:
        return {}
    when = a.layer_value("attention.rope.when", each(rows, "when"))
    attention["rope"] = {"when": when}
    # A negative frequency is a rotation the other way round.
    reverse = used[0]["inv_freq"][0] < 0
    options: dict[str, Any] = {"pairing": _pairing(a, rows), "reverse": reverse}
    parameters = getattr(a.measured[0][0].config, "rope_parameters", None)
    # Rotations may be stated for each type of layer, and one of them may have none.
    values = list(parameters.values()) if isinstance(parameters, dict) else []
    if any(isinstance(v, dict) for v in values) and all(
        v is None or isinstance(v, dict) for v in values
    ):
        attention["rope"]["key"] = a.add_layer_types()
        # Whole heads rotate where no configuration changes the share.
        heads = {size for row in each(a.modules(name), "head_dim") for size in row}
        size = ", dim={head_dim}" if {r["dim"] for r in used} <= heads else ""
        return {
            f"rope_{kind}": {
                "expr": f"RopeArgs.from_hf(hf_config, layer_type={kind!r}{size})",
                "layer_type": kind,
                **options,
            }
            for kind, value in parameters.items()
            if isinstance(value, dict)
        }
    text = _plain_expression(a, rows, parameters)
    return {"rope": {"expr": text, **options}}


def _pairing(a: Arguments, rows: list[list[Any]]) -> Any:
    """Return how dimensions pair, which a configuration may choose; one pair has no order."""
    pairings = (
        (r["pairing"] == "interleaved" for r in row if r != ABSENT and r["when"] and r["dim"] > 2)
        for row in rows
    )
    known = [next(row, ABSENT) for row in pairings]
    chosen = a.value("attention.rope.interleaved", known)
    if isinstance(chosen, dict):
        return {"expr": f"'interleaved' if args.{chosen['arg']} else 'half'"}
    return "interleaved" if chosen else "half"


def _plain_expression(a: Arguments, rows: list[list[Any]], parameters: Any) -> str:
    first = [next((r for r in row if r != ABSENT and r["when"]), ABSENT) for row in rows]
    dims = [read(rope, "dim") for rope in first]
    expected = [
        _declared_dim(c.config, h)
        for (c, _), h in zip(a.measured, a.known["head_dim"], strict=True)
    ]
    fixed = _fixed_by(a, first) if isinstance(parameters, dict) else ""
    if isinstance(parameters, dict):
        for number, (case, _) in enumerate(a.measured):
            stated = getattr(case.config, "rope_parameters", None) or {}
            if stated.get("rope_type") == "proportional":
                dims[number] = ABSENT  # all of a head, of which a share is left unrotated
        for number, (rope, stated) in enumerate(zip(first, expected, strict=True)):
            if rope == ABSENT or rope["dim"] <= stated + stated % 2:
                continue
            if all(math.isclose(f, rope["inv_freq"][0], rel_tol=1e-4) for f in rope["inv_freq"]):
                # It runs by accident, where the one frequency of a table meets many pairs.
                case = a.cases[number].name
                a.missed.setdefault(case, set()).add("attention.rope: one frequency for all pairs")
                dims[number] = ABSENT
        # An odd number rotates with the next even one, which a generated model refuses.
        if all(d == ABSENT or d in {e, e + e % 2} for d, e in zip(dims, expected, strict=True)):
            return f"RopeArgs.from_hf(hf_config{fixed})"
        dim = a.value("attention.rope.dim", dims, ("args.head_dim",), is_size=True)
        return f"RopeArgs.from_hf(hf_config, dim={_text(dim)}{fixed})"
    dim = a.value("attention.rope.dim", dims, ("args.head_dim",), is_size=True)
    # The second frequency is theta ** (-2 / dim); fp32 gives it to about four digits.
    solved = [read(r, lambda r: abs(r["inv_freq"][1]) ** (-r["dim"] / 2)) for r in first]
    theta = [t if t in (ABSENT, math.inf) else float(f"{t:.4g}") for t in solved]
    base = a.value("attention.rope.theta", theta)
    return f"RopeArgs(dim={_text(dim)}, theta={_text(base)})"


def _fixed_by(a: Arguments, ropes: list[Any]) -> str:
    """Return the argument that names the parameter by which the base of a dynamic rotation grows.

    Usually the length of a sequence decides; "NTK by alpha" grows it once and for all.
    """
    for (case, _), rope in zip(a.measured, ropes, strict=True):
        stated = getattr(case.config, "rope_parameters", None) or {}
        if rope == ABSENT or rope["dim"] == 2 or stated.get("rope_type") != "dynamic":
            continue
        size, turn = rope["dim"], abs(rope["inv_freq"][1])
        for key, value in stated.items():
            if key == "rope_theta" or not isinstance(value, int | float) or not value > 1:
                continue
            base = stated["rope_theta"] * value ** (size / (size - 2))
            if math.isclose(turn, base ** (-2 / size), rel_tol=1e-4):
                return f", fixed_by={key!r}"
    return ""


def _text(value: Any) -> str:
    if isinstance(value, dict):
        name = value.get("arg") or value["expr"].removeprefix("args.")
        return f"{{{name}}}"
    return repr(value)


def _declared_dim(config: Any, head_dim: int) -> int:
    """Return the rotated dimensions that a configuration states."""
    parameters = getattr(config, "rope_parameters", None) or {}
    factor = (
        parameters.get("partial_rotary_factor")
        or getattr(config, "partial_rotary_factor", None)
        or 1.0
    )
    size = getattr(config, "qk_rope_head_dim", None) or getattr(config, "head_dim", None)
    size = size or config.hidden_size // config.num_attention_heads
    return int(size * factor) if size else head_dim
