"""Cache what was found of a module, for the next one that is built and set up the same way.

Two modules of the same classes, attributes and shapes of tensors compute the same
function of their weights if the fields of the config that they read while they run are equal
too. A model has many such layers, and most variations of a config do not reach its experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Place:
    """The place of a tensor's numbers in another one.

    Args:
        name: Of the other one.
        size: Of the tensor.
        stride: Of the tensor in the other one's storage.
        offset: Of its first number.
    """

    name: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def read(self, tensors: dict[str, Tensor]) -> Tensor:
        """Return the tensor, of a module of the same shapes."""
        # The strides are those of a view of contiguous numbers.
        source = tensors[self.name].detach().contiguous().float()
        return source.as_strided(self.size, self.stride, self.offset).clone()


def place_of(view: Tensor, tensors: dict[str, Tensor]) -> Place:
    """Return the place of a view's numbers."""
    for name, tensor in tensors.items():
        if tensor.untyped_storage().data_ptr() == view.untyped_storage().data_ptr():
            return Place(name, tuple(view.shape), view.stride(), view.storage_offset())
    raise AssertionError("a tensor that is not a view of the module's")


@dataclass
class _Finding:
    fields: dict[str, Any]
    found: dict[str, Any]
    places: dict[str, Place]


_findings: dict[Any, list[_Finding]] = {}


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
    for finding in _findings.get(key, ()):
        if all(_value(configs, n) == v for n, v in finding.fields.items()):
            return _with_tensors(finding, module)
    read: set[str] = set()
    found, places = look(read)
    finding = _Finding({n: _value(configs, n) for n in read}, found, places)
    _findings.setdefault(key, []).append(finding)
    return _with_tensors(finding, module)


def _with_tensors(finding: _Finding, module: nn.Module) -> dict[str, Any]:
    tensors = tensors_of(module)
    # Callers write into what they get.
    copied = {k: v.copy() if isinstance(v, (dict, list)) else v for k, v in finding.found.items()}
    return copied | {"tensors": {n: place.read(tensors) for n, place in finding.places.items()}}


def _value(configs: list[Any], name: str) -> str:
    return repr(getattr(configs[0], name, None)) if configs else ""


def _attributes(part: nn.Module) -> Iterator[tuple[str, str]]:
    for name, value in sorted(vars(part).items()):
        if name == "training" or isinstance(value, dict):
            continue
        if isinstance(value, (*_PLAIN, list, tuple)):
            yield name, repr(value)
        elif callable(value) and not isinstance(value, nn.Module):
            yield name, f"{id(value)}"  # a function has no other identity
