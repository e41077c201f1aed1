"""A configuration as a person may see it: plain data, no secrets, what differs from defaults."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

HIDDEN = "(hidden)"
_SECRET = re.compile(r"(api_?key|secret|passw(or)?d|credential|(^|_)token)$", re.IGNORECASE)


def find_block(config: Any, name: str) -> Any:
    """Return a field of a dataclass or a key of a mapping; None where there is none."""
    if isinstance(config, Mapping):
        return config.get(name)
    return getattr(config, name, None)


def plain_config(config: Any, name: str = "") -> Any:
    """Return a configuration as dicts, lists and scalars, with the values of secret keys hidden.

    Args:
        config: A dataclass, a mapping, a sequence or a scalar.
        name: The key that it is under.
    """
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        fields = dataclasses.fields(config)
        return {f.name: plain_config(getattr(config, f.name), f.name) for f in fields}
    if isinstance(config, Mapping):
        return {str(key): plain_config(value, str(key)) for key, value in config.items()}
    if isinstance(config, (list, tuple, set, frozenset)):
        return [plain_config(value, name) for value in config]
    if isinstance(config, str) and config and _SECRET.search(name):
        return HIDDEN
    if isinstance(config, Enum):
        return plain_config(config.value, name)
    if config is None or isinstance(config, (bool, int, float, str)):
        return config
    return str(config)


def leaves(plain: Any, prefix: str = "") -> dict[str, Any]:
    """Return dotted keys to values; an empty mapping and every list is a leaf."""
    if not isinstance(plain, Mapping) or not plain:
        return {prefix: plain} if prefix else {}
    found: dict[str, Any] = {}
    for key, value in plain.items():
        found.update(leaves(value, f"{prefix}.{key}" if prefix else str(key)))
    return found


def changed_leaves(config: Any) -> dict[str, Any]:
    """Return the leaves that somebody or something set to another value than the default.

    A block whose default is None is compared with its own class. Of a mapping, which has no
    defaults, every leaf counts. A name or folder that a block repeats from the top is left out.
    """
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return leaves(plain_config(config))
    changed = leaves(_changed(config))
    top = {name: find_block(config, name) for name in ("experiment_name", "trial_name")}
    top["fileroot"] = find_block(find_block(config, "cluster"), "fileroot")
    return {
        key: value
        for key, value in changed.items()
        if key.count(".") == 0 or key == "cluster.fileroot" or value != top.get(key.split(".")[-1])
    }


def _changed(config: Any, default: Any = None) -> dict[str, Any]:
    """Return the fields of a dataclass that are not at their default, as nested plain data.

    Args:
        config: An instance.
        default: The instance to compare with; the class's own defaults where of another type.
    """
    found: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        usual = getattr(default, field.name) if type(default) is type(config) else _default(field)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            if nested := _changed(value, usual):
                found[field.name] = nested
        elif value != usual:
            found[field.name] = plain_config(value, field.name)
    return found


def _default(field: dataclasses.Field[Any]) -> Any:
    """Return a field's default; a field without one equals nothing."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
