"""What the fields of a model's arguments are for, told by where a design uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from scaffold.archon.codegen.values import Json

STANDARD: Mapping[str, str] = {
    "dim": "Width of the residual stream.",
    "n_layers": "Number of blocks.",
    "n_heads": "Heads of queries.",
    "n_kv_heads": "Heads of keys and values.",
    "head_dim": "Dimensions of a head.",
    "hidden_dim": "Width of a feed-forward.",
    "vocab_size": "Tokens that there are.",
    "norm_eps": "What norms add before they divide.",
    "max_seq_len": "Context that the config states.",
    "enable_weight_tying": "Whether the output layer is the embedding.",
    "eos_id": "Token or tokens that end a text.",
}
"""What the fields that every model has are for."""

_DOCS: Mapping[str, str] = {
    "embedding.multiplier": "What embeddings are multiplied by.",
    "embedding.padding_idx": "Token whose embedding does not learn.",
    "embedding.positions.size": "Positions that have an embedding.",
    "embedding.positions.when": "Whether positions have embeddings.",
    "embedding.norm.when": "Whether embeddings are normed.",
    "attention.q_bias": "Whether the projections of attention have biases.",
    "attention.k_bias": "Whether the projection to keys has a bias.",
    "attention.o_bias": "Whether the output projection of attention has a bias.",
    "attention.n_heads": "Heads of queries.",
    "attention.n_kv_heads": "Heads of keys and values.",
    "attention.head_dim": "Dimensions of a head.",
    "attention.v_head_dim": "Dimensions of a head's values.",
    "attention.q_lora_rank": "Size of the latent state of queries; None for none.",
    "attention.kv_lora_rank": "Size of the latent state of keys and values.",
    "attention.qk_nope_head_dim": "Dimensions of a head that do not rotate.",
    "attention.qk_rope_head_dim": "Dimensions of a head that rotate.",
    "attention.q_multiplier": "What queries are multiplied by.",
    "attention.kv_multiplier": "What the latent state of keys and values is multiplied by.",
    "attention.q_a_bias": "Whether the projections of attention have biases.",
    "attention.clip_qkv.limit": "Bound of queries, keys and values; None for none.",
    "attention.q_norm.when": "Whether queries and keys are normed.",
    "attention.rope.when": "Whether queries and keys rotate.",
    "attention.rope.key": "Kind of layer, each with rotary positions of its own.",
    "ropes.rope.pairing": "Whether dimensions next to each other turn together.",
    "attention.scale": "What scores are multiplied by.",
    "attention.softcap": "Bound of the scores; None for none.",
    "attention.window": "Keys that a query sees, itself included; None for all.",
    "attention.chunk": "Tokens of a block outside of which nothing is seen; None for no blocks.",
    "attention.sinks.when": "Whether heads can attend to nothing.",
    "attention.alibi.when": "Whether scores fall with distance.",
    "attention.alibi.max_bias": "Exponent that the slopes over distance reach.",
    "attention.gate.when": "Whether a gate scales the output of attention.",
    "attention.gate.per": "What has a gate of its own: each head, or each dim of all heads.",
    "attention.temperature.when": "Whether queries grow with the logarithm of the position.",
    "attention.temperature.scale": "How much queries grow for each e-fold of positions.",
    "attention.temperature.floor": "Positions before queries start to grow.",
    "attention.value_scale": "What values are multiplied by.",
    "mlp.activation": "Activation of the feed-forward, as transformers calls it.",
    "mlp.bias": "Whether the feed-forward has biases.",
    "mlp.gate_bias": "Whether the feed-forward has biases.",
    "mlp.up_bias": "Whether the feed-forward has biases.",
    "mlp.down_bias": "Whether the last projection of the feed-forward has a bias.",
    "mlp.hidden_dim": "Width of the feed-forward.",
    "moe.hidden_dim": "Width of an expert.",
    "head.bias": "Whether the output layer has a bias.",
    "head.multiplier": "What logits are multiplied by.",
    "head.divisor": "What logits are divided by.",
    "head.softcap": "Bound of the logits; None for none.",
    "block.modules.norm.kind": "Whether norms are RMS norms or layer norms: rms or layer.",
    "head.norm.kind": "Whether norms are RMS norms or layer norms: rms or layer.",
    "head.norm.when": "Whether the last states are normed.",
    "block.variants.steps.sum": "What a branch is multiplied by before it is added.",
    "block.variants.when": "Whether blocks add their branches in this order.",
}
_MODULES = {
    "attention": "Whether a block attends.",
    "moe": "Whether a block has experts.",
    "mlp": "Whether a block has a feed-forward.",
    "norm": "Whether a block has this norm.",
}


def field_docs(design: Json) -> dict[str, str]:
    """Returns what is known of the fields that a design uses, by name."""
    found: dict[str, str] = {}
    for name, path in _uses(design, ""):
        doc = _DOCS.get(path)
        if doc and name not in found and name not in (design.get("ropes") or {}):
            found[name] = _by_layer(doc, design, name)
    for module in design["block"]["modules"]:
        when = module.get("when")
        if isinstance(when, Mapping) and "expr" not in when:
            name = next(_uses(when, ""))[0]
            found.setdefault(name, _by_layer(_MODULES[str(module["kind"])], design, name))
    return {name: doc for name, doc in found.items() if doc}


def _by_layer(doc: str, design: Json, name: str) -> str:
    """Returns a description that says so where each layer has a value of its own."""
    kinds = (str(each["type"]) for each in design["args"] if each["name"] == name)
    return f"By layer: {doc[:1].lower()}{doc[1:]}" if next(kinds, "").startswith("tuple") else doc


def _uses(part: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yields each argument that a part of a design reads, and the path of the option."""
    if isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _uses(each, path)
    elif isinstance(part, Mapping):
        part = cast("Json", part)
        name = part.get("arg") or part.get("layer_arg")
        if isinstance(name, str):
            yield name, path
        elif isinstance(part.get("expr"), str):
            yield from ((found, path) for found in re.findall(r"\bargs\.(\w+)", part["expr"]))
        for key, value in part.items():
            if key not in ("args", "evidence", "weights"):
                yield from _uses(value, f"{path}.{key}" if path else key)
