"""A baseline: the findings that are known and left for later, so that new ones stand out.

Entries go by rule, document and claim, and not by line, so that editing above them changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from scaffold.errors import RequestError
from scaffold.findings import Finding
from scaffold.skills.check.rules import RULES

SCHEMA = 1


class Sifted(NamedTuple):
    """What is left of the findings when a baseline was taken off.

    Args:
        new: The findings that it does not know.
        num_known: How many it hid.
        stale: The claims of its entries that nothing breaks any more.
        unknown: The rules of its entries that do not exist, or not any more.
    """

    new: list[Finding]
    num_known: int
    stale: list[str]
    unknown: list[str]


def baseline_text(findings: Sequence[Finding]) -> str:
    """Return the file that makes all these findings known."""
    rows = [
        {
            "fingerprint": each.fingerprint,
            "rule": each.rule,
            "path": each.path,
            "claim": each.claim,
        }
        for each in findings
    ]
    rows.sort(key=lambda row: (row["path"], row["rule"], row["claim"]))
    return json.dumps({"schema": SCHEMA, "findings": rows}, indent=2) + "\n"


def read_baseline(path: Path) -> list[dict[str, str]]:
    """Read a baseline.

    Raises:
        RequestError: It cannot be read, or a newer version wrote it.
    """
    try:
        loaded: Any = json.loads(path.read_text(encoding="utf-8"))
        rows = cast("list[dict[str, str]]", loaded["findings"])
        schema = int(loaded["schema"])
        good = all(row["fingerprint"] for row in rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(
            f"the baseline {path} cannot be read: {error}",
            code="target_invalid",
            hint="rewrite it with --write-baseline",
        ) from error
    if schema > SCHEMA or not good:
        raise RequestError(
            f"the baseline {path} has the schema {schema}; this tool knows {SCHEMA}",
            code="target_newer",
        )
    return rows


def sift(findings: Sequence[Finding], rows: Sequence[dict[str, str]]) -> Sifted:
    """Take a baseline off the findings; an entry hides one finding."""
    known = Counter(row["fingerprint"] for row in rows)
    new: list[Finding] = []
    for finding in findings:
        key = finding.fingerprint
        if known[key]:
            known[key] -= 1
        else:
            new.append(finding)
    current = [row for row in rows if row.get("rule") in RULES]
    stale = [
        f"{row['path']}: {row['claim']}" for row in current if _take(known, row["fingerprint"])
    ]
    unknown = sorted({str(row.get("rule")) for row in rows if row.get("rule") not in RULES})
    return Sifted(new, len(findings) - len(new), stale, unknown)


def _take(known: Counter[str], key: str) -> bool:
    if known[key]:
        known[key] -= 1
        return True
    return False
