"""What of a configuration is refused, and what has no effect."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from areal.api.config.field_places import PLACES, SERVER_KEYS, has_scheduler, has_servers
from areal.api.config.field_table import FIELD_TABLE, Entry, Ignored, Read, Refused
from areal.api.errors import ConfigError

# An evaluation has the sampling of training unless it is told otherwise.
_COPIED_KEYS = ("drop_incomplete_group", "reward_normalization", "skip_special_tokens")


def entry_of(cls: type, name: str) -> Entry:
    """Return what becomes of a field, wherever among the classes it inherits it is declared."""
    for owner in cls.__mro__:
        entry = FIELD_TABLE.get(owner.__name__, {}).get(name)
        if entry is not None:
            return entry
    raise KeyError(f"{cls.__name__}.{name} is not in the table of fields")


def without_own_fields(config: Any) -> Any:
    """Return a configuration without what a script's own subclasses of ours add to it."""
    ours = _class_of_ours(type(config))
    values = {option.name: getattr(config, option.name) for option in dataclasses.fields(ours)}
    for name, value in values.items():
        if dataclasses.is_dataclass(value):
            values[name] = without_own_fields(value)
    return ours(**values)


def _class_of_ours(cls: type) -> Any:
    return next((owner for owner in cls.__mro__ if owner.__module__.startswith("areal.")), None)


class Refusal(NamedTuple):
    """A key that was set to what would change the run and cannot.

    Attributes:
        key: Dotted.
        message: Names the key, its value and what to do instead.
        default: The value that asks for nothing.
    """

    key: str
    message: str
    default: Any


def refusals(config: Any) -> list[Refusal]:
    """Return every key of an experiment's configuration that is refused."""
    found = []
    for key, value, default, entry in _set_fields(config):
        if has_scheduler(config) and key == "cluster.n_nodes":
            continue
        instead = _refusal(entry, value)
        if instead is not None:
            shown = key if dataclasses.is_dataclass(value) else f"{key} {value!r}"
            found.append(Refusal(key, f"{shown} is not available here: {instead}", default))
    return found


def check_fields(config: Any) -> None:
    """Refuse what would change the run and cannot.

    Args:
        config: Of an experiment.

    Raises:
        ConfigError: It names every such key, its value and what to do instead.
    """
    if problems := [refusal.message for refusal in refusals(config)]:
        raise ConfigError("\n".join(problems))


def ignored_keys(config: Any, asks_servers: bool = False) -> list[str]:
    """Return the keys that were set and have no effect; the table has the reasons.

    Args:
        config: Of an experiment.
        asks_servers: Whether rollouts come from servers that ran already.
    """
    is_embedded = not (asks_servers or has_servers(config))
    found = [
        key
        for key, _, _, entry in _set_fields(config)
        if isinstance(entry, Ignored) or (is_embedded and key in SERVER_KEYS)
    ]
    sampling = getattr(config, "gconfig", None), getattr(config, "eval_gconfig", None)
    copied = {
        f"eval_gconfig.{name}"
        for name in (_COPIED_KEYS if all(sampling) else ())
        if getattr(sampling[0], name) == getattr(sampling[1], name)
    }
    return [key for key in found if key not in copied]


def _refusal(entry: Entry, value: Any) -> str | None:
    if isinstance(entry, Refused):
        return None if value in entry.accepted else entry.instead
    refused = entry.refused if isinstance(entry, Read) else ()
    return next((instead for each, instead in refused if each == value), None)


def _set_fields(config: Any) -> Iterator[tuple[str, Any, Any, Entry]]:
    """Yield dotted key, value, default and entry of all fields that differ from their default.

    Fields that a script's own class adds are the script's. A section counts for itself only where
    it is null by default and set, or where nothing reads it; then all below it counts.
    """
    names = {
        "experiment_name": config.experiment_name,
        "trial_name": config.trial_name,
        "fileroot": config.cluster.fileroot,
    }
    yield from _below(config, None, "", None, names, config)


def _below(
    section: Any,
    default: Any,
    prefix: str,
    above: Ignored | None,
    names: dict[str, str],
    config: Any,
) -> Iterator[tuple[str, Any, Any, Entry]]:
    ours = _class_of_ours(type(section))
    if ours is None:
        return
    default = default or ours()
    for option in dataclasses.fields(ours):
        key = prefix + option.name
        value, usual = getattr(section, option.name), getattr(default, option.name)
        if option.name in names and names[option.name] == value:
            continue
        entry = entry_of(ours, option.name)
        if _refusal(entry, value) is None:  # else it is refused wherever it is written
            entry = above or _not_read_there(section, key, config) or entry
        if not dataclasses.is_dataclass(value):
            if value != usual:
                yield key, value, usual, entry
            continue
        if usual is None:
            yield key, value, usual, entry
        if isinstance(entry, Refused):
            continue  # there is nothing more to find
        ignored = entry if isinstance(entry, Ignored) else None
        for found in _below(value, usual, key + ".", ignored, names, config):
            # All of an ignored section is; what is refused, is refused there too.
            if not (usual is None and isinstance(found[-1], Ignored) and ignored):
                yield found


def _not_read_there(section: Any, key: str, config: Any) -> Ignored | None:
    """Return the reason why a key that is read elsewhere has no effect where it is."""
    found = (place for place in PLACES if key in place.keys and place.applies(config, section))
    return next((place.ignored for place in found), None)
