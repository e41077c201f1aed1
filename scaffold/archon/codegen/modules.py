"""The parts of a block that are made by one call: norms, a feed-forward, mixers of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from scaffold.archon.codegen.class_body import maybe
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import (
    ALWAYS,
    NEVER,
    Json,
    fixed,
    guard_of,
    has,
    literal,
    told,
    value_text,
)


def norm_text(norm: Json, source: Source, heads: Any = None) -> str:
    """Return the call that makes a norm; an optional one is an identity where it is absent.

    The config may choose its kind.

    Args:
        norm: NORM of the design.
        heads: Number of heads of a norm that has a weight for each of them.
    """
    guard, kind = guard_of(norm), norm.get("kind", "rms")
    if not isinstance(kind, Mapping):
        return maybe(_norm_call(norm, source, heads), guard, "nn.Identity()")
    layer, rms = (_norm_call({**norm, "kind": k}, source, heads) for k in ("layer", "rms"))
    # The config chooses the class, so the written code has both.
    text = f'{layer} if {value_text(kind)} == "layer" else {rms}'
    return maybe(text if guard in (ALWAYS, NEVER) else f"({text})", guard, "nn.Identity()")


def _norm_call(norm: Json, source: Source, heads: Any) -> str:
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
    source.share("layers.norms", kind)
    given = {**norm, "has_weight": has_weight, "has_bias": norm.get("bias"), "n_heads": heads}
    options = told(given, offset=0.0, has_weight=True, weight_in_fp32=False)
    options += told(given, has_bias=True) if is_layer_norm else []
    options += told(given, n_heads=None)
    return f"{kind}({', '.join([*sizes, *options])})"


def feed_forward_text(mlp: Json, source: Source) -> str:
    """Return the call that makes a block's feed-forward."""
    kind = "GatedFeedForward" if fixed(mlp, "gated", True) else "FeedForward"
    source.share("layers.feed_forward", kind)
    sizes = ["args.dim", value_text(mlp["hidden_dim"]), value_text(mlp["activation"])]
    up = mlp.get("up_bias", False)
    inner = {"gate_bias": mlp.get("gate_bias", up), "down_bias": mlp.get("down_bias", False)}
    options = told({"bias": up}, bias=False) + told(inner, gate_bias=up, down_bias=up)
    norm: Json | None = mlp.get("inner_norm")
    if norm is not None and has(norm):
        options.append(f"inner_norm={norm_text(norm, source)}")
    options += told(mlp, first_multiplier=None, down_multiplier=None)
    return f"{kind}({', '.join([*sizes, *options])})"


def mixer_fields(design: Json) -> list[Json]:
    """Return the argument that such modules are built from; none for a model without them."""
    if not design.get("mixer"):
        return []
    doc = "Configuration that the token mixers of transformers are built from."
    name = "mixer_config"
    return [{"name": name, "type": "Any", "default": None, "expr": "hf_config", "doc": doc}]


def mixer_class(design: Json) -> str:
    """Return the name of the class that mixes tokens where attention does not."""
    return str(design["mixer"]["class"]).partition(":")[2]


def mixer_text(mixer: Json, source: Source) -> str:
    """Return the call that makes the mixer of a layer."""
    module, _, name = str(mixer["class"]).partition(":")
    source.use(module, name)
    source.share("layers.sequence_mixer", "SequenceMixer")
    layer = ", layer_id" if mixer["by_layer"] else ""
    rows: list[str] = []
    for buffer, function in cast("list[list[str]]", mixer.get("buffers") or []):
        package, _, called = function.partition(":")
        source.use(package, called)
        rows.append(f"{literal(buffer)}: {called}")
    options = f", buffers={{{', '.join(rows)}}}" if rows else ""
    options += f", unread={literal(mixer['unread'])}" if mixer.get("unread") else ""
    return f"SequenceMixer({name}, args.mixer_config{layer}{options})"
