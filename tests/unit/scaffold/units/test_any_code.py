"""Tests of any function or class: they run at once, and wait only for what nobody can guess."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_prepared
from scaffold.units.context import Options
from scaffold.units.ledger import read_units
from scaffold.units.remove import remove_unit
from scaffold.units.subject import prepare_tests

MODULE = """
import os

class Stack:
    def __init__(self, items: list[int] | None = None, *, limit: int = 3):
        self.items = items or []

    def push(self, item, /, *more):
        return self

    @classmethod
    def of(cls, *items):
        return cls(list(items))

class Odd(ValueError):
    pass

def halve(n: int) -> int:
    if n % 2:
        raise Odd(n)
    return n // 2

def clear(folder: str) -> None:
    os.rmdir(folder)

def guess(what):
    return what

async def later(text: str = "", *, flag: "bool" = False) -> str:
    return text

def _hidden(text: str) -> str:
    return text
"""
SETTINGS = """
[project]
name = "things"
[tool.pytest.ini_options]
markers = ["slow: long", "gpu_only: on a GPU", "multi_rank: several ranks"]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "things" / "inner").mkdir(parents=True)
    (tmp_path / "things" / "__init__.py").touch()
    for folder in ("things", "things/inner", "."):
        (tmp_path / folder / "stack.py").write_text(MODULE)
    return tmp_path


def add(root: Path, module: str, style: str | None = None) -> str:
    options = Options(root, any_project=True, with_format=False)
    prepared = prepare_tests(load_kind("tests"), module, style, None, options)
    report = add_prepared(prepared, options)
    (made,) = [each.path for each in report.changes if each.path.startswith("tests/")]
    return made


def run(root: Path, *paths: str) -> str:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths]
    argv += ["--import-mode=importlib", "-o", "pythonpath=."]
    argv += ["-rN"]  # a summary has the message again, in full where CI is set
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        argv, cwd=root, env=env, capture_output=True, text=True, check=False
    ).stdout


def test_a_project_without_settings_of_ours_gets_tests(root: Path) -> None:
    places = [
        add(root, place) for place in ("things/stack.py", "things/inner/stack.py", "stack.py")
    ]
    assert len(set(places)) == 3
    texts = [(root / place).read_text() for place in places]
    assert 'import_module("things.stack")' in texts[0]
    assert 'import_module("things.inner.stack")' in texts[1]  # a folder without `__init__.py`
    assert '/ "stack.py"' in texts[2]
    for row in ('"Stack": "items=, *, limit="', '"Stack.push": "self, item, *more"',
                '"Stack.of": "*items"', '"later": "text=, *, flag="'):  # fmt: skip
        assert row in texts[0]
    assert "_hidden" not in texts[0]
    assert '("clear", (NotImplemented,), ...)' in texts[0]  # which nobody wants called on ""
    said = run(root, *places)
    assert "6 failed" in said, said  # in each of them, of clear and of guess
    assert said.count("NotImplementedError: YOURS") == 6
    assert "passed" in said
    for unit in read_units(root):
        remove_unit(unit.id, (), Options(root))  # which finds the target by its tests
    assert not any((root / place).exists() for place in places)


AWKWARD = """
from __future__ import annotations
import dataclasses
import shutil
from collections.abc import Iterable, Sequence
from subprocess import run as start

@dataclasses.dataclass
class Point:
    x: int

class Loud(Point):
    def __init__(self, volume: int):
        super().__init__(volume)

    def __call__(self, times=1):
        return self.x * times

def awkward(n: int) -> Sequence[int]:
    return (n, n)

def letters(text: str) -> Iterable[str]:
    return iter(text)

def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0

def number(text: str) -> int:
    return _number(text)

def _number(text):
    if not text.isdigit():
        raise ValueError(text)
    return int(text)

def fill(found: dict[str, int]) -> None:
    found["x"] = 1

def wipe(folder: str) -> None:
    _remove(folder)

def _remove(folder):
    shutil.rmtree(folder, ignore_errors=True)

def launch(text: str) -> None:
    start([text])

def keep(thing):
    return thing
"""


def test_what_is_right_passes_and_what_reaches_out_is_not_called(root: Path) -> None:
    # The package gives the name of the module to a function, and the script has a dataclass.
    (root / "things" / "__init__.py").write_text("from .awkward import awkward")
    places: list[str] = []
    for place in ("things/awkward.py", "awkward.py"):
        (root / place).write_text(AWKWARD)
        places.append(add(root, place))
        text = (root / places[-1]).read_text()
        # By a function of its own, or by another name of what does so.
        assert text.count("(NotImplemented,)") == 3
        assert '"Loud.__init__": "self, volume"' in text
        assert '"Loud.__call__": "self, times="' in text
        assert '("wipe", (NotImplemented,), ...)' in text
        assert '("launch", (NotImplemented,), ...)' in text
        text = text.replace('("keep", (NotImplemented,), ...)', '("keep", (object(),), ...)')
        (root / places[-1]).write_text(text)
    said = run(root, *places)
    assert "4 failed" in said, said
    assert said.count("NotImplementedError: YOURS") == 4, said


def test_every_module_has_a_place_of_its_own(root: Path) -> None:
    modules = ["things/a/x/util.py", "things/b/x/util.py", "things/core.py", "things/_core.py"]
    # Names that no import can have, in a package too.
    modules += ["things/run-it/now.py", "one/run-me.py", "things/2nd.py"]
    modules += ["one/run-it/now.py", "two/run-it/now.py", f"things/{'deep' * 12}/{'er' * 20}.py"]
    for module in modules:
        (root / module).parent.mkdir(parents=True, exist_ok=True)
        (root / module).write_text("def f(n: int) -> int:\n    return n\n")
    places = [add(root, module) for module in modules]
    assert len(set(places)) == len(modules)
    said = run(root, *places)
    assert "failed" not in said, said
    assert "50 passed" in said, said
    assert len(read_units(root)) == len(modules)


def test_a_second_run_changes_nothing(root: Path) -> None:
    for style in ("code", "distributed"):
        add(root, "things/stack.py:halve", style)
        options = Options(root, any_project=True, with_format=False)
        again = prepare_tests(load_kind("tests"), "things/stack.py:halve", style, None, options)
        assert again.is_made, style


def test_a_module_that_does_without_a_gpu_is_tested_without_one(root: Path) -> None:
    (root / "things" / "seeds.py").write_text(
        '"""Seeds the CPU and cuda."""\nimport torch\n\n'
        "def seed(n: int) -> None:\n    if torch.cuda.is_available():\n"
        "        torch.cuda.manual_seed_all(n)\n"
    )
    assert "skipif" not in (root / add(root, "things/seeds.py")).read_text()


def test_a_wrong_change_is_seen(root: Path) -> None:
    place = add(root, "things/stack.py:halve")
    assert "Stack" not in (root / place).read_text()
    assert "5 passed" in run(root, place)
    text = (root / "things/stack.py").read_text()
    (root / "things/stack.py").write_text(text.replace("n // 2", "n / 2"))
    assert "is not" in run(root, place) or "isinstance" in run(root, place)
    (root / "things/stack.py").write_text(text.replace("def halve(n: int)", "def halve(n: int, m)"))
    assert "'n, m' == 'n'" in run(root, place)


def test_a_private_name_is_tested_where_it_is_named(root: Path) -> None:
    assert '("_hidden", ("",), ...)' in (root / add(root, "things.stack:_hidden")).read_text()


def test_tests_that_stand_there_are_left_alone(root: Path) -> None:
    (root / "tests").mkdir()
    theirs = root / "tests" / "test_stack.py"
    theirs.write_text("# mine")
    assert add(root, "things/stack.py") == "tests/test_stack_interface.py"
    assert theirs.read_text() == "# mine"


def test_markers_are_those_of_the_target(root: Path) -> None:
    (root / "things" / "fast.py").write_text(
        'def on(x: "torch.Tensor"):\n    return x.to("cuda")\n'
    )
    text = (root / add(root, "things/fast.py")).read_text()
    assert "pytest.mark.gpu_only" in text
    assert "skipif(not torch.cuda.is_available()" in text
    assert "TOLERANCES" in text
    text = (root / add(root, "things/fast.py", "distributed")).read_text()
    assert "pytestmark = pytest.mark.multi_rank" in text


RANKS = """
import torch
import torch.distributed as dist

def total(values: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(values)
    return values

def halve(values: torch.Tensor) -> torch.Tensor:
    return values / 2
"""


@pytest.mark.slow
def test_two_ranks_run_and_precision_is_held(root: Path) -> None:
    (root / "things" / "ranks.py").write_text(RANKS)
    places = [add(root, "things/ranks.py", "distributed"), add(root, "things/ranks.py:halve")]
    said = run(root, *places)
    assert "failed" not in said, said
    text = RANKS.replace("dist.all_reduce(values)", "dist.get_rank() or dist.all_reduce(values)")
    (root / "things" / "ranks.py").write_text(text)
    assert "failed" in run(root, places[0])
