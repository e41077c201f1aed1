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
        "### All of it (loop.py: 1-9)",
        "See loop.py L4-L6 and `pkg/loop.py`:9, and lines 5–6 of pkg/loop.py.",
        "Python loop.py: 10-20 % faster, on Node.js 16, of page.py:20px.",
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


@pytest.mark.parametrize(
    "page",
    [
        "See `pkg/loop.py:400`.",
        "### Implementation (loop.py: 327-355)",
        "It is at `pkg/loop.py`: 327-355.",
        "It is at `pkg/loop.py L327-L355`.",
        "It is at loop.py:327, in words.",
        "It is in pkg/loop.py (lines 327–355).",
        "Fixed lines 327-355 in loop.py.",
    ],
)
def test_a_line_behind_the_end_is_wrong(checked: Checked, page: str) -> None:
    assert told(checked(page, FILES)) == [("line-number", "wrong line", 1)]


def test_lines_in_brackets_are_told_with_their_bracket(checked: Checked) -> None:
    outcome = checked("It is in pkg/loop.py (lines 327–355), and so on.", FILES)
    assert [each.claim for each in outcome.findings] == ["pkg/loop.py (lines 327–355)"]


@pytest.mark.parametrize(
    ("folder", "found"), [("cli", [("line-number", "wrong line", 3)]), ("other", [])]
)
def test_of_several_files_the_one_that_the_page_names_in_full_is_meant(
    checked: Checked, folder: str, found: list[tuple[str, str, int]]
) -> None:
    page = f"Located: `src/{folder}/loop.py`\n\n### Run (loop.py: 327-355)\n"
    outcome = checked(page, {**FILES, "src/cli/loop.py": LOOP})
    assert [each for each in told(outcome) if each[2] == 3] == found


def test_a_path_with_a_number_is_not_true_because_the_path_is_there(checked: Checked) -> None:
    outcome = checked("See `pkg/loop.py:7`.", FILES)
    assert [each.verdict.reason for each in outcome.judged["AGENTS.md"]] == ["open"]


PAGE = "Read `pkg/loop.py`. Settings are read in `pkg/loop.py` lines 3-9, the rest around line 9.\n"


def test_lines_that_moved_since_the_page_was_written_are_wrong(checked: Checked) -> None:
    inner = LOOP.replace("import os\n", "import os\nimport re\nimport sys\nimport time\n")
    outcome = checked(PAGE, {**FILES, "pkg/loop.py": inner}, {**FILES, "AGENTS.md": PAGE})
    assert told(outcome) == [("line-number", "wrong line", 1)]
    assert outcome.findings[0].now == "line 3 is line 6 now and line 9 is line 12 now"


@pytest.mark.parametrize(
    "now",
    [
        LOOP,
        LOOP.replace("import os\n", "import os\nimport re\n"),  # nearly where they were
        LOOP.replace("\n\nclass", "\n\nN = 1\n\n\nclass").replace("LIMIT = 3\n", "K = 2\n"),
    ],
)
def test_lines_that_stand_or_were_written_anew_are_left_alone(checked: Checked, now: str) -> None:
    page = "Read `pkg/loop.py`. Settings are read in `pkg/loop.py` line 9.\n"
    assert told(checked(page, {**FILES, "pkg/loop.py": now}, {**FILES, "AGENTS.md": page})) == []


def test_a_page_that_was_edited_since_is_not_asked_of_the_history(checked: Checked) -> None:
    inner = LOOP.replace("import os\n", "import os\nimport re\nimport sys\nimport time\n")
    before = {**FILES, "AGENTS.md": PAGE.replace("3-9", "1-2")}
    assert told(checked(PAGE, {**FILES, "pkg/loop.py": inner}, before)) == []


def test_of_several_files_of_a_name_the_one_with_the_symbol_is_meant(checked: Checked) -> None:
    files = {
        **FILES,
        "pkg/inner/loop.py": "x = 1\n" * 9,
        "pkg/other/steps.py": "def run_all(): pass\n",
    }
    files["pkg/loop.py"] = LOOP + "\n\ndef load_rows(path):\n    return path\n"
    page = "Read `pkg/loop.py`. `load_rows()` opens it (`loop.py:2`).\n"
    assert told(checked(page, files)) == [("line-number", "wrong line", 1)]


def test_where_it_is_is_not_denied_with_what_is_there(checked: Checked) -> None:
    files = {**FILES, "pkg/loop.py": LOOP + "\n\ndef load_rows(path):\n    return path\n"}
    page = "Read `pkg/loop.py`. Rows are not kept, `load_rows` runs instead (`pkg/loop.py:2`).\n"
    assert told(checked(page, files)) == [("line-number", "wrong line", 1)]
