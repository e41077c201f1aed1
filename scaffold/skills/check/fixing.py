"""Applies the safe fixes of findings to the documents' bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from scaffold.analysis.files.files import Files
from scaffold.findings import Finding
from scaffold.transaction.change import Change


def fix_changes(findings: Sequence[Finding], files: Files) -> list[Change]:
    """Return the changes that the safe fixes of findings make.

    A fix whose words are not on its line any more, or are there twice, is left out.
    """
    by_path: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.fix is not None and finding.fix.is_safe:
            by_path[finding.path].append(finding)
    changes: list[Change] = []
    for path, rows in by_path.items():
        before = (files.root / path).read_bytes()
        after = _fixed(before, rows)
        if after != before:
            changes.append(Change(path, "fixed", before, after))
    return changes


def _fixed(data: bytes, findings: Sequence[Finding]) -> bytes:
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    # From the right, so that the columns of the others on the line stay true.
    for finding in sorted(findings, key=lambda each: (each.line, each.column), reverse=True):
        fix = finding.fix
        assert fix is not None, "only findings with a fix come here"
        line = lines[fix.line - 1] if 0 < fix.line <= len(lines) else ""
        if (at := finding.place_of_fix(line)) is not None:
            fixed = line[:at] + fix.after + line[at + len(fix.before) :]
            # What a line has several times is told once.
            again = f"`{finding.claim}`"
            lines[fix.line - 1] = fixed.replace(again, again.replace(fix.before, fix.after, 1))
    return "\n".join(lines).encode("utf-8", "surrogateescape")
