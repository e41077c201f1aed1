"""Cache what was found of a module, for the next one that is built and set up the same way.

Two modules of the same classes, attributes and shapes of tensors compute the same
function of their weights if the fields of the config that they read while they run are equal
too. A model has many such layers, and most variations of a config do not reach its experts.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

_PLAIN = (int, float, str, bool, type(None), torch.dtype)


class WatchedConfig:
    """A config that records which of its fields are read.

    Args:
        config: Whose fields it shows.
        read: Gets their names.
    """

    def __init__(self, config: Any, read: set[str]) -> None:
        # Past `__getattr__`, which would look the name up in the configuration.
        object.__setattr__(self, "_watched", (config, read))

    def __getattr__(self, name: str) -> Any:
        config, read = object.__getattribute__(self, "_watched")
        if not name.startswith("__"):
            read.add(name)
        return getattr(config, name)


class Place(NamedTuple):
    """The place of a tensor's numbers in another one: its name, and the view of it."""

    name: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


def place_of(view: Tensor, tensors: dict[str, Tensor]) -> Place:
    """Return the place of a view's numbers."""
    memory = view.untyped_storage().data_ptr()
    owners = (n for n, t in tensors.items() if t.untyped_storage().data_ptr() == memory)
    return Place(next(owners), tuple(view.shape), view.stride(), view.storage_offset())


_findings: dict[Any, list[tuple[dict[str, str], dict[str, Any], dict[str, Place]]]] = {}
"""By what a module is: fields of the config with their values, and what was found under them."""


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers of real numbers by name."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {n: t for n, t in named if t.is_floating_point()}


def remembered(
    module: nn.Module,
    config: Any,
    look: Callable[[set[str]], tuple[dict[str, Any], dict[str, Place]]],
) -> dict[str, Any]:
    """Return what is known of a module like this one, or look at it and remember.

    Args:
        module: To describe.
        config: Its model's, or None.
        look: Describes it, and adds the config's fields that the module read to the set it gets.

    Returns:
        The description, with the module's own tensors.
    """
    parts = tuple((n, type(p), tuple(_attributes(p))) for n, p in module.named_modules())
    shapes = tuple((n, tuple(t.shape)) for n, t in tensors_of(module).items())
    # Activations are called by the name that the config uses, so its words count too.
    fields = config.to_dict().values() if hasattr(config, "to_dict") else ()
    key = (parts, shapes, tuple(v for v in fields if isinstance(v, str)))
    kept = (getattr(part, "config", None) for part in module.modules())
    configs = [c for c in kept if c is not None]

    def value(name: str) -> str:
        return repr(getattr(configs[0], name, None)) if configs else ""

    known = _findings.setdefault(key, [])
    fits = (each for each in known if all(value(n) == v for n, v in each[0].items()))
    if (finding := next(fits, None)) is None:
        read: set[str] = set()
        found, places = look(read)
        finding = {n: value(n) for n in read}, found, places
        known.append(finding)
    _, found, places = finding
    # The strides are those of views of contiguous numbers.
    own = {n: t.detach().contiguous().float() for n, t in tensors_of(module).items()}
    tensors = {
        name: own[place.name].as_strided(place.size, place.stride, place.offset).clone()
        for name, place in places.items()
    }
    # Callers write into what they get.
    return {**copy.deepcopy(found), "tensors": tensors}


def _attributes(part: nn.Module) -> Iterator[tuple[str, str]]:
    for name, value in sorted(vars(part).items()):
        if name == "training" or isinstance(value, dict):
            continue
        if isinstance(value, (*_PLAIN, list, tuple)):
            yield name, repr(value)
        elif callable(value) and not isinstance(value, nn.Module):
            yield name, f"{id(value)}"  # a function has no other identity
