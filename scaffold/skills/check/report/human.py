"""Findings as people read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scaffold.findings import human_rows
from scaffold.skills.check.checking import Outcome


def to_text(outcome: Outcome, *, show_undecided: bool = False) -> str:
    """Return an outcome as text: every finding, then how many references were decided."""
    rows: list[str] = []
    for finding in outcome.findings:
        rows += human_rows(finding)
    if show_undecided:
        rows += _undecided(outcome)
    return "\n".join([*rows, summary(outcome)]) + "\n"


def summary(outcome: Outcome) -> str:
    """Return how much was judged, what was not compared, and how grave what was found is."""
    return "\n".join(_summary(outcome))


def _undecided(outcome: Outcome) -> Iterator[str]:
    for path in outcome.judged:
        for each in outcome.undecided(path):
            reference, verdict = each.reference, each.verdict
            place = f"{path}:{reference.line}:{reference.column}"
            yield f"{place}  undecided  {reference.kind}  {reference.text}"
            yield f"    {verdict.evidence}  [{verdict.reason}]"


def _summary(outcome: Outcome) -> Iterator[str]:
    states = outcome.states
    yield (
        f"{states.total()} claims in {outcome.num_documents} documents: {states['true']} true, "
        f"{states['false']} false, {states['undecided']} undecided"
    )
    for path, why in sorted(outcome.uncompared.items()):
        yield f"not compared: {path}: {why}"
    yield from outcome.notes
    grave = Counter(finding.severity for finding in outcome.findings)
    if outcome.findings:
        yield ", ".join(
            f"{grave[each]} {each}s" for each in ("error", "warning", "note") if grave[each]
        )
    else:
        yield "no errors found"
