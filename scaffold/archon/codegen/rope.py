"""``model/rope.py``: the rotary positions of a model, and the names that other code imports."""

from __future__ import annotations

from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import Json

SHARED = ("RopeArgs", "RopeTable", "RotaryEmbedding", "apply_rotary")
CONTRACT = (
    "apply_rotary_emb",
    "precompute_rope_cache",
    "repeat_kv",
    "reshape_for_broadcast",
    "rotate_half",
)
"""Functions that code written for AReaL imports from a model's rope module."""


def rope_file(design: Json, names: ModelNames) -> str:
    """Returns ``model/rope.py``; empty where the model has no rotary positions."""
    if not design.get("ropes"):
        return ""
    source = Source(f"Rotary positions of {names.prefix}.", names.first_party, annotations=False)
    exported = sorted([*SHARED, *CONTRACT], key=lambda name: (name.islower(), name))
    source.use(names.shared("layers", "rope"), *exported)
    rows = "\n".join(f'    "{name}",' for name in exported)
    source.add(f"__all__ = [\n{rows}\n]")
    return source.text()
