"""What starts workers, here or on other machines, and calls the engines in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from areal.api.registry import lazy_exports

if TYPE_CHECKING:
    from areal.infra.scheduler.local import LocalScheduler
    from areal.infra.scheduler.ray import RayScheduler
    from areal.infra.scheduler.slurm import SlurmScheduler

# By class name, and the value of ``scheduler.type`` by which a run chooses it.
SCHEDULERS: dict[str, str] = {
    "local": "areal.infra.scheduler.local:LocalScheduler",
    "ray": "areal.infra.scheduler.ray:RayScheduler",
    "slurm": "areal.infra.scheduler.slurm:SlurmScheduler",
}

_LAZY_IMPORTS: dict[str, str] = {
    path.partition(":")[2]: path.partition(":")[0] for path in SCHEDULERS.values()
}

__all__ = ["SCHEDULERS", "LocalScheduler", "RayScheduler", "SlurmScheduler"]

__getattr__, __dir__ = lazy_exports(__name__, _LAZY_IMPORTS)
