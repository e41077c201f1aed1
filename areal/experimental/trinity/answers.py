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

    def versions(self, said: np.ndarray[Any, Any], current: int) -> Any:
        """Return the weight versions of tokens that the model said in one go.

        Args:
            said: Token ids.
            current: Version of the weights now, which tokens of no answer are taken to be of.
        """
        answer = self.find(said.tolist())
        if answer is None:
            self.num_misses += 1
            return current
        return answer.versions

    def logprobs(
        self, tokens: np.ndarray[Any, Any], said: Sequence[tuple[int, int]]
    ) -> np.ndarray[Any, Any] | None:
        """Return the log-probability of every token of a response, 0 where nothing was said.

        None where a span is no answer's.
        """
        found = np.zeros(len(tokens), np.float32)
        for start, end in said:
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
