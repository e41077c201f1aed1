"""What a rule is."""

from __future__ import annotations

from typing import NamedTuple

from scaffold.findings import Severity


class Rule(NamedTuple):
    """One rule.

    Args:
        severity: "error" makes the command fail.
        asks: What it asks for, in a sentence.
        why: What happens to an agent, or a client, where it is broken.
    """

    severity: Severity
    asks: str
    why: str
