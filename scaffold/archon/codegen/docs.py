"""What the fields of a model's arguments are for, told by where a design uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from scaffold.archon.codegen.values import Json

STANDARD: Mapping[str, str] = {
    "dim": "Dimension of the hidden representations.",
    "n_layers": "Number of hidden layers in the Transformer decoder.",
    "n_heads": "Number of attention heads for each attention layer.",
    "n_kv_heads": "Number of key_value heads for each attention layer.",
    "head_dim": "The attention head dimension.",
    "hidden_dim": "Dimension of the MLP representations.",
    "vocab_size": "Vocabulary size of the model.",
    "norm_eps": "The epsilon used by the normalization layers.",
    "max_seq_len": "The maximum sequence length that the model might ever be used with.",
    "enable_weight_tying": "Whether to tie the output layer to the word embeddings.",
    "eos_id": "Token id used for end-of-stream in the vocabulary.",
}
"""What the fields that every model has are for."""

_DOCS: Mapping[str, str] = {
    "embedding.multiplier": "What embeddings are multiplied by.",
    "embedding.padding_idx": "Token id used for padding in the vocabulary.",
    "embedding.projection.when": "Whether embeddings are mapped to the hidden representations.",
    "embedding.projection.dim": "Dimension of the embeddings.",
    "embedding.token_types.size": "Number of types of tokens; all have the first one.",
    "embedding.positions.size": "Number of positions that have an embedding.",
    "embedding.positions.when": "Whether positions have embeddings.",
    "embedding.norm.when": "Whether embeddings are normed.",
    "attention.q_bias": "Whether to use a bias in the attention projection layers.",
    "attention.k_bias": "Whether to use a bias in the key projection layer.",
    "attention.o_bias": "Whether to use a bias in the output projection layer of attention.",
    "attention.n_heads": "Number of attention heads.",
    "attention.n_kv_heads": "Number of key_value heads.",
    "attention.head_dim": "The attention head dimension.",
    "attention.v_head_dim": "Dimension of the value heads.",
    "attention.q_lora_rank": "Rank of the LoRA matrices for query projections; None for none.",
    "attention.kv_lora_rank": "Rank of the LoRA matrices for key and value projections.",
    "attention.qk_nope_head_dim": "Dimension of the query/key heads that do not rotate.",
    "attention.qk_rope_head_dim": "Dimension of the query/key heads that rotate.",
    "attention.q_multiplier": "What queries are multiplied by.",
    "attention.kv_multiplier": "What the latent state of keys and values is multiplied by.",
    "attention.q_a_bias": "Whether to use a bias in the attention projection layers.",
    "attention.clip_qkv.limit": "Bound of queries, keys and values; None for none.",
    "attention.q_norm.when": "Whether queries and keys are normed.",
    "attention.rope.when": "Whether to use rotary position embeddings.",
    "attention.rope.key": "Layer type, each with RoPE parameters of its own.",
    "ropes.rope.pairing": "Whether rotary position embeddings rotate interleaved pairs.",
    "attention.scale": "Scaling factor used on the attention scores.",
    "attention.softcap": "Tanh soft-capping value of the attention scores; None for none.",
    "attention.window": "Sliding window attention window size; None for no window.",
    "attention.chunk": "Chunk size of chunked attention; None for no chunks.",
    "attention.sinks.when": "Whether heads can attend to nothing.",
    "attention.alibi.when": "Whether scores fall with distance.",
    "attention.alibi.max_bias": "Exponent that the slopes over distance reach.",
    "attention.gate.when": "Whether a gate scales the output of attention.",
    "attention.gate.per": "What has a gate of its own: each head, or each dim of all heads.",
    "attention.temperature.when": "Whether queries grow with the logarithm of the position.",
    "attention.temperature.scale": "How much queries grow for each e-fold of positions.",
    "attention.temperature.floor": "Positions before queries start to grow.",
    "attention.value_scale": "What values are multiplied by.",
    "mlp.activation": "The non-linear activation function in the decoder.",
    "mlp.bias": "Whether to use a bias in the MLP layers.",
    "mlp.gate_bias": "Whether to use a bias in the MLP layers.",
    "mlp.up_bias": "Whether to use a bias in the MLP layers.",
    "mlp.down_bias": "Whether to use a bias in the last MLP layer.",
    "mlp.hidden_dim": "Dimension of the MLP representations.",
    "moe.hidden_dim": "Intermediate size of the routed expert MLPs.",
    "head.pooling": "What is scored: the first state (cls), the mean (mean), or each (late).",
    "head.bias": "Whether to use a bias in the output layer.",
    "head.multiplier": "What logits are multiplied by.",
    "head.softcap": "Tanh soft-capping value of the logits; None for none.",
    "block.modules.norm.kind": "Whether norms are RMS norms or layer norms: rms or layer.",
    "head.norm.kind": "Whether norms are RMS norms or layer norms: rms or layer.",
    "head.norm.when": "Whether the last states are normed.",
    "block.variants.steps.sum": "What a branch is multiplied by before it is added.",
    "block.variants.when": "Whether blocks add their branches in this order.",
}
_MODULES = {
    "attention": "Whether a block attends.",
    "mixer": "Whether a block mixes tokens in another way than attention.",
    "moe": "Whether a block has experts.",
    "mlp": "Whether a block has a feed-forward.",
    "norm": "Whether a block has this norm.",
}


def field_docs(design: Json) -> dict[str, str]:
    """Return what is known of the fields that a design uses, by name."""
    found: dict[str, str] = {}
    for name, path in _uses(design, ""):
        doc = _DOCS.get(path)
        if doc and name not in found and name not in (design.get("ropes") or {}):
            found[name] = _by_layer(doc, design, name)
    for module in design["block"]["modules"]:
        when = module.get("when")
        # An expression may read several fields, of which none is the condition alone.
        if isinstance(when, Mapping) and "expr" not in when:
            name = next(_uses(when, ""))[0]
            found.setdefault(name, _by_layer(_MODULES[str(module["kind"])], design, name))
    return {name: doc for name, doc in found.items() if doc}


def _by_layer(doc: str, design: Json, name: str) -> str:
    """Return a description that mentions it where each layer has a value of its own."""
    kinds = (str(each["type"]) for each in design["args"] if each["name"] == name)
    return f"By layer: {doc[:1].lower()}{doc[1:]}" if next(kinds, "").startswith("tuple") else doc


def _uses(part: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each argument that a part of a design reads, and the path of the option."""
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
