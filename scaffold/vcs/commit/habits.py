"""A repository's habits: which word its authors chose for commits that looked like this one.

Each trait of a commit votes for the words that stood over earlier commits with the trait. A trait
weighs as much as it is known, and as much as it sets words apart; every vote can be shown.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Set as AbstractSet
from typing import NamedTuple

DAMPING = 0.5
"""A file, its folder and the folder above repeat each other, so votes count half."""


class Vote(NamedTuple):
    """The votes of one trait for the word that was chosen."""

    trait: str
    weight: float
    agreeing: int
    seen: int


class Choice(NamedTuple):
    """The word with the most votes."""

    word: str
    share: float
    """How sure that is, between 0 and 1, if the votes were independent. They are not quite."""
    votes: tuple[Vote, ...]
    """The strongest first; only those in favour of the word."""


class Habits:
    """Counts of words and traits, one commit after the other.

    Args:
        caution: With how many commits of the average a trait's own are mixed, so that one commit
            alone decides nothing.
    """

    def __init__(self, caution: float) -> None:
        self._caution = caution
        self._words: Counter[str] = Counter()
        self._traits: Counter[str] = Counter()
        self._by_trait: dict[str, Counter[str]] = defaultdict(Counter)

    @property
    def count(self) -> int:
        """How many commits were learned from."""
        return self._words.total()

    @property
    def words(self) -> tuple[str, ...]:
        """The words that were seen, the most frequent first."""
        return tuple(word for word, _ in self._words.most_common())

    def learn(self, word: str, traits: AbstractSet[str], times: int = 1) -> None:
        """Count a commit; with -1 times forget it again."""
        self._words[word] += times
        # A forgotten word must not stay a candidate with no commits behind it.
        if not self._words[word]:
            del self._words[word]
        for trait in traits:
            self._traits[trait] += times
            self._by_trait[trait][word] += times

    def knows(self, trait: str) -> int:
        """Return how many commits had a trait."""
        return self._traits[trait]

    def choose(self, traits: AbstractSet[str]) -> Choice:
        """Return the word that fits the traits of a commit best; needs at least one commit."""
        # Sorted, as sums of floats depend on their order and sets have none.
        known = [trait for trait in sorted(traits) if self._traits[trait]]
        scores = {
            # Naive Bayes in logs: products of many small shares would underflow.
            word: math.log(self._share(word)) + sum(self._weight(trait, word) for trait in known)
            for word in self.words
        }
        best = max(scores, key=lambda word: scores[word])
        # Relative to the best score, so that exp() cannot overflow.
        total = sum(math.exp(score - scores[best]) for score in scores.values())
        votes = [self._vote(trait, best) for trait in known]
        strongest = sorted((vote for vote in votes if vote.weight > 0), key=lambda v: -v.weight)
        return Choice(best, 1 / total, tuple(strongest))

    def _share(self, word: str) -> float:
        """Return a word's part of all commits; a new one has a little."""
        return (self._words[word] + 0.1) / (self.count + 0.1 * (len(self._words) + 1))

    def _weight(self, trait: str, word: str) -> float:
        """Return how much more often the word comes with the trait than without, as a log."""
        seen, average = self._traits[trait], self._share(word)
        part = (self._by_trait[trait][word] + self._caution * average) / (seen + self._caution)
        # The floor keeps a trait that never met the word from vetoing it alone.
        return DAMPING * seen / (seen + 1) * math.log(max(part, 1e-4) / average)

    def _vote(self, trait: str, word: str) -> Vote:
        agreeing = self._by_trait[trait][word]
        return Vote(trait, self._weight(trait, word), agreeing, self._traits[trait])
