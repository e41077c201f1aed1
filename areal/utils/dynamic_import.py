"""From dotted paths to objects, under AReaL's name."""

from __future__ import annotations

from areal.api.registry import import_from_string

__all__ = ["import_from_string"]
