"""Train engines for Hugging Face models under the names that AReaL gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.engine.training.by_config import FSDPEngine

_LAZY_IMPORTS: dict[str, str] = {
    "FSDPEngine": "areal.engine.training.by_config",
}

__all__ = ["FSDPEngine"]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
