"""The configuration's dataclasses read as a schema: which keys exist, and what each may hold."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from areal.api.constants import MISSING

# Keys that name the run: required in many sections, and the same in all of them.
INHERITED_KEYS = ("experiment_name", "trial_name", "fileroot")


@cache
def key_types(cls: type) -> dict[str, Any]:
    """Return the annotation of each field of a dataclass."""
    hints = get_type_hints(cls)
    return {option.name: hints[option.name] for option in dataclasses.fields(cls)}


def section_type(annotation: Any) -> type | None:
    """Return the dataclass that an annotation ``X`` or ``X | None`` names, if it is one."""
    for kind in _alternatives(annotation):
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return kind
    return None


def holds(annotation: Any, kind: type) -> bool:
    """Return True where a value must be a mapping (``kind`` dict) or a list (``kind`` list)."""
    given = [one for one in _alternatives(annotation) if one is not type(None)]
    if kind is dict:
        return all(
            dataclasses.is_dataclass(one) or (get_origin(one) or one) is dict for one in given
        )
    return all((get_origin(one) or one) in (list, tuple) for one in given)


def item_type(annotation: Any) -> type | None:
    """Return the dataclass that a list or tuple of this annotation holds, if it does."""
    for kind in _alternatives(annotation):
        if get_origin(kind) in (list, tuple) and get_args(kind):
            return section_type(get_args(kind)[0])
    return None


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def sections(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted key and instance of every section below a configuration, outer ones first."""
    for option in dataclasses.fields(config):
        value = getattr(config, option.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            key = prefix + option.name
            yield key, value
            yield from sections(value, key + ".")


def get_or_make(section: Any, name: str) -> Any:
    """Return a section's subsection, made with its defaults where it is null."""
    if getattr(section, name) is None:
        owner: type = type(section)
        kind = section_type(key_types(owner)[name])
        assert kind is not None, f"{owner.__name__}.{name} is not a section"
        setattr(section, name, kind())
    return getattr(section, name)


def inherit_names(config: Any, fileroot: str) -> None:
    """Give the run's names to every section that was given none.

    Args:
        config: Has ``experiment_name`` and ``trial_name``; its sections are changed.
        fileroot: For the sections that have one.
    """
    names = {
        "experiment_name": config.experiment_name,
        "trial_name": config.trial_name,
        "fileroot": fileroot,
    }
    for _, section in sections(config):
        for key in INHERITED_KEYS:
            if getattr(section, key, "set") in (MISSING, None):
                setattr(section, key, names[key])
