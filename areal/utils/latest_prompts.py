"""Remembers prompts: the samples of a group ask for the same, and a template takes its time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

MAX_LATEST_PROMPTS = 256


class Prompt(NamedTuple):
    """A prompt as an engine takes it and, where it is known, as a reward reads it."""

    tokens: list[int]
    text: str | None = None

    def text_of(self, tokens: list[int]) -> str | None:
        """Return the text if these are its tokens: an engine may have gone on from others."""
        return self.text if tokens == self.tokens else None


class LatestPrompts:
    """Keeps the latest prompts of a tokenizer; any thread may ask.

    Args:
        tokenizer: Turns tokens into text.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: OrderedDict[Hashable, Prompt] = OrderedDict()

    def get(self, key: Hashable, render: Callable[[], list[int]]) -> Prompt:
        """Return the prompt of a key; who wants to change its tokens makes a copy.

        Args:
            key: Everything that the tokens depend on.
            render: Makes the tokens of a key that is not among the latest.
        """
        found = self._known.get(key)
        if found is None:
            tokens = render()
            found = self._known[key] = Prompt(tokens, self._tokenizer.decode(tokens))
            if len(self._known) > MAX_LATEST_PROMPTS:
                self._known.popitem(last=False)
        return found
