"""What a trajectory must look like before anything trains on it.

Shape legend: B trajectories in one dict, L tokens of the longest.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from areal.api.errors import TrajectoryError
from areal.api.workflow_api import TokenInteraction
from areal.utils.data import concat_padded_tensors

_INTEGERS = frozenset({torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8})
_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_BOOL = frozenset({torch.bool})
_NUMBERS = _BOOL | _INTEGERS | _FLOATS

# Rounding in bfloat16 may lift the log of a certain token this far above 0.
MAX_LOGPROB = 0.02
REQUIRED_KEYS = ("input_ids", "attention_mask", "loss_mask", "logprobs", "rewards")


def is_interactions(result: Any) -> bool:
    """Return True for a non-empty mapping of interactions by id."""
    if type(result) is dict and "input_ids" in result:  # nearly always, and quick to see
        return False
    return (
        isinstance(result, Mapping)
        and bool(result)
        and all(_is_interaction(value) for value in result.values())
    )


def _is_interaction(value: Any) -> bool:
    # Looked up on the class: the protocol's own check would compute every property.
    return isinstance(value, TokenInteraction) if hasattr(type(value), "to_tensor_dict") else False


def to_trajectory(result: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors of a workflow's result, whichever of its two forms it has."""
    if is_interactions(result):
        return concat_padded_tensors([value.to_tensor_dict() for value in result.values()])
    return result


# --- the check that every episode gets --------------------------------------------------------


def check_trajectory(trajectory: Any, name: str) -> None:
    """Raise unless a trajectory can be trained on; takes a few microseconds per tensor.

    Args:
        trajectory: Tensors with leading dimension B. The keys of ``REQUIRED_KEYS`` must be there;
            what else there is must fit.
        name: Of the workflow, for the message.

    Raises:
        TrajectoryError: A key is missing, or a value has the wrong type, shape, dtype or content.
    """
    if not isinstance(trajectory, dict):
        found = type(trajectory).__name__
        raise TrajectoryError(
            f"workflow {name} returned {found}, expected a dict of tensors or None"
        )
    missing = [key for key in REQUIRED_KEYS if key not in trajectory]
    if missing:
        raise TrajectoryError(
            f"workflow {name} returned no {', '.join(missing)}; "
            f"it returned {', '.join(map(str, trajectory)) or 'an empty dict'}"
        )
    shape = _shape_of_input_ids(trajectory["input_ids"], name)
    batch = shape[:1]
    for key, value in trajectory.items():
        rule = _RULES.get(key)
        if rule is None:
            _check_other(key, value, shape, name)
            continue
        expected = shape if rule.is_per_token else batch
        if (
            isinstance(value, torch.Tensor)
            and value.shape == expected
            and value.dtype in rule.dtypes
        ):
            check = rule.content_problem
            problem = None if check is None else check(value)
        else:
            problem = rule.type_problem(value, shape)
        if problem is not None:
            raise TrajectoryError(f"workflow {name} returned {key} {problem}")


def _shape_of_input_ids(input_ids: Any, name: str) -> torch.Size:
    if not isinstance(input_ids, torch.Tensor):
        found = type(input_ids).__name__
        raise TrajectoryError(f"workflow {name} returned input_ids as {found}, expected a tensor")
    shape = input_ids.shape
    if len(shape) != 2 or 0 in shape:
        raise TrajectoryError(
            f"workflow {name} returned input_ids of shape {list(shape)}, expected [B, L] with at "
            "least one trajectory and one token; add the batch dimension with unsqueeze(0)"
        )
    return shape


def _check_other(key: str, value: Any, shape: torch.Size, name: str) -> None:
    """Check a value that is known only to the workflow: what is a tensor must fit the batch."""
    if not isinstance(value, torch.Tensor):
        return
    problem = _finiteness_problem(value) if value.dtype in _FLOATS else None
    if value.ndim == 0 or value.shape[0] != shape[0]:
        problem = f"of shape {list(value.shape)}, expected the first dimension to be {shape[0]}"
    if problem is not None:
        raise TrajectoryError(f"workflow {name} returned {key} {problem}")


def _finiteness_problem(value: torch.Tensor) -> str | None:
    # A sum is finite only if every summand is: one pass for the usual case.
    total = (value if value.numel() == 1 else value.sum()).item()
    if math.isfinite(total):
        return None
    bad = value[~torch.isfinite(value)]
    if not bad.numel():
        return None
    return f"with {bad.numel()} values that are not finite, such as {bad[0].item()}"


def _logprobs_problem(logprobs: torch.Tensor) -> str | None:
    # A bound is NaN where a value is.
    lowest, highest = torch.aminmax(logprobs)
    highest = highest.item()
    if lowest.item() > -math.inf and highest <= MAX_LOGPROB:
        return None
    problem = _finiteness_problem(logprobs)
    if problem is not None:
        return problem
    return f"with values up to {highest:.3g}, and natural logs of probabilities are at most 0"


def _token_problem(input_ids: torch.Tensor) -> str | None:
    lowest = input_ids.min().item()
    return f"with the negative token {lowest}" if lowest < 0 else None


def _loss_mask_problem(mask: torch.Tensor) -> str | None:
    if mask.dtype == torch.bool:
        return None
    lowest, highest = torch.aminmax(mask)
    low, high = lowest.item(), highest.item()
    is_binary = low >= 0 and high <= 1
    if is_binary and mask.is_floating_point():
        is_binary = bool(((mask == 0) | (mask == 1)).all())
    return None if is_binary else f"with values from {low:g} to {high:g}, expected only 0 and 1"


def _attention_mask_problem(mask: torch.Tensor) -> str | None:
    if mask.min().item():  # the same as all(), at three quarters of its price
        return None
    if not bool(mask[:, 0].all()):
        return "with a row that does not begin with True; pad on the right"
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        return "with True after False; pad on the right only"
    return None


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a key's value must be."""

    dtypes: frozenset[torch.dtype]
    dtype_name: str
    is_per_token: bool = True  # [B, L]; else [B]
    content_problem: Callable[[torch.Tensor], str | None] | None = None

    def type_problem(self, value: Any, shape: torch.Size) -> str | None:
        """Return what is wrong with the type, the shape or the dtype, if anything is."""
        if not isinstance(value, torch.Tensor):
            return f"as {type(value).__name__}, expected a tensor"
        if value.shape != (shape if self.is_per_token else shape[:1]):
            if self.is_per_token:
                return f"of shape {list(value.shape)}, expected {list(shape)} like input_ids"
            return f"of shape {list(value.shape)}, expected [{shape[0]}], one per trajectory"
        if value.dtype not in self.dtypes:
            return f"of {value.dtype}, expected {self.dtype_name}"
        return None


_RULES = {
    "attention_mask": _Rule(_BOOL, "torch.bool", content_problem=_attention_mask_problem),
    "input_ids": _Rule(_INTEGERS, "an integer dtype", content_problem=_token_problem),
    "logprobs": _Rule(_FLOATS, "a floating dtype", content_problem=_logprobs_problem),
    "loss_mask": _Rule(_NUMBERS, "numbers", content_problem=_loss_mask_problem),
    "mm_token_type_ids": _Rule(_INTEGERS, "an integer dtype"),
    "original_rewards": _Rule(_FLOATS, "a floating dtype", False, _finiteness_problem),
    "rewards": _Rule(_FLOATS, "a floating dtype", False, _finiteness_problem),
    "turn_ids": _Rule(_INTEGERS, "an integer dtype"),
    "versions": _Rule(_INTEGERS, "an integer dtype"),
}


# --- the stricter check that a setting turns on -----------------------------------------------


def check_trajectory_format(
    data: Any,
    batch_size: int | None = None,
    expected_keys: Collection[str] | None = None,
    logger: logging.Logger | None = None,
) -> None:
    """Check a workflow's result against the format and against the episodes before it.

    Args:
        data: None (a rejected episode), a mapping of interactions, or a dict of tensors.
        batch_size: How many trajectories the dict must hold; None is any number.
        expected_keys: Keys of the first episode; all must be there.
        logger: Gets a warning where another tensor's first two dimensions differ from those of
            ``input_ids``.

    Raises:
        ValueError: The format is violated.
    """
    if data is None or is_interactions(data):
        return
    if not isinstance(data, dict) or not data:
        raise TrajectoryError(f"a trajectory must be a non-empty dict, not {data!r:.80}")
    missing = [key for key in ("input_ids", "attention_mask") if key not in data]
    if missing:
        raise TrajectoryError(f"a trajectory needs {' and '.join(missing)}; found {list(data)}")
    absent = sorted(set(expected_keys or ()) - set(data))
    if absent:
        raise TrajectoryError(f"the first trajectory had {', '.join(absent)}, this one has not")
    input_ids = data["input_ids"]
    if not isinstance(input_ids, torch.Tensor) or input_ids.ndim != 2:
        shape = list(getattr(input_ids, "shape", ())) or type(input_ids).__name__
        raise TrajectoryError(f"input_ids must be a tensor of shape [B, L], not {shape}")
    if batch_size is not None and input_ids.shape[0] != batch_size:
        raise TrajectoryError(f"expected {batch_size} trajectories, found {input_ids.shape[0]}")
    _warn_of_shapes(data, input_ids.shape, logger or logging.getLogger("Trajectory"))
    if "multi_modal_input" in data:
        _check_multi_modal_input(data["multi_modal_input"])


def _warn_of_shapes(data: dict[str, Any], shape: torch.Size, logger: logging.Logger) -> None:
    for key, value in data.items():
        if not isinstance(value, torch.Tensor):
            continue
        found = value.shape[:2]
        if found != shape[: len(found)]:
            logger.warning(
                "%s has shape %s, which does not begin like input_ids %s",
                key,
                list(value.shape),
                list(shape),
            )


def _check_multi_modal_input(inputs: Any) -> None:
    if not isinstance(inputs, list) or not inputs:
        raise TrajectoryError("multi_modal_input must be a non-empty list of dicts")
    for position, item in enumerate(inputs):
        if not isinstance(item, dict) or "pixel_values" not in item:
            raise TrajectoryError(f"multi_modal_input[{position}] must be a dict with pixel_values")
