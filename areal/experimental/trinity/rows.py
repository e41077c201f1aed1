"""From the experiences of one run to the rows that training takes.

Shapes: L tokens of an experience, R of its response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from areal.api.errors import TrajectoryError
from areal.experimental.trinity.answers import AnswerBook, spans

# Fields that would change what is trained, and that nothing here carries.
_NOT_CARRIED = {
    "advantages": "advantages are the trainer's; give rewards",
    "returns": "returns are the trainer's; give rewards",
    "chosen": "pairs of answers are trained by run.algorithm dpo from a data set of pairs",
    "rejected": "pairs of answers are trained by run.algorithm dpo from a data set of pairs",
    "multi_modal_inputs": "images and videos are not carried; use a workflow of text",
    "teacher_logprobs": "there is no teacher; set its penalty in the reward",
    "routed_experts": "routing is not replayed; leave it out",
}

Array = np.ndarray[Any, Any]
Tensors = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """What one experience of a row earned.

    Attributes:
        end: Behind which token of the row it ends.
        token_rewards: Up to its end [end], where the workflow rewards tokens.
    """

    end: int
    reward: float
    token_rewards: Array | None


@dataclass
class Row:
    """One sequence with what is trained of it."""

    tokens: Array
    mask: Array
    logprobs: Array
    versions: Array
    turns: Array
    steps: list[Step]
    info: dict[str, Any]

    @property
    def rewards_tokens(self) -> bool:
        """True where one reward does not say it all."""
        rewards = {step.reward for step in self.steps}
        return len(rewards) > 1 or any(step.token_rewards is not None for step in self.steps)

    @property
    def reward(self) -> float:
        """The reward of the row; steps that share the reward of their run count it once."""
        if self.rewards_tokens:
            return sum(step.reward for step in self.steps)
        return self.steps[0].reward

    def token_rewards(self) -> Array:
        """Return what is paid at each token [L]: a step's reward at the last token it sampled."""
        paid = np.zeros(len(self.tokens), np.float32)
        for step in self.steps if self.rewards_tokens else self.steps[-1:]:
            if step.token_rewards is None:
                paid[np.flatnonzero(self.mask[: step.end])[-1:]] += step.reward
            else:
                paid[: step.end] += step.token_rewards
        return paid


def to_trajectory(
    experiences: Any, name: str, book: AnswerBook, version: int, merges_steps: bool
) -> Tensors:
    """Return what a run left behind as a trajectory of one row per step.

    Args:
        experiences: Of one run, in the order of its steps.
        name: Of the workflow, for messages.
        book: The answers of the episode, which know the versions of tokens.
        version: Of the weights now.
        merges_steps: Join a step to the one before where its prompt goes on with it.

    Returns:
        ``input_ids``, ``loss_mask``, ``versions``, ``turn_ids`` int32 [B, L]; ``logprobs`` float32
        [B, L]; ``attention_mask`` bool [B, L]; ``rewards`` float32 [B]; ``token_rewards`` float32
        [B, L] where tokens or merged steps are rewarded by themselves; ``info``, a list of B dicts.

    Raises:
        TrajectoryError: There is none, one has no reward, no log-probabilities, a field that is not
            carried, or something of another length.
    """
    if not isinstance(experiences, Sequence) or isinstance(experiences, str | bytes):
        found = type(experiences).__name__
        raise TrajectoryError(f"workflow {name} returned {found}, expected a list of experiences")
    if not experiences:
        raise TrajectoryError(
            f"workflow {name} returned no experience; return at least one, or raise with the reason"
        )
    for experience in experiences:
        if not hasattr(experience, "eid"):
            raise TrajectoryError(
                f"workflow {name} returned a list with {type(experience).__name__} in it, expected "
                "experiences alone"
            )
    rows: list[Row] = []
    for experience in sorted(experiences, key=lambda each: each.eid.step):
        row = _row(experience, name, book, version)
        if not (merges_steps and rows and _join(rows[-1], row)):
            rows.append(row)
    return _tensors(rows, merges_steps)


def _row(experience: Any, name: str, book: AnswerBook, version: int) -> Row:
    for field, advice in _NOT_CARRIED.items():
        if getattr(experience, field, None) is not None:
            raise TrajectoryError(f"workflow {name} returned an experience with {field}: {advice}")
    tokens = _array(experience.tokens, np.int32)
    start = experience.prompt_length
    length = len(tokens) - start
    mask = _response(experience, "action_mask", length, name, bool)
    mask = np.ones(length, bool) if mask is None else mask
    token_rewards = _response(experience, "token_level_reward", length, name, np.float32)
    reward = experience.reward
    if token_rewards is not None:
        reward = float(token_rewards.sum())
    if reward is None:
        raise TrajectoryError(
            f"workflow {name} returned an experience whose reward is None; set reward to a number, "
            "or raise where there is none"
        )
    if isinstance(reward, str | bytes) or not hasattr(reward, "__float__"):
        raise TrajectoryError(
            f"workflow {name} returned an experience whose reward is {reward!r}, expected a "
            "number; sum the scores of a reward function"
        )
    logprobs = _response(experience, "logprobs", length, name, np.float32)
    said = spans(mask)
    if logprobs is None:
        logprobs = book.logprobs(tokens[start:], said)
    if logprobs is None:
        raise TrajectoryError(
            f"workflow {name} returned an experience without logprobs, and no answer of this "
            "episode has its tokens; take the experience that model.chat returns"
        )
    if token_rewards is not None:
        token_rewards = np.concatenate((np.zeros(start, np.float32), token_rewards))
    length = len(tokens)
    turns = np.full(length, -1, np.int32)
    row = Row(
        tokens,
        np.zeros(length, bool),
        np.zeros(length, np.float32),
        turns.copy(),
        turns,
        [Step(length, float(reward), token_rewards)],
        dict(experience.info or {}),
    )
    response = tokens[start:]
    for turn, (first, last) in enumerate(said):
        place = slice(start + first, start + last)
        row.mask[place] = True
        row.logprobs[place] = logprobs[first:last]
        row.turns[place] = turn
        row.versions[place] = book.versions(response[first:last], version)
    return row


def _response(experience: Any, field: str, length: int, name: str, dtype: Any) -> Array | None:
    value = getattr(experience, field)
    if value is None:
        return None
    array = _array(value, dtype)
    if array.shape != (length,):
        raise TrajectoryError(
            f"workflow {name} returned an experience whose {field} has the shape "
            f"{list(array.shape)}, and its response {length} tokens ({len(experience.tokens)} "
            f"minus prompt_length {experience.prompt_length}); leave the prompt out of {field}"
        )
    return array


def _array(value: Any, dtype: Any) -> Array:
    given = value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    return given.astype(dtype, copy=False)


def _join(last: Row, row: Row) -> bool:
    """Append a step to the row before, if its prompt begins with all tokens of that."""
    length = len(last.tokens)
    is_prompt = length <= len(row.tokens) and not row.mask[:length].any()
    if not is_prompt or not np.array_equal(row.tokens[:length], last.tokens):
        return False
    last.tokens = row.tokens
    num_turns = int(last.turns.max()) + 1
    row.turns[row.turns >= 0] += num_turns
    for name in ("mask", "logprobs", "versions", "turns"):
        setattr(last, name, np.concatenate((getattr(last, name), getattr(row, name)[length:])))
    last.steps += row.steps
    last.info |= row.info
    return True


def _tensors(rows: Sequence[Row], merges_steps: bool) -> Tensors:
    length = max(len(row.tokens) for row in rows)
    found = {
        "input_ids": _stack([row.tokens for row in rows], length, np.int32),
        "loss_mask": _stack([row.mask for row in rows], length, np.int32),
        "logprobs": _stack([row.logprobs for row in rows], length, np.float32),
        "versions": _stack([row.versions for row in rows], length, np.int32),
        "turn_ids": _stack([row.turns for row in rows], length, np.int32),
        "attention_mask": _attention(rows, length),
        "rewards": torch.from_numpy(np.array([row.reward for row in rows], np.float32)),
    }
    # A batch needs the same keys of all episodes: steps that are merged may earn differently.
    if merges_steps or any(row.rewards_tokens for row in rows):
        found["token_rewards"] = _stack([row.token_rewards() for row in rows], length, np.float32)
    found["info"] = [row.info for row in rows]
    return found


def _attention(rows: Sequence[Row], length: int) -> torch.Tensor:
    return _stack([np.ones(len(row.tokens), bool) for row in rows], length, bool)


def _stack(arrays: Sequence[Array], length: int, dtype: Any) -> torch.Tensor:
    if len(arrays) == 1:
        return torch.from_numpy(arrays[0].astype(dtype, copy=False)[None])
    out = np.zeros((len(arrays), length), dtype)
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(out)
