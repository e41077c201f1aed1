"""Applies the safe fixes of findings to the documents' bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from scaffold.analysis.files.files import Files
from scaffold.findings import Finding
from scaffold.transaction.change import Change


def fix_changes(findings: Sequence[Finding], files: Files) -> list[Change]:
    """Return the changes that the safe fixes of findings make.

    A fix whose words do not stand on its line any more, or stand there twice, is left out.
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
    lines = data.split(b"\n")
    # From the right, so that the columns of the others on the line stay true.
    for finding in sorted(findings, key=lambda each: (each.line, each.column), reverse=True):
        fix = finding.fix
        assert fix is not None, "only findings with a fix come here"
        if not 0 < fix.line <= len(lines):
            continue
        line, old, new = lines[fix.line - 1], fix.before.encode(), fix.after.encode()
        # Columns count characters; behind a byte order mark or a wide one they still do.
        start = len(line.decode("utf-8", "replace")[: finding.column - 1].encode())
        at = line.find(old, start)
        if at != start and line.count(old) != 1:
            continue
        at = at if at == start else line.find(old)
        lines[fix.line - 1] = line[:at] + new + line[at + len(old) :]
    return b"\n".join(lines)
