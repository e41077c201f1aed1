"""Blocks of code: sketches are no errors, and what they show of the code is compared with it."""

from __future__ import annotations

import pytest

from tests.unit.scaffold.skills.check.conftest import Checked, told

CODE = """
class Base:
    pass


class Runner(Base):
    def __init__(self, config=None, *, depth=3):
        self.config = config

    def run(self, stages, tasks=None):
        return stages

    def stop(self):
        return None

    def __call__(self, rows, limit):
        return rows


def measure(fn, repeats=3, *, warm=True):
    return fn
"""
FILES = {"pkg/__init__.py": "", "pkg/run.py": CODE}


def fenced(code: str, language: str = "python") -> str:
    return f"The code is in `pkg/run.py`:\n\n```{language}\n{code}\n```\n"


@pytest.mark.parametrize(
    "code",
    [
        "class Runner(Base):\n    def run(self, stages, tasks=None):\n        # batches them\n",
        "def measure(fn, repeats) -> float:",
        "@dataclass",
        "build(value: T, *, warm: bool = True) -> T",
        "try:\n    run()\n    # then\nfinally:\n    # clean up",
        "model = Model(\n    ...\n)",
        "- old = 1\n+ new = 2",
        "{name}_runner = Runner({config})",
        "import os\n\nfirst, second ... third",
        "class Runner(Base):\n    def __init__(self): ...\n    def run(self, stages): ...",
    ],
)
def test_a_sketch_is_no_error(checked: Checked, code: str) -> None:
    assert told(checked(fenced(code), FILES)) == []


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("from pkg.run import Runner\n\nRunner(config=1, width=2)", "argument-unknown"),
        ("from pkg.run import Runner\n\nrun = Runner()\nrun(1, bound=2)", "argument-unknown"),
        ("from pkg.run import Walker", "import-name-missing"),
        ("from pkg.run import measure\n\nmeasure(len, 3, 4)", "argument-surplus"),
        (
            "class Runner(Base):\n    def run(self, stages, jobs): ...\n    def stop(self): ...",
            "parameter-unknown",
        ),
        (
            "class Runner(Base):\n    def run(self, stages): ...\n    def stop(self): ...\n"
            "    def pause(self): ...",
            "method-missing",
        ),
        ("import os\n\nx = 1\n\ny = = 2\n\nz = 3", "python-syntax"),
    ],
)
def test_what_the_code_does_not_have_is_found(checked: Checked, code: str, rule: str) -> None:
    assert [each[0] for each in told(checked(fenced(code), FILES))] == [rule]


def test_dotted_names_are_values_of_data(checked: Checked) -> None:
    good = fenced("target: pkg.run.Runner\nother: torch.nn.Linear", "yaml")
    assert told(checked(good, FILES)) == []


def test_a_dotted_name_that_leads_nowhere_is_found_in_data(checked: Checked) -> None:
    wrong = fenced("target: pkg.run.Walker", "yaml")
    assert told(checked(wrong, FILES)) == [("symbol-missing", "contradicts", 4)]


def test_paths_in_headings_and_in_plain_words_are_read(checked: Checked) -> None:
    page = (
        "# See pkg/run.py and pkg/gone.py in it.\n\nThe steps of pkg/gone.py are in `pkg/run.py`.\n"
    )
    outcome = checked(page, FILES, {"pkg/gone.py": "x = 1\n"})
    assert told(outcome) == [("path-missing", "removed", 1), ("path-missing", "removed", 3)]
