"""What a text claims, and what became of the claim."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

from scaffold.findings import Confidence, Fix

State = Literal["true", "false", "undecided"]


class Claim(NamedTuple):
    """One statement that a text makes of its repository.

    Args:
        kind: What it is about ("path", "import"); one of the kinds of `kinds.KINDS`.
        text: The words themselves, on one line.
        line: Where they stand, from 1.
        column: The first character, from 1.
        data: What the finder of the claim knows beyond the words, for its judge.
    """

    kind: str
    text: str
    line: int
    column: int = 1
    data: Any = None


class Verdict(NamedTuple):
    """What became of a claim: proven, refuted or undecided, each with the reason.

    Args:
        state: Whether the claim holds, does not, or cannot be decided from the repository.
        reason: For a true claim what proves it, for an undecided one why; for a false one what was
            found in its place.
        rule: The rule that a false claim breaks.
        message: What is wrong, in a sentence that begins with the claim.
        now: What is true now, or empty.
        confidence: How certain a false claim is.
        fix: What would make it true.
    """

    state: State
    reason: str
    rule: str = ""
    message: str = ""
    now: str = ""
    confidence: Confidence = "high"
    fix: Fix | None = None

    @classmethod
    def holds(cls, evidence: str) -> Self:
        """Return the verdict of a claim that is proven by ``evidence``."""
        return cls("true", evidence)

    @classmethod
    def open(cls, reason: str) -> Self:
        """Return the verdict of a claim that cannot be decided, for ``reason``."""
        return cls("undecided", reason)

    @classmethod
    def fails(
        cls,
        rule: str,
        message: str,
        evidence: str,
        *,
        now: str = "",
        confidence: Confidence = "high",
        fix: Fix | None = None,
    ) -> Self:
        """Return the verdict of a claim that ``evidence`` refutes."""
        return cls("false", evidence, rule, message, now, confidence, fix)


class Judged(NamedTuple):
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict
