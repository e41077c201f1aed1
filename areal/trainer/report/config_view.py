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
    """Returns a field of a dataclass or a key of a mapping; None where there is none."""
    if isinstance(config, Mapping):
        return config.get(name)
    return getattr(config, name, None)


def plain_config(config: Any, name: str = "") -> Any:
    """Returns a configuration as dicts, lists and scalars, with the values of secret keys hidden.

    Args:
        config: A dataclass, a mapping, a sequence or a scalar.
        name: The key that it stands under.
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
    """Returns dotted keys to values; an empty mapping and every list is a leaf."""
    if not isinstance(plain, Mapping) or not plain:
        return {prefix: plain} if prefix else {}
    found: dict[str, Any] = {}
    for key, value in plain.items():
        found.update(leaves(value, f"{prefix}.{key}" if prefix else str(key)))
    return found


def changed_leaves(config: Any) -> dict[str, Any]:
    """Returns the leaves that differ from the defaults of the configuration's class.

    Of a mapping, which has no defaults, every leaf counts as changed; so do all leaves of a block
    whose default is None.
    """
    present = leaves(plain_config(config))
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return present
    default = leaves(_plain_defaults(type(config)))
    absent = object()
    return {key: value for key, value in present.items() if default.get(key, absent) != value}


def _plain_defaults(cls: type) -> dict[str, Any]:
    """Returns the plain defaults of a dataclass; a field without a default is left out."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            found[field.name] = plain_config(field.default, field.name)
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = plain_config(field.default_factory(), field.name)
    return found
