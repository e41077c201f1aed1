"""The report of a review as data, in the form that its JSON schema describes."""

from __future__ import annotations

from typing import Any

from scaffold.findings import Finding
from scaffold.vcs.review.analysis import Analysis, unreached
from scaffold.vcs.review.changed_file import ChangedFile
from scaffold.vcs.review.checklist import Reading
from scaffold.vcs.review.definition_changes import SymbolChange
from scaffold.vcs.review.rule_matching import Signal
from scaffold.vcs.review.test_reach import Reach
from scaffold.vcs.review.uses import Use
from scaffold.vcs.review.watched_definitions import Key


def to_data(analysis: Analysis) -> dict[str, Any]:
    """Return the report as the JSON that its schema describes."""
    comparison = analysis.comparison
    # Tests were looked for only of these: the others cannot be called untested.
    sought = [each for each in analysis.symbols if (each.path, each.name) in analysis.reach]
    return {
        "old": comparison.old_name,
        "new": comparison.new_name,
        "why": comparison.why,
        "commits": list(comparison.subjects),
        "rules": list(analysis.active),
        "risk": analysis.risk,
        "files": [_file_data(each, analysis) for each in analysis.files],
        "findings": [_finding_data(each) for each in analysis.findings],
        "signals": [_signal_data(each) for each in analysis.signals],
        "symbols": [_symbol_data(each) for each in analysis.symbols],
        "dependencies": [each._asdict() for each in analysis.dependencies],
        "callers": [_use_data(each) for each in analysis.uses],
        "tests": [_reach_data(*each) for each in sorted(analysis.reach.items())],
        "untested": [
            {"path": each.path, "line": each.symbol.start, "name": each.name}
            for each in unreached(sought, analysis.reach)
        ],
        "passes": [_reading_data(each, analysis) for each in analysis.readings],
        "not_read": list(analysis.notes),
    }


def _finding_data(finding: Finding) -> dict[str, Any]:
    return {
        "fact": finding.rule,
        "path": finding.path,
        "line": finding.line,
        "claim": finding.claim,
        "evidence": finding.evidence,
    }


def _file_data(file: ChangedFile, analysis: Analysis) -> dict[str, Any]:
    change = file.change
    return {
        "path": file.path,
        "old_path": change.old_path,
        "status": change.status,
        "role": file.role,
        "added": change.added_count,
        "removed": change.removed_count,
        "is_binary": change.is_binary,
        "risk": analysis.risk_of(file.path),
    }


def _signal_data(signal: Signal) -> dict[str, Any]:
    rule = signal.rule
    return {
        "rule": rule.id,
        "domain": rule.domain,
        "risk": rule.risk,
        "signal": rule.signal,
        "why": rule.why,
        "failures": list(rule.failures),
        "path": signal.path,
        "lines": [each._asdict() for each in signal.lines],
        "notes": list(signal.notes),
    }


def _symbol_data(change: SymbolChange) -> dict[str, Any]:
    return {
        "path": change.path,
        "line": change.symbol.start,
        "name": change.name,
        "kind": change.symbol.kind,
        "how": change.how,
        "is_public": change.symbol.is_public,
        "is_exported": change.is_exported,
        "breaks": change.breaks,
        "old_path": change.old_path,
        "old_head": change.old.head if change.old else None,
        "new_head": change.new.head if change.new else None,
    }


def _use_data(use: Use) -> dict[str, Any]:
    (path, name) = use.key
    return {
        "of": {"path": path, "name": name},
        "path": use.path,
        "line": use.line,
        "inside": use.inside,
        "how": use.how,
    }


def _reach_data(key: Key, reach: Reach) -> dict[str, Any]:
    return {
        "path": key[0],
        "name": key[1],
        "direct": list(reach.direct),
        "through": [{"test": test, "user": user} for test, user in reach.through],
        "imported": reach.imported,
        "namesake": reach.namesake,
    }


def _reading_data(reading: Reading, analysis: Analysis) -> dict[str, Any]:
    agent = reading.agent
    return {
        "pass": reading.of.id,
        "title": reading.of.title,
        "brief": reading.of.brief,
        "agent": agent.name if agent else None,
        "because": reading.because,
        "rules": list(dict.fromkeys(each.rule.id for each in reading.signals)),
        "files": sorted(
            {each.path for each in reading.signals}
            | {each.path for each in analysis.files if each.role in reading.roles}
        ),
    }
