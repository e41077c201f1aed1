"""Files of data as values: YAML, JSON and TOML."""

from __future__ import annotations

import json
import tomllib
from typing import Any, cast

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.yaml_depth import check_depth


def load_data(path: str, files: Files) -> Any:
    """Return what a file of data holds; None where it cannot be read as one value."""
    text = files.text(path) or ""
    try:
        if path.endswith(".json"):
            return json.loads(text)
        if path.endswith(".toml"):
            return tomllib.loads(text)
        return _load_yaml(text)
    except (ValueError, RecursionError):
        return None


def _load_yaml(text: str) -> Any:
    import yaml  # costs 25 ms: only files of YAML need it

    library: Any = yaml  # its stubs leave the loaders untyped
    # PyYAML built without libyaml lacks the C loader.
    loader = getattr(library, "CSafeLoader", library.SafeLoader)
    try:
        check_depth(text, library, loader)
        return library.load(text, Loader=loader)
    # A YAML error is no ValueError, so the caller's handler would miss it.
    except yaml.YAMLError:
        return None


def known_part(value: Any, key: str) -> int | None:
    """Return how many parts of a dotted key a value has; None where a list is in the way."""
    parts = key.split(".")
    for number, part in enumerate(parts):
        if isinstance(value, list):
            return None
        mapping = cast("dict[Any, Any]", value) if isinstance(value, dict) else {}
        if part not in mapping:
            # A key may hold dots itself: "a.b": 1.
            rest = ".".join(parts[number:])
            return len(parts) if rest in mapping else number
        value = mapping[part]
    return len(parts)
