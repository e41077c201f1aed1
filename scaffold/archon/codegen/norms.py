"""Norms: their constructor calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaffold.archon.codegen.class_body import maybe
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import ALWAYS, NEVER, Json, fixed, guard_of, told, value_text


def norm_text(norm: Json, source: Source, names: ModelNames, heads: Any = None) -> str:
    """Return the call that makes a norm; an optional one is an identity where it is absent.

    The config may choose its kind.

    Args:
        norm: NORM of the design.
        heads: Number of heads of a norm that has a weight for each of them.
    """
    guard, kind = guard_of(norm), norm.get("kind", "rms")
    if not isinstance(kind, Mapping):
        return maybe(_call(norm, source, names, heads), guard, "nn.Identity()")
    layer, rms = (_call({**norm, "kind": k}, source, names, heads) for k in ("layer", "rms"))
    # The config chooses the class, so the written code has both.
    text = f'{layer} if {value_text(kind)} == "layer" else {rms}'
    return maybe(text if guard in (ALWAYS, NEVER) else f"({text})", guard, "nn.Identity()")


def _call(norm: Json, source: Source, names: ModelNames, heads: Any) -> str:
    is_layer_norm = norm.get("kind", "rms") == "layer"
    offset = fixed(norm, "offset", 0.0)
    has_weight = norm.get("weight", True)
    sizes = [value_text(norm["dim"]), value_text(norm["eps"])]
    # The class of torch where it can do all that is asked, else the shared one.
    if is_layer_norm and not offset and heads is None:
        has_bias = norm.get("bias", True)
        # Without a weight torch's has no bias either.
        options = ["elementwise_affine=False"] if has_weight is False else []
        if has_weight is not False:
            options = told({"elementwise_affine": has_weight}, elementwise_affine=True)
            options += [] if has_bias == has_weight else told({"bias": has_bias}, bias=True)
        return f"nn.LayerNorm({', '.join([*sizes, *options])})"
    kind = "LayerNorm" if is_layer_norm else "RMSNorm"
    source.use(names.shared("layers", "norms"), kind)
    given = {**norm, "has_weight": has_weight, "has_bias": norm.get("bias"), "n_heads": heads}
    options = told(given, offset=0.0, has_weight=True, weight_in_fp32=False)
    options += told(given, has_bias=True) if is_layer_norm else []
    options += told(given, n_heads=None)
    return f"{kind}({', '.join([*sizes, *options])})"
