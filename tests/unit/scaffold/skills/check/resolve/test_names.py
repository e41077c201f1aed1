"""Names of code: in the file they are said to be in, by the alias of the project, in lists."""

from __future__ import annotations

import pytest

from tests.unit.scaffold.skills.check.conftest import Checked, told

LOOP = (
    "class StepLoop:\n    def run(self):\n        return 1\n\n\ndef start_loop():\n    return 2\n"
)
FILES = {
    "pkg/__init__.py": "def make_loop(depth, width=3):\n    return depth\n",
    "pkg/loop.py": LOOP,
    "pkg/other.py": "def stop_loop():\n    return 3\n",
    "README.md": "```python\nimport pkg as pk\n```\n",
}


@pytest.mark.parametrize(
    "page",
    [
        "`pkg/loop.py`: `StepLoop`, `start_loop`.",
        "`start_loop` in `pkg/loop.py` begins it.",
        "`pkg/loop.py` (`StepLoop.run`) does it.",
        "`pk.make_loop(depth, width=1)` makes one.",
        "It is `StepLoop.run()` or `pkg.loop.start_loop()`.",
        "`my_loop` and `pkg.loop.foo` may be any.",
    ],
)
def test_what_is_there_is_left_alone(checked: Checked, page: str) -> None:
    assert told(checked(page, FILES)) == []


@pytest.mark.parametrize(
    ("page", "rule", "reason"),
    [
        ("`pkg/loop.py`: `StepLoop`, `stop_loop`.", "symbol-missing", "moved"),
        ("`stop_loop` is defined in `pkg/loop.py`.", "symbol-missing", "moved"),
        ("`pk.make_loop(depth, length=1)` makes one.", "parameter-unknown", "contradicts"),
        ("`pk.make_loops(1)` makes some.", "symbol-missing", "other spelling"),
        ("Call `StepLoop.walk()`.", "method-missing", "contradicts"),
        ("Call `pkg.loop.begin_loop()`.", "symbol-missing", "contradicts"),
        ("`make_loop(width, depth)` makes one.", "parameter-order", "contradicts"),
    ],
)
def test_what_is_not_there_is_found(checked: Checked, page: str, rule: str, reason: str) -> None:
    assert told(checked(page, FILES)) == [(rule, reason, 1)]


def test_a_class_that_bears_the_name_of_the_project_is_one_of_it(checked: Checked) -> None:
    files = {**FILES, "pyproject.toml": '[project]\nname = "stepper"\n'}
    page = "The `StepperLayer` of `pkg/loop.py` does what `OtherLayer` does.\n"
    assert told(checked(page, files)) == [("symbol-missing", "never here", 1)]


def test_words_in_capitals_come_in_families(checked: Checked) -> None:
    settings = "ST_DEPTH = 1\nST_WIDTH = 2\nST_LIMIT = 3\n"
    files = {
        **FILES,
        "pkg/settings.py": settings,
        "pyproject.toml": '[project]\nname = "stepper"\n',
    }
    page = "- `ST_DEPTH`\n- `ST_WIDTH`\n- `ST_LIMIT`\n- `ST_COLOUR`\n- `RAY_COLOUR`\n"
    assert told(checked(page, files)) == [("symbol-missing", "never here", 4)]
