"""Prove a registered Archon model of the target against the one of transformers."""

from __future__ import annotations

import json
from typing import Any

from unit_probe import kit


def main(request: dict[str, Any], findings: kit.Findings) -> None:
    """Run the proof and reports one finding for each configuration that differs."""
    # Here and not above, so that a package that is missing becomes a finding.
    from archon_probe import stages
    from archon_probe.measure.model_source import resolve
    from archon_probe.proof.prove import prove

    stages.listen(findings.stage)
    wanted = {**request["answers"], "spec": request["symbol"], "checkpoint": None, "design": None}
    wanted["config"] = json.loads(wanted["config"]) if wanted.get("config") else None
    with findings.guard("model", "reading the configuration"):
        resolve(wanted)
    with findings.guard("proof", "proving"):
        proof = prove(wanted)
    for row in proof["variations"]:
        if row["status"] == "failed":
            findings.failed(row["name"], row["message"])
    place = proof.get("bisection")
    if place:
        findings.failed("first difference", place["text"])
    if proof["ok"]:
        findings.passed("proof", proof["summary"])
    elif not findings.failures:
        findings.failed("proof", proof["summary"])
