"""Which fixes are offered as certain, and what they write."""

from __future__ import annotations

from pathlib import Path

from scaffold.analysis.files.files import list_files
from scaffold.findings import Finding
from scaffold.skills.check.fixing import fix_changes
from tests.unit.scaffold.skills.check.conftest import Checked, told

LOOP = "class LoopDispatcher:\n    def _run_command(self, data):\n        return data\n"
HERE = "Read `pkg/loop.py`.\n\n"
FILES = {f"pkg/{each}.py": "" for each in ("jobs", "data", "ways", "logs", "keys")}
CALL = (
    f"{HERE}It reads {', '.join(f'`{each}`' for each in FILES)}.\n\n"
    "`LoopDispatcher` calls `_run_command()`.\n"
)


def _safe(findings: list[Finding]) -> list[Finding]:
    return [each for each in findings if each.fix is not None and each.fix.is_safe]


def test_a_name_that_only_looks_like_a_removed_one_is_not_written(checked: Checked) -> None:
    files = {
        **FILES,
        "pkg/loop.py": "class LoopDispatcher:\n    pass\n",
        "pkg/phone.py": "def run_command():\n    pass\n",
    }
    outcome = checked(CALL, files, {**FILES, "pkg/loop.py": LOOP})
    assert told(outcome) == [("symbol-missing", "removed", 5)]
    assert _safe(outcome.findings) == []


def test_a_name_that_became_public_where_it_was_is_written(checked: Checked) -> None:
    files = {**FILES, "pkg/loop.py": LOOP.replace("_run", "run")}
    outcome = checked(CALL, files, {**FILES, "pkg/loop.py": LOOP})
    assert told(outcome) == [("symbol-missing", "other spelling", 5)]
    assert len(_safe(outcome.findings)) == 1


def test_the_name_of_a_skill_is_not_written(checked: Checked) -> None:
    skill = "---\nname: fleet\ndescription: Use it to count ships in a harbour.\n---\nCount them.\n"
    outcome = checked(HERE, {"pkg/loop.py": LOOP, "skills/counting/SKILL.md": skill})
    assert [each.rule for each in outcome.findings] == ["name-folder"]
    assert _safe(outcome.findings) == []


def test_a_fix_whose_words_are_not_on_its_line_is_none(checked: Checked) -> None:
    page = f"{HERE}```\n.\n├── pkg/\n│   ├── loop.py\n│   ├── phone.py\n│   └── walks/\n```\n"
    files = {"pkg/loop.py": LOOP, "pkg/phone.py": LOOP, "pkg/ways/one.py": LOOP * 9}
    before = {"pkg/loop.py": LOOP, "pkg/walks/one.py": LOOP * 9}
    outcome = checked(page, files, before)
    assert {each.reason for each in outcome.findings} == {"moved"}
    for each in _safe(outcome.findings):
        assert each.fix is not None
        assert each.fix.before in page.split("\n")[each.fix.line - 1]


def test_what_a_line_has_twice_is_written_at_once(checked: Checked, tmp_path: Path) -> None:
    files = {"pkg/ways/one.py": LOOP * 9, "pkg/loop.py": LOOP}
    before = {"pkg/walks/one.py": LOOP * 9, "pkg/loop.py": LOOP}
    page = f"{HERE}First `pkg/walks/one.py`, then again `pkg/walks/one.py`.\n"
    outcome = checked(page, files, before)
    assert len(_safe(outcome.findings)) == 1
    (change,) = fix_changes(outcome.findings, list_files(tmp_path / "repository"))
    assert (change.after or b"").decode() == page.replace("walks", "ways")
