"""Every answer of an episode with its log-probabilities and versions, found again by its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from areal.api.io_struct import ModelResponse


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the engine.

    Attributes:
        messages: What was asked, where it was a conversation.
        text: The answer without the tokens that ended it.
    """

    messages: Sequence[dict[str, Any]]
    text: str
    prompt: list[int]
    output: list[int]
    logprobs: list[float]
    versions: list[int]

    @classmethod
    def of(
        cls, response: ModelResponse, text: str, messages: Sequence[dict[str, Any]] = ()
    ) -> Answer:
        """Return what is kept of a response."""
        return cls(
            messages,
            text,
            response.input_tokens,
            response.output_tokens,
            response.output_logprobs,
            response.output_versions,
        )


class AnswerBook:
    """The answers of one episode.

    A workflow may make a new Experience of what an answer said, which then has no versions: they
    are looked up by the exact tokens.
    """

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.num_misses = 0

    def add(self, answer: Answer) -> None:
        """Keep an answer."""
        self.answers.append(answer)

    def find(self, output: list[int]) -> Answer | None:
        """Return the newest answer with exactly these tokens."""
        for answer in reversed(self.answers):
            if answer.output == output:
                return answer
        return None

    def versions(
        self, tokens: np.ndarray[Any, Any], mask: np.ndarray[Any, Any], current: int
    ) -> np.ndarray[Any, Any]:
        """Return the weight version of every token of a response [response].

        Args:
            tokens: Of the response.
            mask: What the model said of them.
            current: Of the weights now, which a span that no answer has is taken to be of.

        Returns:
            Versions where the mask is true, -1 elsewhere.
        """
        found = np.full(len(tokens), -1, np.int32)
        for start, end in spans(mask):
            answer = self.find(tokens[start:end].tolist())
            if answer is None:
                self.num_misses += 1
                found[start:end] = current
            else:
                found[start:end] = answer.versions
        return found

    def logprobs(
        self, tokens: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any] | None:
        """Return the log-probability of every token of a response, 0 where the mask is false.

        None where a span is no answer's.
        """
        found = np.zeros(len(tokens), np.float32)
        for start, end in spans(mask):
            answer = self.find(tokens[start:end].tolist())
            if answer is None:
                return None
            found[start:end] = answer.logprobs
        return found


def spans(mask: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """Return start and end of every run of true values."""
    if mask.all():
        return [(0, len(mask))]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
