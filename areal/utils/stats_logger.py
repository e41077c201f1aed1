"""``StatsLogger`` under the module that AReaL gives it."""

from __future__ import annotations

from areal.api.registry import lazy_exports

# It reports as the trainers do, which lie above this package.
__getattr__, __dir__ = lazy_exports(__name__, {"StatsLogger": "areal.trainer.report.stats_logger"})
