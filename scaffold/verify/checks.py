"""What a level of verification found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

CheckStatus = Literal["passed", "failed", "warning", "skipped"]
LevelStatus = Literal["passed", "failed", "skipped"]
LEVELS = ("static", "tests", "episodes")


@dataclass(frozen=True)
class Check:
    """One check with its outcome; the message of a failed one includes what to do."""

    check: str
    status: CheckStatus
    message: str

    def to_json(self) -> dict[str, str]:
        """Return the check as reports carry it."""
        return {"check": self.check, "status": self.status, "message": self.message}


@dataclass(frozen=True)
class Level:
    """The outcome of one level for one unit.

    Args:
        level: One of LEVELS.
        status: Whether it was run, and how it went.
        reason: In one line: what was proven, what failed first, or why it was not run.
        details: Every check.
        is_lacking: Whether a skipped level leaves something unproven, which the verdict shows.
    """

    level: str
    status: LevelStatus
    reason: str
    details: tuple[Check, ...] = ()
    is_lacking: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the level as reports carry it."""
        details = [check.to_json() for check in self.details]
        return {
            "level": self.level,
            "status": self.status,
            "reason": self.reason,
            "details": details,
        }


def failed(check: str, message: str) -> Check:
    """Return a check that makes its level fail."""
    return Check(check, "failed", message)


def warning(check: str, message: str) -> Check:
    """Return a check that is told and decides nothing."""
    return Check(check, "warning", message)


def judged(level: str, checks: Sequence[Check], proven: str) -> Level:
    """Return a level that was run: failed with the first failure, else passed.

    Args:
        level: One of LEVELS.
        checks: Every check that was made.
        proven: What a passed level has shown.
    """
    failures = [check for check in checks if check.status == "failed"]
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        first = failures[0]
        return Level(level, "failed", f"{first.check}: {first.message}{more}", tuple(checks))
    skipped = [check for check in checks if check.status == "skipped"]
    if skipped:
        return Level(level, "skipped", skipped[0].message, tuple(checks), is_lacking=True)
    return Level(level, "passed", proven, tuple(checks))


def not_run(level: str, reason: str) -> Level:
    """Return a level that could not be run here, which leaves the verdict open."""
    return Level(level, "skipped", reason, is_lacking=True)


def not_needed(level: str, reason: str) -> Level:
    """Return a level that does not apply."""
    return Level(level, "skipped", reason)
