"""Switches that come from environment variables."""

from __future__ import annotations

import os

_TRUE = ("1", "on", "true", "yes")
_FALSE = ("", "0", "false", "no", "off")


def env_flag(name: str, default: bool = False) -> bool:
    """Return an environment variable as a switch.

    Raises:
        ValueError: It is set to something that is neither yes nor no.
    """
    value = os.environ.get(name)
    if value is None:
        return default
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise ValueError(f"{name} must be one of {_TRUE} or {_FALSE}, not {value!r}")


def is_single_controller() -> bool:
    """Return True unless every process runs the whole program by AREAL_SPMD_MODE."""
    return not env_flag("AREAL_SPMD_MODE")
