"""Which tests of a file an expression of markers selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.files import list_files
from scaffold.analysis.project.pytest_names import PytestNames
from scaffold.analysis.project.test_marks import marks_of, selected

SOURCE = """
import pytest

pytestmark = [pytest.mark.unit]

@pytest.mark.slow
class TestRun:
    pytestmark = pytest.mark.gpu

    def test_one(self): ...

    @pytest.mark.skipif(True, reason="x")
    def test_two(self): ...

    def helper(self): ...

@pytest.mark.parametrize("x", [1, 2])
async def test_three(x): ...
"""


def test_a_test_has_the_markers_of_its_class_and_module() -> None:
    assert marks_of(SOURCE) == (
        {"unit", "slow", "gpu"},
        {"unit", "slow", "gpu", "skipif"},
        {"unit", "parametrize"},
    )
    assert marks_of("def test_one(:\n") == ()


@pytest.mark.parametrize(
    ("expression", "count"),
    [("", 3), ("slow", 2), ("not slow", 1), ("gpu and not skipif", 1), ("slow or unit", 3),
     ("(slow or gpu) and skipif", 1), ("skipif(reason='x')", 1), ("no-such:thing", 3)],
)  # fmt: skip
def test_an_expression_selects(expression: str, count: int) -> None:
    assert len(selected(marks_of(SOURCE), expression)) == count


SETTINGS = {
    "a text": ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"-q -m 'not slow'\"\n"),
    "a list": ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = ["-m", "not slow"]\n'),
    "of two the last": ("pytest.ini", "[pytest]\naddopts = -m gpu\n  -m 'not slow'\n"),
    "setup.cfg": ("setup.cfg", "[tool:pytest]\naddopts = -m'not slow'\n"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_the_settings_of_pytest_have_a_usual_expression(case: str, tmp_path: Path) -> None:
    path, text = SETTINGS[case]
    (tmp_path / path).write_text(text)
    wanted = "not slow"
    assert PytestNames(list_files(tmp_path)).default_markers == wanted
    (tmp_path / path).write_text("[pytest]\n")
    assert PytestNames(list_files(tmp_path)).default_markers == ""
