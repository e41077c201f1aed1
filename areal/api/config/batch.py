"""How a batch is split and normalised."""

from __future__ import annotations

from dataclasses import dataclass

from areal.api.config.check import above, at_least, one_of

_LEVELS = ("batch", "group")


@dataclass
class NormConfig:
    """What a quantity is centred and scaled over.

    ``mean_level`` and ``std_level`` are "batch", "group" (of ``group_size`` neighbours) or null for
    neither. ``mean_leave1out`` leaves the sample itself out of the mean it is compared with, and
    has no effect without one.
    """

    mean_level: str | None = "batch"
    mean_leave1out: bool = False
    std_level: str | None = "batch"
    std_unbiased: bool = True
    eps: float = 1e-5
    group_size: int = 1

    def __post_init__(self) -> None:
        for name in ("mean_level", "std_level"):
            if getattr(self, name) is not None:
                one_of(self, name, _LEVELS)
        at_least(self, 0, "eps")
        at_least(self, 1, "group_size")


@dataclass
class MicroBatchSpec:
    """How a batch is split into micro-batches that fit into memory.

    Whichever asks for more micro-batches decides: ``n_mbs`` or ``max_tokens_per_mb``.
    ``granularity`` sequences stay together, and the number is a multiple of ``n_mbs_divisor``.
    """

    n_mbs: int | None = 1
    granularity: int = 1
    max_tokens_per_mb: int | None = None
    n_mbs_divisor: int = 1
    packing_algorithm: str = "ffd"

    def __post_init__(self) -> None:
        at_least(self, 1, "n_mbs", "granularity", "n_mbs_divisor")
        above(self, 0, "max_tokens_per_mb")
        one_of(self, "packing_algorithm", ("ffd", "kk"))
