"""Findings as one JSON object."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scaffold.findings import Finding
from scaffold.skills.check.checking import Outcome
from scaffold.skills.check.claim import Judged


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the keys ``findings``, ``claims`` and ``documents`` of the report."""
    return {
        "findings": [finding_json(each) for each in outcome.findings],
        "claims": dict(outcome.states),
        "documents": [
            {
                "path": path,
                "claims": dict(Counter(each.verdict.state for each in rows)),
                "undecided": [
                    _undecided(each) for each in rows if each.verdict.state == "undecided"
                ],
            }
            for path, rows in outcome.judged.items()
        ],
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return one finding, with its fingerprint."""
    return {**finding.to_json(), "fingerprint": finding.fingerprint}


def _undecided(judged: Judged) -> dict[str, Any]:
    claim = judged.claim
    return {
        "line": claim.line,
        "kind": claim.kind,
        "claim": claim.text,
        "reason": judged.verdict.reason,
    }
