"""What a run of a workflow leaves behind: ``trinity.common.experience``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import load, save

# Everything of the length of the response.
_RESPONSE_FLOATS = ("logprobs", "token_level_reward", "advantages", "returns", "teacher_logprobs")
_TENSORS = ("tokens", "action_mask", "chosen", "rejected", *_RESPONSE_FLOATS)
_READABLE = ("reward", "prompt_text", "response_text", "messages", "tools", "truncate_status")
_META = "meta"


def _suffix() -> str:
    return os.urandom(3).hex()


def _tensor(values: Any, dtype: type) -> torch.Tensor:
    if isinstance(values, torch.Tensor):
        return values
    # Through numpy, as torch takes three times as long to read a list.
    return torch.from_numpy(np.array(values, dtype))


@dataclass
class EID:
    """Where an experience comes from; a workflow sets ``run`` and ``step``."""

    batch: int | str = ""
    task: int | str = ""
    run: int = 0
    step: int = 0
    suffix: str = field(default_factory=_suffix)

    @property
    def uid(self) -> str:
        """The whole id."""
        return f"{self.batch}/{self.task}/{self.run}/{self.step}/{self.suffix}"

    @property
    def sid(self) -> str:
        """Equal for the same step of all runs of a task."""
        return f"{self.batch}/{self.task}/{self.step}"

    @property
    def rid(self) -> str:
        """Equal for all steps of a run."""
        return f"{self.batch}/{self.task}/{self.run}"

    @property
    def tid(self) -> str:
        """Equal for all runs of a task: the group of GRPO."""
        return f"{self.batch}/{self.task}"

    def __str__(self) -> str:
        return self.uid

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


@dataclass(kw_only=True)
class Experience:
    """Tokens that a model saw and made, with what they earned.

    ``tokens`` are int32 [seq]; everything of the response excludes the ``prompt_length`` tokens
    before it: ``logprobs``, ``token_level_reward``, ``advantages``, ``returns`` float32 [response],
    ``action_mask`` bool [response].

    Raises:
        AssertionError: The prompt or the response is empty.
    """

    # "dpo" for a pair, "multi_turn" where a mask was given, else "single_turn".
    experience_type: str = field(default="single_turn", init=False, repr=False)
    eid: Any = None
    tokens: Any
    logprobs: Any = None
    reward: float | None = None
    token_level_reward: Any = None
    advantages: Any = None
    returns: Any = None
    truncate_status: Literal["prompt_truncated", "response_truncated"] | None = None
    info: dict[str, Any] | None = None
    metrics: dict[str, float] | None = None
    prompt_length: int = 1
    response_text: str | None = None
    prompt_text: str | None = None
    action_mask: Any = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    chosen: Any = None
    rejected: Any = None
    chosen_messages: list[dict[str, Any]] | None = None
    rejected_messages: list[dict[str, Any]] | None = None
    multi_modal_inputs: dict[str, Any] | None = None
    teacher_logprobs: Any = None
    routed_experts: Any = None
    custom_fields: list[Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.eid, EID):
            self.eid = EID(**self.eid) if isinstance(self.eid, Mapping) else EID()
        self.tokens = _tensor(self.tokens, np.int32)
        self.info = {} if self.info is None else self.info
        self.metrics = {} if self.metrics is None else self.metrics
        self.custom_fields = [] if self.custom_fields is None else self.custom_fields
        for name in _RESPONSE_FLOATS:
            if getattr(self, name) is not None:
                setattr(self, name, _tensor(getattr(self, name), np.float32))
        if self.reward is not None:
            self.reward = float(self.reward)
        for name in ("chosen", "rejected"):
            if getattr(self, name) is not None:
                setattr(self, name, _tensor(getattr(self, name), np.int32))
        if self.chosen is not None and self.rejected is not None:
            self.experience_type = "dpo"
            self.prompt_length = len(self.tokens)
            return
        self.experience_type = "single_turn" if self.action_mask is None else "multi_turn"
        assert self.prompt_length > 0, "an experience needs a prompt of a token at least"
        response_length = len(self.tokens) - self.prompt_length
        assert response_length > 0, (
            f"an experience needs a response: {len(self.tokens)} tokens, of which the prompt has "
            f"{self.prompt_length}"
        )
        mask = np.ones(response_length) if self.action_mask is None else self.action_mask
        self.action_mask = _tensor(mask, np.bool_)

    def to_dict(self) -> dict[str, Any]:
        """Return what a person may read: no tensors, and no field that is empty."""
        found: dict[str, Any] = {
            "eid": self.eid.to_dict(),
            "type": self.experience_type,
            "prompt_length": self.prompt_length,
            "response_length": len(self.tokens) - self.prompt_length,
            "info": self.info,
            "metrics": self.metrics,
        }
        for name in _READABLE:
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        return found

    def serialize(self) -> bytes:
        """Return the experience as bytes: a safetensors file.

        Raises:
            TypeError: ``info`` or another plain field is no JSON.
        """
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        tensors = {k: given.pop(k) for k in _TENSORS if given[k] is not None}
        plain = {k: v for k, v in given.items() if v is not None and k not in _TENSORS}
        plain["eid"] = self.eid.to_dict()
        meta = torch.frombuffer(bytearray(json.dumps(plain).encode()), dtype=torch.uint8)
        return save({**{k: v.contiguous() for k, v in tensors.items()}, _META: meta})

    @classmethod
    def deserialize(cls, data: bytes) -> Experience:
        """Return what ``serialize`` wrote."""
        tensors = load(data)
        plain = json.loads(bytes(tensors.pop(_META).numpy()))
        return cls(**plain, **tensors)


def group_by(
    experiences: Iterable[Experience], id_type: Literal["task", "run", "step"]
) -> dict[str, list[Experience]]:
    """Return the experiences by task, by run or by step.

    Raises:
        ValueError: The kind of id is unknown.
    """
    names = {"task": "tid", "run": "rid", "step": "sid"}
    if id_type not in names:
        raise ValueError(f"id_type must be one of {', '.join(names)}, not {id_type!r}")
    groups: dict[str, list[Experience]] = {}
    for experience in experiences:
        groups.setdefault(getattr(experience.eid, names[id_type]), []).append(experience)
    return groups
