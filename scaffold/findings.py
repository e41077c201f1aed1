"""What a check reports of a file, and the forms in which every command writes it.

Sources:
    The OASIS standard SARIF 2.1.0, and GitHub's documentation of workflow commands:
    ``::error file=...,line=...::message``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from scaffold import __version__
from scaffold.errors import ScaffoldError
from scaffold.report import Report, error_json

Severity = Literal["error", "warning", "note"]
Confidence = Literal["high", "medium", "low"]

FORMATS = ("human", "json", "sarif", "github")

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_GITHUB_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


class Fix(NamedTuple):
    """A replacement of text on one line of a file.

    Args:
        line: The line, from 1.
        before: The text to replace.
        after: The text that replaces it.
        is_safe: Whether it may be applied unasked: the meaning is certain.
    """

    line: int
    before: str
    after: str
    is_safe: bool = True


class Finding(NamedTuple):
    """One thing that is wrong at one place of a file.

    Args:
        path: The file, relative to the root; of a stored commit message the commit.
        line: From 1.
        column: From 1.
        rule: The rule's id.
        claim: What is wrong, in the words of the file; fingerprints are made of it.
        message: What is wrong, in a sentence.
        evidence: What it was compared with.
        now: What would be right, or empty.
        severity: "error" makes the command fail.
        confidence: How certain it is.
        fix: The edit that fixes it.
        reason: The class of the evidence ("removed", "moved"), where there are classes, or empty.
    """

    path: str
    line: int
    column: int
    rule: str
    claim: str
    message: str
    evidence: str = ""
    now: str = ""
    severity: Severity = "error"
    confidence: Confidence = "high"
    fix: Fix | None = None
    reason: str = ""

    def at(self, severity: Severity) -> Finding:
        """Return the same finding with another severity."""
        return self._replace(severity=severity)

    def place_of_fix(self, line: str) -> int | None:
        """Return where the fix replaces text on its line; None where that is not certain.

        It is at the column, within the words that are wrong there, or at the one place that has
        what is replaced.
        """
        assert self.fix is not None, "only a finding with a fix is asked"
        start, before = self.column - 1, self.fix.before
        if line.startswith(before, start):
            return start
        if line.startswith(self.claim, start) and self.claim.count(before) == 1:
            return start + self.claim.find(before)
        return line.find(before) if line.count(before) == 1 else None

    @property
    def fingerprint(self) -> str:
        """What identifies the finding when its line has moved: rule, file and claim."""
        import hashlib  # costs 3 ms, which a hook of git does without

        key = "\0".join((self.rule, self.path, self.claim))
        return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data, the keys in the order above."""
        fix = self.fix._asdict() if self.fix is not None else None
        return {**self._asdict(), "fix": fix}


class RuleText(NamedTuple):
    """What SARIF has to say of a rule.

    Args:
        summary: What the rule asks for.
        why: What happens where it is broken, or empty.
        page: The page that describes it, or empty.
        severity: The usual one.
    """

    summary: str
    why: str = ""
    page: str = ""
    severity: Severity = "error"


def write_findings(
    report: Report,
    form: str,
    findings: Sequence[Finding],
    rules: Mapping[str, RuleText],
    properties: Mapping[str, Any] | None = None,
) -> Report:
    """Give a report the text of one of FORMATS.

    Args:
        report: The report of a command; for "human" its text stays.
        form: One of FORMATS.
        findings: What was found.
        rules: The rules that were broken, and perhaps others.
        properties: Further facts for SARIF.
    """
    match form:
        case "json":
            import json  # costs 1 ms, and text for people does without

            report.text = json.dumps(report.to_json()) + "\n"
        case "sarif":
            report.text = to_sarif(findings, rules, properties)
        case "github":
            report.text = to_github(findings)
        case _:
            pass
    return report


def write_failure(form: str, command: str, error: ScaffoldError) -> str:
    """Return the text in one of FORMATS of a command that found nothing because it failed.

    A host that is given no document fails on that, and hides why there is none.
    """
    text = f"{error.message}\nhint: {error.hint}" if error.hint else error.message
    match form:
        case "json":
            import json  # as above

            return json.dumps(error_json(command, error)) + "\n"
        case "sarif":
            return _sarif_log([], {"invocations": [_sarif_failure(error.code, text)]})
        case "github":
            return f"::error title={error.code}::{_github_text(text)}\n"
        case _:
            return ""


def human_rows(finding: Finding) -> Iterator[str]:
    """Yield the lines of a finding as people read it."""
    place = f"{finding.path}:{finding.line}:{finding.column}"
    reason = f"  [{finding.reason}]" if finding.reason else ""
    yield f"{place}  {finding.severity}  {finding.rule}  {finding.message}{reason}"
    if finding.evidence:
        yield f"    {finding.evidence}"
    if finding.now:
        yield f"    now: {finding.now}"
    if finding.fix is not None:
        how = "--fix writes it" if finding.fix.is_safe else "a guess"
        yield f"    fix: {finding.fix.before} -> {finding.fix.after} ({how})"


def to_sarif(
    findings: Sequence[Finding],
    rules: Mapping[str, RuleText],
    properties: Mapping[str, Any] | None = None,
) -> str:
    """Return findings as one SARIF log."""
    names = sorted({finding.rule for finding in findings})
    run: dict[str, Any] = {
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(each, names.index(each.rule)) for each in findings],
    }
    if properties:
        run["properties"] = dict(properties)
    return _sarif_log([_sarif_rule(name, rules[name]) for name in names], run)


def _sarif_log(rules: list[dict[str, Any]], run: Mapping[str, Any]) -> str:
    import json  # as above

    driver = {"name": "areal-scaffold", "semanticVersion": __version__, "rules": rules}
    whole: dict[str, Any] = {"tool": {"driver": driver}, "results": [], **run}
    log = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [whole]}
    return json.dumps(log, indent=2) + "\n"


def _sarif_failure(code: str, text: str) -> dict[str, Any]:
    notification = {"level": "error", "descriptor": {"id": code}, "message": {"text": text}}
    return {"executionSuccessful": False, "toolExecutionNotifications": [notification]}


def _sarif_rule(name: str, rule: RuleText) -> dict[str, Any]:
    page = f"The page is {rule.page}." if rule.page else ""
    row = {
        "id": name,
        "shortDescription": {"text": rule.summary},
        "help": {"text": " ".join(filter(None, (rule.summary, rule.why, page)))},
        "defaultConfiguration": {"level": rule.severity},
    }
    return row | ({"fullDescription": {"text": rule.why}} if rule.why else {})


def _sarif_result(finding: Finding, index: int) -> dict[str, Any]:
    region = {"startLine": finding.line, "startColumn": finding.column}
    # A path may hold bytes that are no UTF-8; a URI spells them out.
    uri = quote(finding.path.encode("utf-8", "surrogateescape"))
    place = {"artifactLocation": {"uri": uri}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": _sentence(finding)},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"claim/v1": finding.fingerprint},
        "properties": {"confidence": finding.confidence}
        | ({"reason": finding.reason} if finding.reason else {}),
    }


def to_github(findings: Sequence[Finding]) -> str:
    """Return one workflow command for each finding, an annotation of its line."""
    return "".join(f"{_github_command(finding)}\n" for finding in findings)


def _github_command(finding: Finding) -> str:
    fields = {
        "file": finding.path,
        "line": str(finding.line),
        "col": str(finding.column),
        "title": finding.rule,
    }
    keys = ",".join(
        f"{key}={_github_text(value).replace(':', '%3A').replace(',', '%2C')}"
        for key, value in fields.items()
    )
    return f"::{_GITHUB_LEVELS[finding.severity]} {keys}::{_github_text(_sentence(finding))}"


def _github_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _sentence(finding: Finding) -> str:
    """Return a finding as one text: what is wrong, what it was compared with, what is right."""
    parts = [finding.message, finding.evidence]
    parts += [f"now: {finding.now}"] if finding.now else []
    return "; ".join(part for part in parts if part)
