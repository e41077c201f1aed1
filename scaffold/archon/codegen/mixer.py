"""What mixes tokens in the place of attention: modules of transformers, built from their config."""

from __future__ import annotations

from typing import cast

from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import Json, literal


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


def mixer_text(mixer: Json, source: Source, names: ModelNames) -> str:
    """Return the call that makes the mixer of a layer."""
    module, _, name = str(mixer["class"]).partition(":")
    source.use(module, name)
    source.use(names.shared("layers", "sequence_mixer"), "SequenceMixer")
    layer = ", layer_id" if mixer["by_layer"] else ""
    rows: list[str] = []
    for buffer, function in cast("list[list[str]]", mixer.get("buffers") or []):
        package, _, called = function.partition(":")
        source.use(package, called)
        rows.append(f"{literal(buffer)}: {called}")
    options = f", buffers={{{', '.join(rows)}}}" if rows else ""
    options += f", unread={literal(mixer['unread'])}" if mixer.get("unread") else ""
    return f"SequenceMixer({name}, args.mixer_config{layer}{options})"
