"""Reports as people read them."""

from __future__ import annotations

import pytest

from scaffold.report import Registration, Report


@pytest.mark.parametrize(
    ("table", "key", "line"),
    [
        ("REWARDS", "sums", "registered a/b.py:3  REWARDS['sums']"),
        ("", "SumsWorkflow", "registered a/b.py:3  SumsWorkflow"),
    ],
)
def test_a_line_in_no_table_is_told_by_its_name(table: str, key: str, line: str) -> None:
    report = Report("add", registered=(Registration("a/b.py", table, key, "", 3),))
    assert report.to_text().splitlines() == [line]
