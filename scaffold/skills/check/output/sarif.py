"""Findings as SARIF, which code hosts show beside the lines.

Source:
    The OASIS standard SARIF 2.1.0.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from scaffold import __version__
from scaffold.skills.check.checking import Outcome
from scaffold.skills.check.claim import Finding
from scaffold.skills.check.output.json import fingerprint
from scaffold.skills.check.rules import RULES

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(outcome: Outcome) -> str:
    """Returns an outcome as one SARIF log."""
    names = sorted({finding.rule for finding in outcome.findings})
    driver = {
        "name": "areal-scaffold",
        "semanticVersion": __version__,
        "rules": [_rule(name) for name in names],
    }
    results = [_result(each, names.index(each.rule)) for each in outcome.findings]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {"claims": dict(outcome.states)},
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(name: str) -> dict[str, Any]:
    rule = RULES[name]
    return {
        "id": name,
        "shortDescription": {"text": rule.asks},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.asks} {rule.why} The page is docs/en/rules/{name}.md."},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": finding.line, "startColumn": finding.column}
    place = {"artifactLocation": {"uri": quote(finding.path)}, "region": region}
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": sentence(finding)},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"claim/v1": fingerprint(finding)},
        "properties": {"confidence": finding.confidence},
    }
    return result


def sentence(finding: Finding) -> str:
    """Returns a finding as one text: what is wrong, what was looked at, what is true now."""
    parts = [finding.message, finding.evidence]
    parts += [f"now: {finding.now}"] if finding.now else []
    return "; ".join(part for part in parts if part)
