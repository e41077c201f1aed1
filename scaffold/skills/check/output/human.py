"""Findings as people read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scaffold.findings import human_rows
from scaffold.skills.check.checking import Outcome


def to_text(outcome: Outcome, *, show_undecided: bool = False) -> str:
    """Return an outcome as text: every finding, then how many claims were decided."""
    rows: list[str] = []
    for finding in outcome.findings:
        rows += human_rows(finding)
    if show_undecided:
        rows += _undecided(outcome)
    return "\n".join([*rows, *_summary(outcome)]) + "\n"


def _undecided(outcome: Outcome) -> Iterator[str]:
    for path, rows in outcome.judged.items():
        for claim, verdict in ((each.claim, each.verdict) for each in rows):
            if verdict.state == "undecided":
                yield f"{path}:{claim.line}:{claim.column}  undecided  {claim.kind}  {claim.text}"
                yield f"    {verdict.reason}"


def _summary(outcome: Outcome) -> Iterator[str]:
    states = outcome.states
    total = sum(states.values())
    yield (
        f"{total} claims in {outcome.num_documents} documents: {states['true']} true, "
        f"{states['false']} false, {states['undecided']} undecided"
    )
    grave = Counter(finding.severity for finding in outcome.findings)
    if outcome.findings:
        yield ", ".join(
            f"{grave[each]} {each}s" for each in ("error", "warning", "note") if grave[each]
        )
    else:
        yield "nothing found that is wrong"
