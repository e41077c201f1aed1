"""Collects statistics by name while a step runs, and reduces them when it is over.

``scalar`` takes plain numbers and averages them. ``stat`` takes a tensor with one value per token
or per sequence, together with the name of a boolean ``denominator`` for which of them count.
Scopes put a path before the names. Trackers are safe to use from any thread; the scope belongs to
the thread or task that opened it.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

F = TypeVar("F", bound=Callable[..., Any])


class ReduceType(enum.Enum):
    """What becomes of many values under one name."""

    AVG_MIN_MAX = enum.auto()
    AVG = enum.auto()
    SUM = enum.auto()
    MIN = enum.auto()
    MAX = enum.auto()
    SCALAR = enum.auto()


@dataclass
class _Metric:
    """Everything recorded under one name; tensors stay on their device until the export."""

    kind: ReduceType | None  # None for a denominator
    total: Any = 0.0
    count: Any = 0
    lowest: Any = math.inf
    highest: Any = -math.inf

    def to_floats(self) -> list[float]:
        return [float(self.total), float(self.count), float(self.lowest), float(self.highest)]


class DistributedStatsTracker:
    """One collection of statistics.

    Args:
        name: Goes before every exported key, with a slash.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name.strip("/")
        self._lock = threading.Lock()
        self._metrics: dict[str, _Metric] = {}
        self._masks: dict[str, torch.Tensor] = {}
        root = f"{self.name}/" if self.name else ""
        self._root = root
        self._prefix: ContextVar[str] = ContextVar(f"stats_scope:{self.name}", default=root)

    # --- recording ----------------------------------------------------------------------------

    def scalar(self, **values: float) -> None:
        """Record numbers; each key exports their mean."""
        prefix = self._prefix.get()
        with self._lock:
            for name, value in values.items():
                metric = self._metric(prefix + name, ReduceType.SCALAR)
                metric.total += float(value)
                metric.count += 1

    def denominator(self, **masks: torch.Tensor) -> None:
        """Record which elements count; each key exports how many do.

        Args:
            **masks: Boolean tensors.

        Raises:
            ValueError: A mask is not boolean, or empty.
        """
        prefix = self._prefix.get()
        for name, mask in masks.items():
            if str(getattr(mask, "dtype", None)) != "torch.bool" or mask.numel() == 0:
                shown = getattr(mask, "dtype", type(mask).__name__)
                raise ValueError(
                    f"denominator {name!r} must be a non-empty bool tensor, not {shown}"
                )
            mask = mask.detach()
            with self._lock:
                metric = self._metric(prefix + name, None)
                metric.total = metric.total + mask.sum()
                self._masks[prefix + name] = mask

    def stat(
        self, denominator: str, reduce_type: ReduceType | None = None, **values: torch.Tensor
    ) -> None:
        """Record tensors, of which only the elements of a denominator count.

        Args:
            denominator: The name of a denominator recorded before, in this scope or around it.
            reduce_type: None exports ``key/avg``, ``key/min`` and ``key/max``; any other type
                exports ``key``.
            **values: Tensors in the denominator's shape.

        Raises:
            ValueError: The denominator is unknown, a shape differs from its, or the type is SCALAR.
        """
        kind = reduce_type or ReduceType.AVG_MIN_MAX
        if kind is ReduceType.SCALAR:
            raise ValueError("tensors cannot be reduced as SCALAR; use scalar() for numbers")
        prefix = self._prefix.get()
        mask = self._find_mask(prefix, denominator)
        for name, value in values.items():
            if value.shape != mask.shape:
                raise ValueError(
                    f"stat {name!r} has shape {list(value.shape)}, but its denominator "
                    f"{denominator!r} has shape {list(mask.shape)}"
                )
            value = value.detach().float()
            ignored = ~mask
            total = value.masked_fill(ignored, 0.0).sum()
            lowest = value.masked_fill(ignored, math.inf).min()
            highest = value.masked_fill(ignored, -math.inf).max()
            with self._lock:
                metric = self._metric(prefix + name, kind)
                metric.total = metric.total + total
                metric.count = metric.count + mask.sum()
                metric.lowest = _smaller(lowest, metric.lowest)
                metric.highest = -_smaller(-highest, -metric.highest)

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Put ``name/`` before the keys recorded inside."""
        token = self._prefix.set(f"{self._prefix.get()}{name.strip('/')}/")
        try:
            yield
        finally:
            self._prefix.reset(token)

    def scope_func_wrapper(self, name: str) -> Callable[[F], F]:
        """Return a decorator that runs a function inside a scope."""

        def decorate(function: F) -> F:
            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self.scope(name):
                    return function(*args, **kwargs)

            return cast("F", wrapper)

        return decorate

    @contextlib.contextmanager
    def record_timing(self, name: str) -> Iterator[None]:
        """Record how many seconds the block takes, as ``timeperf/name`` whatever the scope."""
        start_s = time.perf_counter()
        try:
            yield
        finally:
            took_s = time.perf_counter() - start_s
            with self._lock:
                metric = self._metric(f"{self._root}timeperf/{name}", ReduceType.SCALAR)
                metric.total += took_s
                metric.count += 1

    # --- export -------------------------------------------------------------------------------

    def export(
        self,
        key: str | None = None,
        reduce_group: dist.ProcessGroup | None = None,
        key_sync_group: dist.ProcessGroup | None = None,
        reset: bool = True,
    ) -> dict[str, float]:
        """Return the reduced statistics, sorted by key; what no element counted for is left out.

        Args:
            key: Only this key, or what is below this scope; None is all.
            reduce_group: The processes to reduce over, all of which must call; None is this one.
            key_sync_group: The processes to agree on the keys with; None is ``reduce_group``.
            reset: Forgets what is exported.
        """
        with self._lock:
            chosen = {name: m for name, m in self._metrics.items() if _is_below(name, key)}
            local = {name: (m.kind, m.to_floats()) for name, m in chosen.items()}
            if reset:
                for name in chosen:
                    del self._metrics[name]
                    self._masks.pop(name, None)
        if reduce_group is not None:
            local = _all_reduce(local, reduce_group, key_sync_group or reduce_group)
        result: dict[str, float] = {}
        for name in sorted(local):
            result.update(_reduced(name, *local[name]))
        return result

    # --- inside -------------------------------------------------------------------------------

    def _metric(self, name: str, kind: ReduceType | None) -> _Metric:
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = _Metric(kind)
        elif metric.kind is not kind:
            before, now = ("denominator" if k is None else k.name for k in (metric.kind, kind))
            raise ValueError(f"statistic {name!r} was recorded as {before} before, now as {now}")
        return metric

    def _find_mask(self, prefix: str, denominator: str) -> torch.Tensor:
        scope = prefix
        while True:
            mask = self._masks.get(scope + denominator)
            if mask is not None:
                return mask
            if not scope:
                known = ", ".join(sorted(self._masks)) or "none"
                raise ValueError(f"unknown denominator {denominator!r}; recorded so far: {known}")
            scope = scope[:-1].rpartition("/")[0]
            scope = f"{scope}/" if scope else ""


def _smaller(value: torch.Tensor, other: Any) -> Any:
    """Return the smaller of two 0-dimensional tensors, of which one may still be a float."""
    return value.clamp(max=other)


def _is_below(name: str, key: str | None) -> bool:
    return key is None or name == key or name.startswith(f"{key}/")


def _reduced(name: str, kind: ReduceType | None, numbers: list[float]) -> dict[str, float]:
    total, count, lowest, highest = numbers
    if kind is None:
        return {name: total}
    if not count:
        return {}
    match kind:
        case ReduceType.AVG | ReduceType.SCALAR:
            return {name: total / count}
        case ReduceType.SUM:
            return {name: total}
        case ReduceType.MIN:
            return {name: lowest}
        case ReduceType.MAX:
            return {name: highest}
    return {f"{name}/avg": total / count, f"{name}/min": lowest, f"{name}/max": highest}


_Local = dict[str, tuple["ReduceType | None", list[float]]]


def _all_reduce(local: _Local, group: dist.ProcessGroup, key_group: dist.ProcessGroup) -> _Local:
    """Reduce over processes, which need not all have recorded the same keys."""
    import torch
    import torch.distributed as dist

    ours = {name: kind.name if kind else None for name, (kind, _) in local.items()}
    gathered: list[Any] = [None] * dist.get_world_size(key_group)
    dist.all_gather_object(gathered, ours, group=key_group)
    kinds: dict[str, str | None] = {}
    for theirs in gathered:
        kinds.update(theirs)
    names = sorted(kinds)
    if not names:
        return {}
    nothing = (None, [0.0, 0.0, math.inf, -math.inf])
    rows = [local.get(name, nothing)[1] for name in names]
    is_gloo = dist.get_backend(group) == "gloo"
    device = torch.device("cpu") if is_gloo else torch.device("cuda", torch.cuda.current_device())
    table = torch.tensor(rows, dtype=torch.float64, device=device)
    columns = (
        (table[:, :2], dist.ReduceOp.SUM),
        (table[:, 2], dist.ReduceOp.MIN),
        (
            table[:, 3],
            dist.ReduceOp.MAX,
        ),
    )
    reduced = []
    for column, operation in columns:
        column = column.contiguous()
        dist.all_reduce(column, op=operation, group=group)
        reduced.append(column.reshape(len(names), -1))
    numbers = torch.cat(reduced, dim=1).tolist()
    kind_names = [kinds[name] for name in names]
    reduce_types = [ReduceType[kind] if kind is not None else None for kind in kind_names]
    return dict(zip(names, zip(reduce_types, numbers, strict=True), strict=True))


DEFAULT_TRACKER = DistributedStatsTracker()
_TRACKERS: dict[str, DistributedStatsTracker] = {"": DEFAULT_TRACKER}
_TRACKERS_LOCK = threading.Lock()

scalar = DEFAULT_TRACKER.scalar
denominator = DEFAULT_TRACKER.denominator
stat = DEFAULT_TRACKER.stat
scope = DEFAULT_TRACKER.scope
scope_func_wrapper = DEFAULT_TRACKER.scope_func_wrapper
record_timing = DEFAULT_TRACKER.record_timing
export = DEFAULT_TRACKER.export


def get(name: str = "") -> DistributedStatsTracker:
    """Return the process-wide tracker of a name, made on first use; "" is the default one."""
    tracker = _TRACKERS.get(name)
    if tracker is None:
        with _TRACKERS_LOCK:
            tracker = _TRACKERS.setdefault(name, DistributedStatsTracker(name))
    return tracker


def export_all(
    reduce_group: dist.ProcessGroup | None = None,
    key_sync_group: dist.ProcessGroup | None = None,
    reset: bool = True,
) -> dict[str, float]:
    """Return the statistics of all trackers; the arguments are those of ``export``."""
    result: dict[str, float] = {}
    for name in sorted(_TRACKERS):
        tracker = _TRACKERS[name]
        result.update(tracker.export(None, reduce_group, key_sync_group, reset))
    return result
