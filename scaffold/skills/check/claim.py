"""What a text claims, what became of the claim, and what is reported of it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

Severity = Literal["error", "warning", "note"]
Confidence = Literal["high", "medium", "low"]
State = Literal["true", "false", "undecided"]


class Claim(NamedTuple):
    """Is one statement that a text makes of its repository.

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


class Fix(NamedTuple):
    """Replaces text on one line of a document.

    Args:
        line: The line, from 1.
        before: What stands there.
        after: What is to stand there.
        is_safe: Whether it may be applied unasked: the meaning is certain.
    """

    line: int
    before: str
    after: str
    is_safe: bool = True


class Verdict(NamedTuple):
    """Is what became of a claim: proven, refuted or undecided, each with the reason.

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
        """Returns the verdict of a claim that is proven by ``evidence``."""
        return cls("true", evidence)

    @classmethod
    def open(cls, reason: str) -> Self:
        """Returns the verdict of a claim that cannot be decided, for ``reason``."""
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
        """Returns the verdict of a claim that ``evidence`` refutes."""
        return cls("false", evidence, rule, message, now, confidence, fix)


class Judged(NamedTuple):
    """Is a claim with its verdict."""

    claim: Claim
    verdict: Verdict


class Finding(NamedTuple):
    """Is one thing to report: a refuted claim, or a fault of form.

    Args:
        path: The document, relative to the root.
        line: From 1.
        column: From 1.
        rule: The rule's id.
        claim: The words that are wrong; fingerprints are made of them.
        message: What is wrong.
        evidence: What was looked at.
        now: What is true now, or empty.
        severity: "error" makes the command fail.
        confidence: How certain it is.
        fix: What would mend it.
    """

    path: str
    line: int
    column: int
    rule: str
    claim: str
    message: str
    evidence: str
    now: str
    severity: Severity
    confidence: Confidence
    fix: Fix | None = None

    def at(self, severity: Severity) -> Finding:
        """Returns the same finding with another severity."""
        return self._replace(severity=severity)

    def to_json(self) -> dict[str, Any]:
        """Returns it as plain data, the keys in the order above."""
        fix = self.fix._asdict() if self.fix is not None else None
        return {**self._asdict(), "fix": fix}
