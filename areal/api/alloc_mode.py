"""Allocation strings such as "fsdp:d4t2": which backend runs, and split in which ways.

    allocation := backend ":" (dims | "(attn:" dims "|ffn:" dims ")")
    dims       := (letter number)+        each letter at most once, in any order

| letter | splits |
|---|---|
| d | the batch (data parallel) |
| t | matrices (tensor parallel) |
| p | layers (pipeline parallel) |
| c | the sequence (context parallel, Ulysses) |
| e | experts (expert parallel; inside d, c and t, so it needs no processes of its own) |
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from areal.api.errors import ArealError
from areal.api.registry import nearest_names

if TYPE_CHECKING:
    from areal.api.config.cluster import SchedulingStrategy


class AllocationValidationError(ArealError, ValueError):
    """An allocation string can be read, but describes no possible split."""


class InvalidAllocationModeError(ArealError, ValueError):
    """An allocation string cannot be read."""


class AllocationType(Enum):
    """What a set of allocations is for."""

    COLOCATE = 0  # training and generation on the same devices
    DECOUPLED_TRAIN = 1  # each on devices of its own
    LLM_SERVER_ONLY = 2  # generation only
    DECOUPLED_EVAL = 3  # generation, and evaluation elsewhere


@dataclass
class ParallelStrategy:
    """The number of parts that each axis is split into; 1 is no split."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    context_parallel_size: int = 1
    expert_parallel_size: int = 1
    expert_tensor_parallel_size: int = 1

    def __post_init__(self) -> None:
        for option in dataclasses.fields(self):
            if option.name.endswith("_size") and getattr(self, option.name) < 1:
                raise AllocationValidationError(
                    f"{option.name} must be at least 1, found {getattr(self, option.name)}"
                )
        if self.expert_parallel_size * self.expert_tensor_parallel_size > 1:
            self._check_experts()

    @property
    def world_size(self) -> int:
        """The number of processes."""
        return self.data_parallel_size * self.model_parallel_size

    @property
    def model_parallel_size(self) -> int:
        """The number of processes that hold one copy of the model together."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.context_parallel_size

    @property
    def expert_model_parallel_size(self) -> int:
        """The number of processes that hold one copy of the experts together."""
        experts = self.expert_parallel_size * self.expert_tensor_parallel_size
        return experts * self.pipeline_parallel_size

    @property
    def expert_data_parallel_size(self) -> int:
        """The number of copies of the experts."""
        return self.world_size // self.expert_model_parallel_size

    @property
    def dp_size(self) -> int:
        """``data_parallel_size``."""
        return self.data_parallel_size

    @property
    def tp_size(self) -> int:
        """``tensor_parallel_size``."""
        return self.tensor_parallel_size

    @property
    def pp_size(self) -> int:
        """``pipeline_parallel_size``."""
        return self.pipeline_parallel_size

    @property
    def cp_size(self) -> int:
        """``context_parallel_size``."""
        return self.context_parallel_size

    @property
    def ep_size(self) -> int:
        """``expert_parallel_size``."""
        return self.expert_parallel_size

    @property
    def etp_size(self) -> int:
        """``expert_tensor_parallel_size``."""
        return self.expert_tensor_parallel_size

    def _check_experts(self) -> None:
        if self.world_size % self.expert_model_parallel_size:
            raise AllocationValidationError(
                f"{self.world_size} processes cannot be shared out to expert groups of "
                f"{self.expert_model_parallel_size} (expert x expert tensor x pipeline)"
            )


@dataclass
class FSDPParallelStrategy(ParallelStrategy):
    """The split of an FSDP engine: data, tensor and context; no pipeline, no experts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("pipeline_parallel_size", "expert_parallel_size"):
            if getattr(self, name) != 1:
                raise AllocationValidationError(
                    f"the fsdp backend has no {name.removesuffix('_size').replace('_', ' ')}; "
                    "drop it, or use the archon backend"
                )


@dataclass
class MegatronParallelStrategy(ParallelStrategy):
    """The split of a Megatron engine; this package reads it but has no such engine."""

    virtual_pipeline_parallel_size: int = 1
    use_sequence_parallel: bool = False


_FIELD_OF_LETTER = {
    "d": "data_parallel_size",
    "t": "tensor_parallel_size",
    "p": "pipeline_parallel_size",
    "c": "context_parallel_size",
    "e": "expert_parallel_size",
}


@dataclass(frozen=True)
class _Backend:
    letters: str
    strategy: type[ParallelStrategy] = ParallelStrategy
    trains: bool = True


_BACKENDS: dict[str, _Backend] = {
    "archon": _Backend("dtpce"),
    "fsdp": _Backend("dtc", FSDPParallelStrategy),
    "local": _Backend("d", trains=False),
    "megatron": _Backend("dtpce", MegatronParallelStrategy),
    "sglang": _Backend("dtp", trains=False),
    "vllm": _Backend("dtp", trains=False),
}
_HYBRID_BACKENDS = ("archon", "megatron")


@dataclass
class ModelAllocation:
    """A backend and its split, for one model."""

    backend: str
    parallel: ParallelStrategy
    name: str | None = None
    scheduling_strategy: SchedulingStrategy | None = None

    @classmethod
    def from_str(
        cls,
        allocation: str,
        name: str | None = None,
        scheduling_strategy: SchedulingStrategy | None = None,
    ) -> ModelAllocation:
        """Read an allocation string.

        Args:
            allocation: As in "sglang:d4p1t1", "archon:d2t2c1e2", "local:d1" or
                "megatron:(attn:d4p2t2|ffn:d2p2t2e2)".
            name: Of the model.
            scheduling_strategy: Whether it shares devices with another model.

        Raises:
            InvalidAllocationModeError: The string cannot be read, or a '+' joins several models.
            AllocationValidationError: The backend has no such split.
        """
        if "+" in allocation:
            raise InvalidAllocationModeError(
                f"{allocation!r} joins several models by '+'; give each its own `backend` "
                "(rollout.backend, actor.backend, ...)"
            )
        backend, colon, dims = allocation.strip().partition(":")
        if not colon or not dims:
            raise InvalidAllocationModeError(
                f"cannot read {allocation!r}; write backend:dims, such as 'fsdp:d4t2'"
            )
        if backend not in _BACKENDS:
            raise InvalidAllocationModeError(
                f"unknown backend {backend!r} in {allocation!r}{nearest_names(backend, _BACKENDS)}"
            )
        parallel = _parse_split(backend, dims, allocation)
        return cls(backend, parallel, name, scheduling_strategy)

    @property
    def trains(self) -> bool:
        """True for a train engine and False for an inference engine."""
        return _BACKENDS[self.backend].trains

    @property
    def world_size(self) -> int:
        """The number of processes, or of devices."""
        return self.parallel.world_size


def _parse_split(backend: str, dims: str, allocation: str) -> ParallelStrategy:
    strategy = _BACKENDS[backend].strategy
    if not dims.startswith("("):
        return strategy(**_parse_dims(backend, dims, allocation))
    parts = re.fullmatch(r"\(attn:([^|()]+)\|ffn:([^|()]+)\)", dims)
    if parts is None or backend not in _HYBRID_BACKENDS:
        raise InvalidAllocationModeError(
            f"cannot read {allocation!r}; separate splits of attention and experts are written "
            f"backend:(attn:d4t2|ffn:d2t2e2), with backend {' or '.join(_HYBRID_BACKENDS)}"
        )
    attention = _parse_dims(backend, parts[1], allocation, letters="dtpc")
    experts = _parse_dims(backend, parts[2], allocation, letters="dtpe")
    joined = strategy(
        **attention,
        expert_parallel_size=experts.get("expert_parallel_size", 1),
        expert_tensor_parallel_size=experts.get("tensor_parallel_size", 1),
    )
    _check_hybrid(joined, ParallelStrategy(**_as_plain(experts)), allocation)
    return joined


def _as_plain(experts: dict[str, int]) -> dict[str, int]:
    """Count the expert axis as one more data axis, as it takes processes of its own here."""
    plain = dict(experts)
    plain["data_parallel_size"] = plain.get("data_parallel_size", 1) * plain.pop(
        "expert_parallel_size", 1
    )
    return plain


def _check_hybrid(joined: ParallelStrategy, experts: ParallelStrategy, allocation: str) -> None:
    if joined.pp_size != experts.pp_size:
        raise AllocationValidationError(
            f"{allocation!r} splits the layers into {joined.pp_size} stages for attention "
            f"and {experts.pp_size} for experts; both need the same p"
        )
    if joined.world_size != experts.world_size:
        raise AllocationValidationError(
            f"{allocation!r} takes {joined.world_size} processes for attention "
            f"and {experts.world_size} for experts; both need the same number"
        )


def _parse_dims(
    backend: str, dims: str, allocation: str, letters: str | None = None
) -> dict[str, int]:
    letters = letters or _BACKENDS[backend].letters
    if not re.fullmatch(r"([a-z]\d+)+", dims):
        raise InvalidAllocationModeError(
            f"cannot read {dims!r} in {allocation!r}; write letters with numbers, such as d4t2"
        )
    sizes: dict[str, int] = {}
    for letter, number in re.findall(r"([a-z])(\d+)", dims):
        if letter not in _FIELD_OF_LETTER:
            known = ", ".join(_FIELD_OF_LETTER)
            raise InvalidAllocationModeError(
                f"unknown dimension {letter!r} in {allocation!r}; known: {known}"
            )
        if _FIELD_OF_LETTER[letter] in sizes:
            raise InvalidAllocationModeError(f"dimension {letter!r} stands twice in {allocation!r}")
        if letter not in letters and int(number) != 1:
            raise AllocationValidationError(
                f"{letter}{number} in {allocation!r}: {backend} splits only {', '.join(letters)}"
            )
        sizes[_FIELD_OF_LETTER[letter]] = int(number)
    return sizes
