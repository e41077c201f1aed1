"""What a level of verification found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

CheckStatus = Literal["passed", "failed", "warning", "skipped"]
LevelStatus = Literal["passed", "failed", "skipped"]
LEVELS = ("static", "tests", "episodes")


@dataclass(frozen=True)
class Finding:
    """One check with its outcome; the message of a failed one says what to do."""

    check: str
    status: CheckStatus
    message: str

    def to_json(self) -> dict[str, str]:
        """Return the finding as reports carry it."""
        return {"check": self.check, "status": self.status, "message": self.message}


@dataclass(frozen=True)
class Level:
    """The outcome of one level for one unit.

    Args:
        level: One of LEVELS.
        status: Whether it was run, and how it went.
        reason: In one line: what was proven, what failed first, or why it was not run.
        details: Every finding.
        is_lacking: Whether a skipped level leaves something unproven, which the verdict shows.
    """

    level: str
    status: LevelStatus
    reason: str
    details: tuple[Finding, ...] = ()
    is_lacking: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the level as reports carry it."""
        details = [finding.to_json() for finding in self.details]
        return {
            "level": self.level,
            "status": self.status,
            "reason": self.reason,
            "details": details,
        }


def failed(check: str, message: str) -> Finding:
    """Return a finding that makes its level fail."""
    return Finding(check, "failed", message)


def warning(check: str, message: str) -> Finding:
    """Return a finding that is told and decides nothing."""
    return Finding(check, "warning", message)


def judged(level: str, findings: Sequence[Finding], proven: str) -> Level:
    """Return a level that was run: failed with the first failure, else passed.

    Args:
        level: One of LEVELS.
        findings: Everything found.
        proven: What a passed level has shown.
    """
    failures = [finding for finding in findings if finding.status == "failed"]
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        first = failures[0]
        return Level(level, "failed", f"{first.check}: {first.message}{more}", tuple(findings))
    skipped = [finding for finding in findings if finding.status == "skipped"]
    if skipped:
        return Level(level, "skipped", skipped[0].message, tuple(findings), is_lacking=True)
    return Level(level, "passed", proven, tuple(findings))


def not_run(level: str, reason: str) -> Level:
    """Return a level that could not be run here, which leaves the verdict open."""
    return Level(level, "skipped", reason, is_lacking=True)


def not_needed(level: str, reason: str) -> Level:
    """Return a level that does not apply."""
    return Level(level, "skipped", reason)
