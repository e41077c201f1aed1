"""Is the list of error codes complete, and does every code still exist?"""

from __future__ import annotations

import re
from pathlib import Path

from scaffold.errors import declared_codes

ROOT = Path(__file__).parents[2]


def test_the_error_codes():
    text = (ROOT / "docs" / "en" / "reports.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", text, re.MULTILINE)
    assert dict(rows) == declared_codes()


def test_every_code_is_raised_somewhere():
    sources = "".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "scaffold").rglob("*.py"))
    )
    unused = [code for code in declared_codes() if sources.count(f'"{code}"') < 2]
    assert unused == []
