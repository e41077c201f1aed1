"""Qwen3 across devices."""

from __future__ import annotations

from typing import Any

from torch import nn

from areal.api.errors import ConfigError


def parallelize_qwen3(model: nn.Module, parallel_dims: Any, **kwargs: Any) -> nn.Module:
    """Applies parallelism in place.

    Raises:
        ConfigError: More than one device is asked for.
    """
    if parallel_dims is not None and parallel_dims.world_size > 1:
        raise ConfigError("qwen3 runs on one device")
    return model
