"""Lines of files, in every spelling that pages use."""

from __future__ import annotations

import pytest

from tests.unit.scaffold.skills.check.conftest import Checked, told

LOOP = "import os\n\n\nclass Loop:\n    def run(self, rows):\n        return rows\n\n\nLIMIT = 3\n"
FILES = {"pkg/__init__.py": "", "pkg/loop.py": LOOP}


@pytest.mark.parametrize(
    "page",
    [
        "`run` (`pkg/loop.py:5`) does it.",
        "`Loop` in `pkg/loop.py:4-6` does it.",
        "`pkg/loop.py` (`Loop`, lines 4-6) does it.",
        "`pkg/loop.py:6` (`run`) returns.",
        "Line 9 of `pkg/loop.py` has it.",
        "`pkg/loop.py#L1-L9` is all of it.",
        "```4:6:pkg/loop.py\nclass Loop:\n    def run(self, rows):\n        return rows\n```",
    ],
)
def test_lines_that_hold_what_is_said_are_left_alone(checked: Checked, page: str) -> None:
    assert told(checked(page, FILES)) == []


@pytest.mark.parametrize(
    ("page", "after"),
    [
        ("`LIMIT` (`pkg/loop.py:2`) bounds it.", "pkg/loop.py:9"),
        ("`Loop` at `pkg/loop.py:9` does it.", "pkg/loop.py:4"),
        ("`LIMIT` in `pkg/loop.py:1-3` bounds it.", "pkg/loop.py:9-11"),
    ],
)
def test_a_symbol_at_other_lines_is_wrong_and_mended(
    checked: Checked, page: str, after: str
) -> None:
    outcome = checked(page, FILES)
    assert told(outcome) == [("line-number", "wrong line", 1)]
    assert outcome.findings[0].fix is not None
    assert outcome.findings[0].fix.after == after


def test_code_that_is_shown_from_other_lines_is_wrong(checked: Checked) -> None:
    page = "Read `pkg/loop.py`:\n\n```7:7:pkg/loop.py\nLIMIT = 3\n```\n"
    outcome = checked(page, FILES)
    assert told(outcome) == [("line-number", "wrong line", 3)]
    assert outcome.findings[0].fix is not None
    assert outcome.findings[0].fix.after == "9:9:pkg/loop.py"


def test_a_line_behind_the_end_is_wrong(checked: Checked) -> None:
    assert told(checked("See `pkg/loop.py:400`.", FILES)) == [("line-number", "wrong line", 1)]


def test_a_path_with_a_number_is_not_true_because_the_path_is_there(checked: Checked) -> None:
    outcome = checked("See `pkg/loop.py:7`.", FILES)
    assert [each.verdict.reason for each in outcome.judged["AGENTS.md"]] == ["open"]
