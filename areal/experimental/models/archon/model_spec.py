"""What an Archon model brings: its classes and functions, found by Hugging Face model_type."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from areal.api.registry import import_from_string, nearest_names
from areal.experimental.models.archon import ARCHON_MODELS


@dataclass(frozen=True)
class ModelSpec:
    """Bundles all that the trainer needs of one model.

    Attributes:
        name: Folder of the model below ``archon``.
        supported_model_types: Values of ``config.model_type`` that it implements.
        parallelize_fn: Applies TP, EP, CP, activation checkpointing, compile and FSDP2, in place.
        pipelining_fn: Cuts the model into pipeline stages; None where the model has none.
    """

    name: str
    model_class: type
    model_args_class: type
    state_dict_adapter_class: type
    parallelize_fn: Callable[..., Any]
    supported_model_types: frozenset[str]
    pipelining_fn: Callable[..., Any] | None = None


# Where a project names its own table of models, as `scaffold new` writes it.
ENTRY_POINTS = "areal.archon_models"

# Specs that were registered by hand, beside the table of the package.
_REGISTERED: dict[str, ModelSpec] = {}


def register_model_spec(spec: ModelSpec) -> ModelSpec:
    """Add a spec that is in no table, such as that of a model outside of this package.

    Raises:
        ValueError: One of its model types is taken by another spec.
    """
    for model_type in sorted(spec.supported_model_types):
        if model_type in _REGISTERED and _REGISTERED[model_type] is not spec:
            raise ValueError(
                f"model_type {model_type!r} is registered by {_REGISTERED[model_type].name!r} and "
                f"cannot be registered by {spec.name!r} too"
            )
        if model_type in ARCHON_MODELS:
            raise ValueError(
                f"model_type {model_type!r} is in ARCHON_MODELS ({ARCHON_MODELS[model_type]}); "
                f"change that line instead of registering {spec.name!r}"
            )
    for model_type in spec.supported_model_types:
        _REGISTERED[model_type] = spec
    return spec


def get_model_spec(model_type: str) -> ModelSpec:
    """Return the spec of a Hugging Face model_type.

    A project's own model of a type comes before the one that this package has.

    Raises:
        KeyError: No model implements it; the message lists those that exist.
    """
    if model_type in _REGISTERED:
        return _REGISTERED[model_type]
    table = _known_models()
    if model_type in table:
        return import_from_string(table[model_type])
    known = nearest_names(model_type, get_supported_model_types())
    raise KeyError(
        f"no Archon model for model_type {model_type!r}{known} "
        f"(`scaffold add-archon-model {model_type}` writes one)"
    )


def is_supported_model(model_type: str) -> bool:
    """Return whether an Archon model implements this model_type."""
    return model_type in _REGISTERED or model_type in _known_models()


def get_supported_model_types() -> frozenset[str]:
    """Return every model_type that an Archon model implements."""
    return frozenset(_known_models()) | frozenset(_REGISTERED)


def _known_models() -> dict[str, str]:
    return ARCHON_MODELS | _project_models(tuple(sys.path))


@cache
def _project_models(search_path: tuple[str, ...]) -> dict[str, str]:
    """Return the tables of installed projects, and of those that folders on the path hold."""
    found: dict[str, str] = {}
    for entry in (*entry_points(group=ENTRY_POINTS), *_declared(search_path)):
        found |= entry.load()
    return found


def _declared(search_path: tuple[str, ...]) -> Iterator[EntryPoint]:
    """Yield the entry points of projects that are run from their folder and not installed."""
    for folder in search_path:
        path = Path(folder) / "pyproject.toml"
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        if ENTRY_POINTS in text:
            points = tomllib.loads(text).get("project", {}).get("entry-points", {})
            for name, value in points.get(ENTRY_POINTS, {}).items():
                yield EntryPoint(name, value, ENTRY_POINTS)
