"""Check the tensors of trajectories against the contract and against what the engine generated.

Letters: B sequences in the trajectory, L tokens of the longest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Problem = tuple[str, str]
"""The name of a check, and what is wrong."""

INTEGERS = (torch.int32, torch.int64)
DTYPES: dict[str, tuple[torch.dtype, ...]] = {
    "input_ids": INTEGERS,
    "attention_mask": (torch.bool,),
    "loss_mask": INTEGERS,
    "logprobs": (torch.float32,),
    "rewards": (torch.float32,),
    "versions": INTEGERS,
    "turn_ids": INTEGERS,
}
REQUIRED = ("input_ids", "attention_mask", "loss_mask", "logprobs", "rewards")
WANTED = {"versions": "the trainer needs it to bound the staleness of the tokens"}
# Both sides compute in 32 bits, but over differently shaped batches; that moves a log-probability
# by about 1e-6. A token off by one or a wrong temperature moves it by far more.
LOGPROB_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Turn:
    """One request to the engine and its answer."""

    prompt: tuple[int, ...]
    output: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    temperature: float

    @classmethod
    def of(cls, request: Any, response: Any) -> Turn:
        """Copy what counts, so that a workflow that edits the response's lists is seen."""
        config = request.gconfig
        return cls(
            tuple(request.input_ids),
            tuple(response.output_tokens),
            tuple(response.output_logprobs),
            tuple(response.output_versions),
            1.0 if config.greedy or not config.temperature else config.temperature,
        )


@dataclass(frozen=True)
class Generated:
    """The part of a sequence that holds the output of a turn, or the beginning of it."""

    turn: Turn
    span: slice

    @property
    def length(self) -> int:
        return self.span.stop - self.span.start

    def is_trained(self, row: Mapping[str, torch.Tensor]) -> bool:
        return bool(row["loss_mask"][self.span].any())


def problems(trajectory: Any, turns: Sequence[Turn], model: Any) -> list[Problem]:
    """Return everything that is wrong with what one episode returned.

    Args:
        trajectory: A mapping of tensors.
        turns: The requests to the engine in this episode, and its answers.
        model: The model that generated, to compute log-probabilities again; None leaves that out.
    """
    for check in (_keys, _dtypes, _shapes):
        found = list(check(trajectory))
        if found:
            return found  # the later checks rely on it
    found = [*_values(trajectory), *_masks(trajectory)]
    if found:
        return found
    if not turns:
        return [("generation", "the episode returned tokens but never called engine.agenerate")]
    for row in _rows(trajectory):
        found = list(_against_engine(row, turns))
        if found:
            return found
        if model is not None:
            found = list(_against_model(row, turns, model))
        if found:
            return found
    return []


def warnings(trajectory: Mapping[str, Any], turns: Sequence[Turn]) -> list[Problem]:
    """Return what is allowed and probably not meant, for a trajectory without problems."""
    found = [("keys", f"no {key}: {why}") for key, why in WANTED.items() if key not in trajectory]
    rows = list(_rows(trajectory))
    for number, turn in enumerate(turns, 1):
        parts = [(row, part) for row in rows for part in _generated(row, [turn])]
        if turn.output and not any(part.is_trained(row) for row, part in parts):
            found.append(("loss_mask", f"completion {number} of an episode is not trained on"))
    return found


def batch_problems(trajectories: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Return why trajectories of one workflow cannot be put into one batch, if they cannot."""
    keys = sorted({tuple(sorted(each)) for each in trajectories})
    if len(keys) > 1:
        differ = ", ".join(sorted(set(keys[0]) ^ set(keys[1])))
        return [("batch", f"episodes differ in their keys ({differ}); always return the same ones")]
    for key in keys[0] if keys else ():
        values = [each[key] for each in trajectories if isinstance(each[key], torch.Tensor)]
        dtypes = sorted({_name(value.dtype) for value in values})
        if len(dtypes) > 1:
            return [("batch", f"{key} is {' and '.join(dtypes)} in different episodes")]
    return []


# --- the contract -------------------------------------------------------------------------------


def _keys(trajectory: Any) -> Iterator[Problem]:
    if not isinstance(trajectory, Mapping) or not trajectory:
        found = type(trajectory).__name__
        yield "keys", f"arun_episode returned {found}; return a dictionary of tensors, or None"
        return
    missing = [key for key in REQUIRED if key not in trajectory]
    if missing:
        known = ", ".join(map(str, trajectory))
        yield "keys", f"the trajectory lacks {', '.join(missing)}; it has {known}"


def _dtypes(trajectory: Mapping[str, Any]) -> Iterator[Problem]:
    for key, allowed in DTYPES.items():
        value, wanted = trajectory.get(key), " or ".join(map(_name, allowed))
        if key not in trajectory:
            continue
        if not isinstance(value, torch.Tensor):
            yield "dtypes", f"{key} is a {type(value).__name__}; it must be a tensor of {wanted}"
        elif value.dtype not in allowed:
            yield "dtypes", f"{key} is {_name(value.dtype)}; it must be {wanted}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shapes(trajectory: Mapping[str, Any]) -> Iterator[Problem]:
    shape = trajectory["input_ids"].shape
    if len(shape) != 2 or 0 in shape:
        text = f"input_ids has the shape {tuple(shape)}"
        yield "shapes", f"{text}; it must be [B, L], usually [1, L]"
        return
    for key, value in trajectory.items():
        if not isinstance(value, torch.Tensor):
            continue
        found, wanted = tuple(value.shape), tuple(shape[:1] if key == "rewards" else shape)
        if key in DTYPES and found != wanted:
            text = f"{key} has the shape {found}; beside input_ids {tuple(shape)} it must be"
            yield "shapes", f"{text} {wanted}"
        elif found[:1] != wanted[:1]:
            yield "shapes", f"{key} has the shape {found}; its first dimension must be {shape[0]}"


def _values(trajectory: Mapping[str, Any]) -> Iterator[Problem]:
    for key, value in trajectory.items():
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        if is_float and not bool(torch.isfinite(value).all()):
            yield "finite", f"{key} holds NaN or infinity"
    if bool((trajectory["logprobs"] > 1e-6).any()):  # rounding may leave a little above 0
        yield "logprobs", "a log-probability is positive; it must be at most 0"
    if bool((trajectory["input_ids"] < 0).any()):
        yield "input_ids", "a token id is negative"
    if bool(((trajectory["loss_mask"] != 0) & (trajectory["loss_mask"] != 1)).any()):
        yield "loss_mask", "loss_mask holds values other than 0 and 1"


def _masks(trajectory: Mapping[str, Any]) -> Iterator[Problem]:
    mask = trajectory["attention_mask"]
    lengths = mask.sum(1, keepdim=True)
    is_right_padded = torch.equal(mask, torch.arange(mask.shape[1])[None] < lengths)
    if not is_right_padded or bool((lengths == 0).any()):
        text = "attention_mask must be True on a sequence's tokens and False on padding after them"
        yield "attention_mask", text
    elif bool((trajectory["loss_mask"].bool() & ~mask).any()):
        yield "loss_mask", "loss_mask is 1 on padding"


def _rows(trajectory: Mapping[str, Any]) -> Iterator[dict[str, torch.Tensor]]:
    """Yield each sequence without its padding."""
    keys = [key for key in DTYPES if key in trajectory and key != "rewards"]
    for i, length in enumerate(trajectory["attention_mask"].sum(1).tolist()):
        yield {key: trajectory[key][i, :length] for key in keys}


# --- against what was generated -----------------------------------------------------------------


def _generated(row: Mapping[str, torch.Tensor], turns: Sequence[Turn]) -> list[Generated]:
    """Return the outputs in a sequence, each behind the very prompt that it answers.

    An output may have lost its end, such as a stop token that the workflow cut off.
    """
    ids = row["input_ids"].tolist()
    found = []
    for turn in turns:
        start = len(turn.prompt)
        if ids[:start] != list(turn.prompt):
            continue
        pairs = zip(ids[start:], turn.output, strict=False)
        # The first token that differs ends what is taken from the output.
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        length = min(len(ids) - start, len(turn.output)) if same is None else same
        if length:
            found.append(Generated(turn, slice(start, start + length)))
    return found


def _against_engine(row: Mapping[str, torch.Tensor], turns: Sequence[Turn]) -> Iterator[Problem]:
    """Compare a sequence with the requests to the engine and its answers."""
    parts = _generated(row, turns)
    trained = row["loss_mask"].bool()
    generated = torch.zeros_like(trained)
    for part in parts:
        generated[part.span] = True
    stray = int((trained & ~generated).sum())
    if stray:
        yield "loss_mask", _stray(row, turns, stray, int(trained.sum()))
        return
    if not bool(trained.any()):
        yield "loss_mask", "loss_mask is 0 everywhere: nothing would be trained on"
    for part in parts:
        left = int((~trained[part.span]).sum())
        # A completion is trained on as a whole or not at all.
        if 0 < left < part.length:
            yield "loss_mask", f"loss_mask is 0 on {left} of {part.length} tokens of a completion"
    yield from _aligned(row, [part for part in parts if part.is_trained(row)], generated)


def _stray(row: Mapping[str, torch.Tensor], turns: Sequence[Turn], stray: int, total: int) -> str:
    ids = row["input_ids"].tolist()
    text = f"loss_mask is 1 on {stray} of {total} tokens the engine did not generate there"
    if all(ids[: len(turn.prompt)] == list(turn.prompt) for turn in turns):
        return f"{text}; set it only on response.output_tokens, at their place after the prompt"
    return f"{text}; the sequence does not begin with the prompt that was sent: keep its ids"


def _aligned(
    row: Mapping[str, torch.Tensor], parts: Sequence[Generated], generated: torch.Tensor
) -> Iterator[Problem]:
    for part in parts:
        expected = torch.tensor(part.turn.logprobs[: part.length])
        gap = float((row["logprobs"][part.span] - expected).abs().max())
        if gap > LOGPROB_TOLERANCE:
            text = "logprobs differ from response.output_logprobs at the same tokens"
            yield "logprobs", f"{text}, by up to {gap:.3g}"
        versions = list(part.turn.versions[: part.length])
        if "versions" in row and row["versions"][part.span].tolist() != versions:
            yield "versions", "versions differ from response.output_versions at the same tokens"
        if "turn_ids" in row and bool((row["turn_ids"][part.span] < 0).any()):
            yield "turn_ids", "turn_ids must count turns from 0 on generated tokens"
    for key in ("versions", "turn_ids"):
        if key in row and bool((row[key][~generated] >= 0).any()):
            yield key, f"{key} must be -1 on tokens that were not generated"


def _against_model(
    row: Mapping[str, torch.Tensor], turns: Sequence[Turn], model: Any
) -> Iterator[Problem]:
    """Compute the log-probabilities of the trained tokens again, with the model itself."""
    ids = row["input_ids"].long()
    with torch.no_grad():
        logits = model(ids[None]).logits[0].float()
    for part in _generated(row, turns):
        if not part.is_trained(row):
            continue
        # The logits at a token are of the next one.
        before = logits[part.span.start - 1 : part.span.stop - 1] / part.turn.temperature
        expected = before.log_softmax(-1).gather(-1, ids[part.span, None])[:, 0]
        gap = float((row["logprobs"][part.span] - expected).abs().max())
        if not gap <= LOGPROB_TOLERANCE:  # NaN is no agreement
            text = "the model computes other log-probabilities for the trained tokens"
            yield "logprobs", f"{text}, off by up to {gap:.3g}"
            return
