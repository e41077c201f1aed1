"""Findings as workflow commands, which GitHub shows as annotations of the lines.

Source:
    GitHub's documentation of workflow commands: ``::error file=...,line=...::message``.
"""

from __future__ import annotations

from scaffold.skills.check.checking import Outcome
from scaffold.skills.check.claim import Finding
from scaffold.skills.check.output.sarif import sentence

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def to_github(outcome: Outcome) -> str:
    """Returns one workflow command for each finding."""
    return "".join(f"{_command(finding)}\n" for finding in outcome.findings)


def _command(finding: Finding) -> str:
    fields = {
        "file": finding.path,
        "line": str(finding.line),
        "col": str(finding.column),
        "title": finding.rule,
    }
    keys = ",".join(f"{key}={_value(value)}" for key, value in fields.items())
    return f"::{_LEVELS[finding.severity]} {keys}::{_text(sentence(finding))}"


def _text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _text(text).replace(":", "%3A").replace(",", "%2C")
