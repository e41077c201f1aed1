"""The feed-forward of a generated block: the constructor call of a shared part."""

from __future__ import annotations

from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.norms import norm_text
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import Json, fixed, has, told, value_text


def feed_forward_text(mlp: Json, source: Source, names: ModelNames) -> str:
    """Return the call that makes a block's feed-forward."""
    kind = "GatedFeedForward" if fixed(mlp, "gated", True) else "FeedForward"
    source.use(names.shared("layers", "feed_forward"), kind)
    sizes = ["args.dim", value_text(mlp["hidden_dim"]), value_text(mlp["activation"])]
    up = mlp.get("up_bias", False)
    inner = {"gate_bias": mlp.get("gate_bias", up), "down_bias": mlp.get("down_bias", False)}
    options = told({"bias": up}, bias=False) + told(inner, gate_bias=up, down_bias=up)
    norm: Json | None = mlp.get("inner_norm")
    if norm is not None and has(norm):
        options.append(f"inner_norm={norm_text(norm, source, names)}")
    options += told(mlp, first_multiplier=None, down_multiplier=None)
    return f"{kind}({', '.join([*sizes, *options])})"
