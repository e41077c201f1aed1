"""Findings as one JSON object."""

from __future__ import annotations

from typing import Any

from scaffold.findings import Finding
from scaffold.skills.check.checking import Outcome, states_of
from scaffold.skills.check.reference import Judged


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the keys ``findings``, ``claims``, ``documents`` and ``notes`` of the report."""
    return {
        "findings": [finding_json(each) for each in outcome.findings],
        "claims": dict(outcome.states),
        "documents": [
            {
                "path": path,
                "claims": dict(states_of(rows, path)),
                "compared": path not in outcome.uncompared,
                "why": outcome.uncompared.get(path, ""),
                "undecided": [_undecided(each) for each in outcome.undecided(path)],
            }
            for path, rows in outcome.judged.items()
        ],
        "notes": list(outcome.notes),
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return one finding, with its fingerprint."""
    return {**finding.to_json(), "fingerprint": finding.fingerprint}


def _undecided(judged: Judged) -> dict[str, Any]:
    reference, verdict = judged.reference, judged.verdict
    return {
        "line": reference.line,
        "kind": reference.kind,
        "claim": reference.text,
        "class": verdict.reason,
        "reason": verdict.evidence,
    }
