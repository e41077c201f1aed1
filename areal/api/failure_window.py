"""Notices when most of the recent attempts at something failed, and why."""

from __future__ import annotations

import re
import threading
from collections import Counter, deque

from areal.api.errors import EpisodeFailureError

WINDOW_SIZE = 64
MAX_REASONS = 8
_DIGITS = re.compile(r"\d+")
_KEY_LENGTH = 200


def cause_key(cause: str) -> str:
    """Return a cause without its numbers, so that like causes count together."""
    return _DIGITS.sub("#", cause)[:_KEY_LENGTH]


class ReasonBook:
    """Counts why things failed and reports which reasons are new; its size is bounded.

    Messages that quote data differ every time. After ``MAX_REASONS`` different ones of a kind, the
    further ones of that kind count together, so that neither memory nor the log fills up. Not safe
    for several threads by itself.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._num_reasons: Counter[str] = Counter()

    def add(self, kind: str, cause: str) -> bool:
        """Count a failure.

        Args:
            kind: What kind of failure it is, such as the exception's name.
            cause: What happened, in words.

        Returns:
            True if this reason was not seen before, and so deserves a line in the log.
        """
        key = cause_key(cause)
        if key not in self.counts and self._num_reasons[kind] >= MAX_REASONS:
            key = f"{kind}, with many different messages"
        is_new = key not in self.counts
        self.counts[key] += 1
        self._num_reasons[kind] += is_new
        return is_new

    def reset(self) -> None:
        """Forget everything."""
        self.counts.clear()
        self._num_reasons.clear()


class FailureWindow:
    """Watches the last outcomes of one kind of work and remembers when too many were failures.

    Trips when more than half of ``size`` consecutive outcomes failed, and stays tripped until
    ``reset``: whoever looks at it later still learns of it. Safe to use from any thread.

    Args:
        what: The work in the plural, for the message ("reward calls").
        size: How many outcomes are looked at together.
    """

    def __init__(self, what: str, size: int = WINDOW_SIZE) -> None:
        self.what = what
        self.size = size
        self._lock = threading.Lock()
        self._outcomes: deque[str | None] = deque(maxlen=size)
        self._num_failures = 0
        self._verdict: str | None = None

    def add_success(self) -> None:
        """Count an attempt that worked."""
        with self._lock:
            self._push(None)

    def add_failure(self, cause: str) -> None:
        """Count an attempt that failed.

        Args:
            cause: What happened, in words; causes that differ in numbers alone are the same.
        """
        with self._lock:
            self._push(cause)
            if self._num_failures > self.size // 2 and len(self._outcomes) == self.size:
                self._verdict = self._verdict or self._describe()

    @property
    def is_tripped(self) -> bool:
        """True if ``raise_if_tripped`` would raise."""
        return self._verdict is not None

    def raise_if_tripped(self) -> None:
        """Raise what the window has noticed.

        Raises:
            EpisodeFailureError: More than half of the outcomes of a full window were failures;
                the message names the most common cause.
        """
        if self._verdict is not None:
            raise EpisodeFailureError(self._verdict)

    def reset(self) -> None:
        """Forget everything."""
        with self._lock:
            self._outcomes.clear()
            self._num_failures = 0
            self._verdict = None

    def _push(self, cause: str | None) -> None:
        if len(self._outcomes) == self.size and self._outcomes[0] is not None:
            self._num_failures -= 1
        self._outcomes.append(cause)
        if cause is not None:
            self._num_failures += 1

    def _describe(self) -> str:
        causes = [cause for cause in self._outcomes if cause is not None]
        key, count = Counter(map(cause_key, causes)).most_common(1)[0]
        example = next(cause for cause in causes if cause_key(cause) == key)
        return (
            f"{self._num_failures} of {self.size} consecutive {self.what} failed; "
            f"the most common cause ({count} times): {example}"
        )
