"""Shape measured latent attention into the attention of a design."""

from __future__ import annotations

import math
from typing import Any

from archon_probe.design.expressions import ABSENT
from archon_probe.design.shaper import Part, Shaper

SIZES = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "q_lora_rank")
BIASES = ("q_a_bias", "q_b_bias", "q_bias", "kv_a_bias", "kv_b_bias", "o_bias")


def shape_mla(shaper: Shaper, part: Part) -> dict[str, Any]:
    """Return the attention of a design whose keys and values come from a latent state."""
    found: dict[str, Any] = {"kind": "mla"}
    for key in ("n_heads", "head_dim"):
        found[key] = part.fit(key, (f"args.{key}",))
    for key in SIZES:
        found[key] = part.fit(key, name=key, is_size=True)
    found |= {key: part.fit(key) for key in BIASES if part.has(key)}
    for key in ("q_norm", "kv_norm"):
        found[key] = part.of(key).norm()
    for key in ("q_multiplier", "kv_multiplier"):
        found |= part.factor(key, name=key)
    found["scale"] = _scale(shaper, part)
    for key in ("softcap", "window", "chunk"):
        value = part.fit(key)
        if value is not None:
            found[key] = value
    return found


def _scale(shaper: Shaper, part: Part) -> Any:
    """Return the scale; scaled rotations may raise it (YaRN's mscale over all dimensions)."""
    plain = [size**-0.5 for size in shaper.arguments.known["head_dim"]]
    cases = [case for case, _ in shaper.measured]
    raised = [s * score_multiplier(c.config) for s, c in zip(plain, cases, strict=True)]
    values = [next(v for v in row if v != ABSENT) for row in part.each("scale")]

    def are(expected: list[float]) -> bool:
        # Measured in fp32 through a few operations, hence the tolerance.
        pairs = zip(values, expected, strict=True)
        return all(math.isclose(v, e, rel_tol=1e-4) for v, e in pairs)

    if are(plain):
        return {"expr": "args.head_dim**-0.5"}
    if are(raised):
        return {"expr": "args.head_dim**-0.5 * args.rope.score_multiplier"}
    return part.fit("scale")


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
