"""What was found out about a model, for people: each decision with its evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

Design = Mapping[str, Any]
MAX_VALUE = 60


def explain_lines(design: Design) -> tuple[str, ...]:
    """Return each decision with its evidence, and what is unknown, as lines.

    Args:
        design: What `archon_probe derive` found.
    """
    source = cast("dict[str, str]", design.get("source", {}))
    rows = [
        f"{design['model_type']}: {source.get('model_class', '?')} of transformers "
        f"{source.get('transformers', '?')} ({source.get('file', '?')})"
    ]
    for row in cast("list[dict[str, Any]]", design.get("evidence", [])):
        evidence = ": ".join(filter(None, [str(row.get("kind", "fact")), str(row.get("how", ""))]))
        rows.append(f"{row['decision']} = {_short(row.get('value'))}  ({evidence})")
    refusals = cast("list[dict[str, Any]]", design.get("refusals", []))
    rows += [f"refused: {row['condition']}" for row in refusals]
    rows += unknown_lines(design)
    return tuple(rows)


def unknown_lines(design: Design) -> list[str]:
    """Return what could not be decided, with the place in the source of transformers."""
    rows: list[str] = []
    for row in cast("list[dict[str, Any]]", design.get("unknown", [])):
        lines = f" ({row['lines']})" if row.get("lines") else ""
        rows.append(f"unknown: {row.get('module', '?')}: {row.get('what', '?')}{lines}")
    return rows


def features(design: Design) -> tuple[str, ...]:
    """Return the features that a design has, for tables; found in the design and nowhere else."""
    attention = cast("dict[str, Any]", design.get("attention") or {})
    block = cast("dict[str, Any]", design.get("block") or {})
    embedding = cast("dict[str, Any]", design.get("embedding") or {})
    positions = cast("dict[str, Any]", embedding.get("positions") or {})
    mlp = cast("dict[str, Any]", design.get("mlp") or {})
    kinds = {row.get("kind") for row in cast("list[dict[str, Any]]", block.get("modules", []))}
    tests: dict[str, Any] = {
        "encoder": design.get("encoder"),
        "token mixers": design.get("mixer"),
        "experts": design.get("moe") or "moe" in kinds,
        "latent attention": attention.get("kind") == "mla",
        "ALiBi": _is_there(attention.get("alibi")),
        "learned positions": positions.get("kind") == "learned",
        "sinusoidal positions": positions.get("kind") == "sinusoidal",
        "windows": attention.get("window") is not None or attention.get("chunk") is not None,
        "sinks": _is_there(attention.get("sinks")),
        "softcap": attention.get("softcap") is not None,
        "q/k norm": _is_there(attention.get("q_norm")),
        "gate": _is_there(attention.get("gate")),
        "not gated": mlp and mlp.get("gated") is False,
    }
    return tuple(name for name, found in tests.items() if found)


def _is_there(part: Any) -> bool:
    """Return whether a design has a part, always or for some configurations."""
    return bool(part) and cast("dict[str, Any]", part).get("when", True) is not False


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        row = cast("Mapping[str, Any]", value)
        for key in ("arg", "layer_arg", "expr"):
            if set(row) == {key}:
                return str(row[key])
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 3] + "..."
