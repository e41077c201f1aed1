"""Refuse to measure a model that no rule for tiny configurations makes small."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from archon_probe.errors import ProbeError
from archon_probe.measure.random_weights import build_model
from archon_probe.measure.tiny import field_names

MOST_PARAMETERS = 2**22
"""More than twice those of the largest tiny model that is proven."""


def check_size(config: Any, real: Any) -> None:
    """Count the parameters of a tiny configuration before any of them exists.

    Args:
        config: The tiny one.
        real: What it was made from; a number that both have was not made small.

    Raises:
        ProbeError: They are too many; the error names the field that the largest one follows.
    """
    try:
        with torch.device("meta"):
            model = build_model(config)
    except Exception:
        return  # what keeps it from being built is reported where it is built with values
    parameters = dict(model.named_parameters())
    count = sum(parameter.numel() for parameter in parameters.values())
    if count <= MOST_PARAMETERS:
        return
    name = max(parameters, key=lambda name: parameters[name].numel())
    shape = list(parameters[name].shape)
    kept = dict(_numbers(real, "").items() & _numbers(config, "").items())
    source = next(_sources(kept, max(shape)), f"a size of {max(shape)}")
    raise ProbeError(
        f"no small {config.model_type} can be measured: {count:,} parameters are left where "
        f"{MOST_PARAMETERS:,} are the most; {source} gives {name} the shape {shape}",
        code="model_unsuited",
        hint=f"give a config.json in which {source.partition('=')[0]} is small",
    )


def differing(config: Any) -> str:
    """Return which sizes a configuration states for each layer by itself; "" for none.

    A field of transformers has one value then, which reading it as that of all layers refuses.
    """
    spec = getattr(config, "_heterogeneity_spec", None)
    if spec is None:
        return ""
    layers = list(config.per_layer_config)
    rows: list[str] = []
    for name in sorted(spec.per_layer_attributes):
        values = sorted({str(getattr(layer, name)) for layer in layers})
        rows.append(f"{name} ({', '.join(values)})")
    return f"its layers differ in {' and '.join(rows)}, and a size of some layers is not made small"


def _sources(numbers: dict[str, int], size: int) -> Iterator[str]:
    """Yield the fields that are a size, then those of which two make it."""
    yield from (f"{name}={value}" for name, value in numbers.items() if value == size)
    for one, other in itertools.combinations(sorted(numbers), 2):
        if numbers[one] * numbers[other] == size:
            yield f"{one}={numbers[one]} times {other}={numbers[other]}"


def _numbers(config: Any, prefix: str) -> dict[str, int]:
    """Return the whole numbers of a configuration and of those in it, under dotted names."""
    found: dict[str, int] = {}
    for name in field_names(config):
        value = getattr(config, name, None)
        if type(value) is int:
            found[prefix + name] = value
        elif hasattr(value, "to_dict") and not prefix:
            found |= _numbers(value, f"{name}.")
    return found
