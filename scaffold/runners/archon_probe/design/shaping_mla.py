"""Shape measured latent attention into the attention of a design."""

from __future__ import annotations

import math
from typing import Any

from archon_probe.design.expressions import ABSENT
from archon_probe.design.shaper import Shaper, each

SIZES = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
BIASES = ("q_a_bias", "q_b_bias", "q_bias", "kv_a_bias", "kv_b_bias", "o_bias")


def shape_mla(shaper: Shaper, rows: list[list[Any]]) -> dict[str, Any]:
    """Return the attention of a design, from the features of its modules by case and layer."""
    a = shaper.arguments

    found: dict[str, Any] = {"kind": "mla"}
    found["n_heads"] = a.layer_value("attention.n_heads", each(rows, "n_heads"), ("args.n_heads",))
    found["head_dim"] = a.layer_value(
        "attention.head_dim", each(rows, "head_dim"), ("args.head_dim",)
    )
    for key in SIZES:
        found[key] = a.layer_value(f"attention.{key}", each(rows, key), name=key, is_size=True)
    found["q_lora_rank"] = a.layer_value(
        "attention.q_lora_rank", each(rows, "q_lora_rank"), name="q_lora_rank", is_size=True
    )
    for key in BIASES:
        if any(v != ABSENT for row in each(rows, key) for v in row):
            found[key] = a.layer_value(f"attention.{key}", each(rows, key))
    for key in ("q_norm", "kv_norm"):
        found[key] = shaper.norm(f"attention.{key}", each(rows, key))
    for key in ("q_multiplier", "kv_multiplier"):
        value = a.layer_value(f"attention.{key}", each(rows, key), ("1.0",), name=key)
        if value != {"expr": "1.0"}:
            found[key] = value
    found["scale"] = _scale(shaper, each(rows, "scale"))
    for key in ("softcap", "window", "chunk"):
        value = a.layer_value(f"attention.{key}", each(rows, key))
        if value is not None:
            found[key] = value
    return found


def _scale(shaper: Shaper, rows: list[list[Any]]) -> Any:
    """Return the scale; scaled rotations may raise it (YaRN's mscale over all dimensions)."""
    a = shaper.arguments
    sizes = a.known["head_dim"]
    expected = [
        size**-0.5 * score_multiplier(case.config)
        for (case, _), size in zip(shaper.measured, sizes, strict=True)
    ]
    plain = [s**-0.5 for s in sizes]
    values = [next(v for v in row if v != ABSENT) for row in rows]
    # Measured in fp32 through a few operations, hence the tolerance.
    if all(math.isclose(v, p, rel_tol=1e-4) for v, p in zip(values, plain, strict=True)):
        return {"expr": "args.head_dim**-0.5"}
    if all(math.isclose(v, e, rel_tol=1e-4) for v, e in zip(values, expected, strict=True)):
        return {"expr": "args.head_dim**-0.5 * args.rope.score_multiplier"}
    return a.layer_value("attention.scale", rows)


def score_multiplier(config: Any) -> float:
    """Return the square of (0.1 * mscale_all_dim * log(factor) + 1), 1 where it is not asked for.

    Source:
        YaRN, as DeepSeek-V2's technical report uses it.
    """
    parameters = getattr(config, "rope_parameters", None) or {}
    scale, factor = parameters.get("mscale_all_dim", 0), parameters.get("factor", 1.0)
    if parameters.get("rope_type", "default") == "default" or not scale or factor <= 1:
        return 1.0
    return (0.1 * scale * math.log(factor) + 1.0) ** 2
