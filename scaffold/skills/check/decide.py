"""The one table: what becomes of a verdict, by the class of its reason and the text's intent."""

from __future__ import annotations

from typing import NamedTuple

from scaffold.findings import Finding, Severity
from scaffold.skills.check.reference import Intent, Judged, Reason
from scaffold.skills.check.rules import RULES


class Row(NamedTuple):
    """A row of the table.

    Args:
        severity: What is reported where the text asserts the reference.
        is_strong: Whether only the reference's own clause takes it back, and not its surroundings.
        was_here: Whether it was here: an example of what is gone is wrong, too.
        always: Whether it is reported whatever the text does with it.
    """

    severity: Severity
    is_strong: bool = True
    was_here: bool = False
    always: bool = False


TABLE: dict[Reason, Row] = {
    "removed": Row("error", was_here=True),
    "moved": Row("error", was_here=True),
    "other spelling": Row("error", was_here=True),
    "wrong line": Row("error"),
    "contradicts": Row("error"),
    "never here": Row("warning", is_strong=False),
    "written from the root": Row("warning", always=True),
}
"""Every other class is no finding."""


def decide(judged: Judged, path: str) -> Finding | None:
    """Return what is reported of a reference, or None.

    Args:
        judged: The reference with its verdict, the history asked.
        path: The document it is in.
    """
    reference, verdict = judged.reference, judged.verdict
    row = TABLE.get(verdict.reason)
    if row is None:
        return None
    is_strong = row.was_here or (row.is_strong and verdict.is_sure)
    # What is nearly another name, or is said of one file, is meant whatever the page makes.
    is_said = bool(verdict.now) or (reference.kind == "name" and bool(verdict.place))
    is_near = (
        is_said and verdict.reason == "never here" and judged.wide not in ("denies", "template")
    )
    intent: Intent = judged.near if is_strong or is_near else judged.wide
    # A path that was here is of here, whoever else is spoken of; a name may be of any place.
    is_of_here = verdict.asked is not None and bool(verdict.asked.paths)
    taken = ("asserts", "template", "elsewhere") if is_of_here else ("asserts", "template")
    is_meant = intent in (taken if row.was_here else ("asserts",))
    if not is_meant and not row.always:
        return None
    rule = RULES[verdict.rule]
    severity = "warning" if "warning" in (row.severity, rule.severity) else row.severity
    return Finding(
        path,
        reference.line,
        reference.column,
        verdict.rule,
        reference.text,
        verdict.message,
        verdict.evidence,
        verdict.now,
        severity,
        "high" if is_strong else "medium",
        verdict.fix,
        verdict.reason,
    )
