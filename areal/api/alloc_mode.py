"""Allocation strings such as "fsdp:d4t2": which backend runs, and split in which ways.

    allocation := backend ["[" name "]"] ":" (dims | ["("] "attn:" dims "|ffn:" dims [")"])
    dims       := (letter number)+        in any order; of a repeated letter the last counts

White space is ignored.

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
import math
import re
from dataclasses import dataclass, field
from enum import Enum

from areal.api.config.cluster import SchedulingStrategy, SchedulingStrategyType
from areal.api.errors import ArealError
from areal.api.registry import nearest_names


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

    @staticmethod
    def parallelism_eq(a: ParallelStrategy, b: ParallelStrategy) -> bool:
        """Return True where two strategies split alike, whatever their classes."""
        return all(
            getattr(a, option.name) == getattr(b, option.name)
            for option in dataclasses.fields(ParallelStrategy)
        )

    def __str__(self) -> str:
        dims = _written(d=self.dp_size, t=self.tp_size, p=self.pp_size, c=self.cp_size)
        if self.etp_size == 1:
            return dims + (f"e{self.ep_size}" if self.ep_size > 1 else "")
        experts = _written(
            d=self.expert_data_parallel_size, t=self.etp_size, p=self.pp_size, e=self.ep_size
        )
        return f"(attn:{dims}|ffn:{experts})"

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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.virtual_pipeline_parallel_size > 1 and self.pipeline_parallel_size == 1:
            raise AllocationValidationError(
                f"virtual_pipeline_parallel_size {self.virtual_pipeline_parallel_size} needs "
                "pipeline_parallel_size > 1"
            )


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
    scheduling_strategy: SchedulingStrategy = field(default_factory=SchedulingStrategy)

    @classmethod
    def from_str(
        cls,
        spec: str,
        name: str | None = None,
        scheduling_strategy: SchedulingStrategy | None = None,
    ) -> ModelAllocation:
        """Read an allocation string.

        Args:
            spec: As in "sglang:d4p1t1", "archon[actor]:d2t2c1e2", "local:d1" or
                "megatron:(attn:d4p2t2|ffn:t2e2)". For the experts, a missing p is that of
                attention, and a missing d what fills the processes.
            name: Of the model; None takes the one in the string.
            scheduling_strategy: Whether it shares devices with another model; None is separate.

        Raises:
            InvalidAllocationModeError: The string cannot be read, a '+' joins several models, or
                attention and experts take different numbers of processes.
            AllocationValidationError: The backend has no such split, or is missing.
        """
        text = "".join(spec.split())
        if "+" in text:
            raise InvalidAllocationModeError(
                f"{spec!r} joins several models by '+'; give each its own `backend` "
                "(rollout.backend, actor.backend, ...)"
            )
        if found := re.match(r"\[[^:\[\]]+\]|:", text):
            raise AllocationValidationError(
                f"{spec!r} has no backend; write one of {', '.join(_BACKENDS)} before {found[0]!r}"
            )
        parts = re.fullmatch(r"([^:\[\]]+)(?:\[([^:\[\]]+)\])?:(.+)", text)
        if parts is None:
            raise InvalidAllocationModeError(
                f"cannot read {spec!r}; write backend:dims or backend[name]:dims, such as "
                "'fsdp:d4t2'"
            )
        backend, written_name, dims = parts.groups()
        if backend not in _BACKENDS:
            raise InvalidAllocationModeError(
                f"unknown backend {backend!r} in {spec!r}{nearest_names(backend, _BACKENDS)}"
            )
        strategy = scheduling_strategy or SchedulingStrategy()
        return cls(backend, _parse_split(backend, dims, spec), name or written_name, strategy)

    def __str__(self) -> str:
        name = f"({self.name})" if self.name else ""
        return f"{self.backend}{name}:{self.parallel}"

    @property
    def trains(self) -> bool:
        """True for a train engine and False for an inference engine."""
        return _BACKENDS[self.backend].trains

    @property
    def world_size(self) -> int:
        """The number of processes, or of devices; 0 where it uses another model's."""
        is_guest = self.scheduling_strategy.type == SchedulingStrategyType.colocation
        return 0 if is_guest else self.parallel.world_size


_EVALUATION = ("cpu", "eval")


@dataclass
class _AllocationMode:
    """The allocations of several models, as AReaL's old launchers write them in one string.

    ``gen`` and ``train`` are the splits of the model that generates and of the one that trains,
    None where there is none; ``gen_backend`` and ``train_backend`` are their backends.
    """

    type_: AllocationType
    allocations: list[ModelAllocation]

    @classmethod
    def from_str(cls, spec: str) -> _AllocationMode:
        """Read allocations such as "sglang:d2+fsdp:d4".

        Args:
            spec: Models joined by "+" have devices of their own; "|" binds tighter, and what it
                joins shares the devices of the first. "eval" or "cpu" in the place of a model is
                an evaluation elsewhere.

        Raises:
            InvalidAllocationModeError: A part cannot be read.
            AllocationValidationError: A part is no possible split, models that share devices take
                different numbers of them, or nothing is named but an evaluation.
        """
        parts = "".join(spec.split()).split("+")
        groups = [_parse_colocated(part) for part in parts if part not in _EVALUATION]
        allocations = [allocation for group in groups for allocation in group]
        if not allocations:
            raise AllocationValidationError(f"{spec!r} names no model")
        trains = any(allocation.trains for allocation in allocations)
        if len(groups) < len(parts):
            kind = AllocationType.DECOUPLED_EVAL
        elif not trains:
            kind = AllocationType.LLM_SERVER_ONLY
        elif len(groups) == 1:
            kind = AllocationType.COLOCATE
        else:
            kind = AllocationType.DECOUPLED_TRAIN
        return cls(kind, allocations)

    @property
    def gen(self) -> ParallelStrategy | None:
        """The split of the model that generates."""
        found = self._only(trains=False)
        return found and found.parallel

    @property
    def gen_backend(self) -> str | None:
        """Its backend."""
        found = self._only(trains=False)
        return found and found.backend

    @property
    def train(self) -> ParallelStrategy | None:
        """The split of the model that trains."""
        found = self._only(trains=True)
        return found and found.parallel

    @property
    def train_backend(self) -> str | None:
        """Its backend."""
        found = self._only(trains=True)
        return found and found.backend

    def _only(self, *, trains: bool) -> ModelAllocation | None:
        found = [each for each in self.allocations if each.trains is trains]
        if len(found) > 1:
            known = ", ".join(map(str, found))
            raise AllocationValidationError(f"several models match: {known}; see allocations")
        return found[0] if found else None


def _parse_colocated(spec: str) -> list[ModelAllocation]:
    """Read models joined by "|", which is a part of "attn:...|ffn:..." too."""
    first, *others = (ModelAllocation.from_str(text) for text in re.split(r"\|(?!ffn:)", spec))
    for other in others:
        if other.world_size != first.world_size:
            raise AllocationValidationError(
                f"{spec!r}: models that share devices take as many of them, found "
                f"{first.world_size} and {other.world_size}"
            )
        other.scheduling_strategy = SchedulingStrategy(
            SchedulingStrategyType.colocation.value, first.name or first.backend
        )
    return [first, *others]


def _parse_split(backend: str, dims: str, spec: str) -> ParallelStrategy:
    strategy = _BACKENDS[backend].strategy
    if not dims.startswith(("(", "attn:")):
        return strategy(**_parse_dims(backend, dims, spec))
    parts = re.fullmatch(r"(\()?attn:([^|()]+)\|ffn:([^|()]+)(?(1)\))", dims)
    if parts is None or backend not in _HYBRID_BACKENDS:
        raise InvalidAllocationModeError(
            f"cannot read {spec!r}; separate splits of attention and experts are written "
            f"backend:(attn:d4t2|ffn:d2t2e2), with backend {' or '.join(_HYBRID_BACKENDS)}"
        )
    attention = _parse_dims(backend, parts[2], spec, letters="dtpc")
    experts = _parse_dims(backend, parts[3], spec, letters="dtpe")
    _check_hybrid(ParallelStrategy(**attention), experts, spec)
    return strategy(
        **attention,
        expert_parallel_size=experts.get("expert_parallel_size", 1),
        expert_tensor_parallel_size=experts.get("tensor_parallel_size", 1),
    )


def _check_hybrid(attention: ParallelStrategy, experts: dict[str, int], spec: str) -> None:
    """Raise unless the experts' dimensions, which are parts of attention's, fill its processes."""
    # Raises for a size below 1, before anything is divided by it.
    ParallelStrategy(**{name: size for name, size in experts.items() if size < 1})
    if experts.get("pipeline_parallel_size", attention.pp_size) != attention.pp_size:
        raise AllocationValidationError(
            f"{spec!r} splits the layers into {attention.pp_size} stages for attention "
            f"and {experts['pipeline_parallel_size']} for experts; leave out the second p"
        )
    copies = experts.get("data_parallel_size")
    sizes = {**experts, "pipeline_parallel_size": attention.pp_size, "data_parallel_size": 1}
    one_copy = math.prod(sizes.values())
    if copies is None and attention.world_size % one_copy:
        raise AllocationValidationError(
            f"{spec!r}: {attention.world_size} processes for attention cannot be shared out to "
            f"experts in groups of {one_copy}"
        )
    if copies is not None and copies * one_copy != attention.world_size:
        raise InvalidAllocationModeError(
            f"{spec!r} takes {attention.world_size} processes for attention and "
            f"{copies * one_copy} for experts; leave out the experts' d"
        )


def _parse_dims(backend: str, dims: str, spec: str, letters: str | None = None) -> dict[str, int]:
    letters = letters or _BACKENDS[backend].letters
    if not re.fullmatch(r"([a-z][0-9]+)+", dims):
        raise InvalidAllocationModeError(
            f"cannot read {dims!r} in {spec!r}; write letters with numbers, such as d4t2"
        )
    sizes: dict[str, int] = {}
    # As a dict, the last of a repeated letter.
    for letter, number in dict(re.findall(r"([a-z])([0-9]+)", dims)).items():
        if letter not in _FIELD_OF_LETTER:
            known = ", ".join(_FIELD_OF_LETTER)
            raise InvalidAllocationModeError(
                f"unknown dimension {letter!r} in {spec!r}; known: {known}"
            )
        if letter not in letters and int(number) != 1:
            raise AllocationValidationError(
                f"{letter}{number} in {spec!r}: {backend} splits only {', '.join(letters)}"
            )
        sizes[_FIELD_OF_LETTER[letter]] = int(number)
    return sizes


def _written(d: int, **sizes: int) -> str:
    return f"d{d}" + "".join(f"{letter}{size}" for letter, size in sizes.items() if size > 1)
