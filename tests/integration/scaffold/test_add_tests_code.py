"""`add-tests` for any code: faults are seen, sound code passes, machines may lack things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_prepared
from scaffold.units.context import Options
from scaffold.units.subject import prepare_tests
from tests.integration.scaffold.test_add_tests import ROOT, run_tests

pytestmark = pytest.mark.heavy

SETTINGS = """
[project]
name = "pkg"
version = "1"
dependencies = ["pytest"]

[project.optional-dependencies]
odd = ["odd-extra>=1"]

[tool.pytest.ini_options]
markers = ["needs_cuda: needs a GPU", "multi_rank: starts ranks"]
"""
CODE = """
_seen = []

class Refused(ValueError): ...

def sound(text: str, number: int) -> str:
    if number < 0:
        raise Refused(text)
    return text * number

def adds_to_its_list(items: list[int]) -> int:
    items.append(1)
    return len(items)

def other_type(text: str) -> str:
    return text.encode()

def remembers(text: str) -> int:
    _seen.append(text)
    return len(_seen)

def undecided(number: int) -> float:
    return 1 / number

class Sound:
    def __init__(self, size: int) -> None: ...
    def push(self, __item, *, twice=False): ...
"""
TENSORS = """
import torch
def sound(a: torch.Tensor) -> torch.Tensor:
    return a * 2
def coarse(a: torch.Tensor) -> torch.Tensor:
    return a * 1000 - a * 999
"""
RANKS = """
import torch, torch.distributed as dist
def mean(a: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(a)
    return a / dist.get_world_size()
def ragged(a: torch.Tensor) -> torch.Tensor:
    return a[: dist.get_rank() + 1]
"""


def add(root: Path, path: str, text: str, style: str | None = None) -> str:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")
    options = Options(root)
    made = add_prepared(prepare_tests(load_kind("tests"), path, style, None, options), options)
    return made.changes[0].path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    return tmp_path


def test_faults_are_seen_and_sound_code_passes(root: Path) -> None:
    places = [
        add(root, "pkg/code.py", CODE),
        add(root, "pkg/tensors.py", TENSORS),
        add(root, "scripts/alone.py", "def f(a: str) -> str:\n    return a\n"),
        add(root, "pkg/__init__.py", "def top(a: int) -> int:\n    return a\n"),
        add(root, "pkg/on_gpu.py", "def f(a: int): raise OSError('cuda:0')\nD = 'cuda:0'\n"),
        add(root, "pkg/win.py", "import sys\nassert sys.platform == 'win'\ndef f(a: int): ...\n"),
        add(root, "pkg/extra.py", "import odd_extra\ndef f(a: int): ...\n"),
        add(root, "pkg/large.py", "".join(f"def f{n}(a, b, c): ...\n" for n in range(900))),
    ]
    style = ROOT / "tests" / "golden" / "trees" / "project" / "pyproject.toml"
    argv = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(style), *places]
    ruff = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    assert ruff.returncode == 0, ruff.stdout
    del places[-1]  # 900 rows for the author, and longer than one answer may be by default
    outcome = run_tests(root, *places)
    code = outcome.pop("test_code")
    assert {row.partition("[")[2].partition("-")[0].partition("]")[0] for row in code} == {
        "adds_to_its_list", "other_type", "remembers", "undecided",
    }  # fmt: skip
    questions = [row for row in code if "undecided" in row]
    assert questions
    assert all("NotImplementedError: YOURS: is it right that" in row for row in questions)
    tensors = outcome.pop("test_tensors")
    assert tensors
    assert all("coarse" in row for row in tensors)
    assert [row for row in outcome.pop("test_on_gpu") if "needs a GPU" not in row] == []
    skipped = [row for rows in outcome.values() for row in rows]
    assert sorted(skipped) == [
        "tests.test_extra: collection skipped",
        "tests.test_win: collection skipped",
    ]
    assert "pytest.mark.needs_cuda" in (root / "tests/test_on_gpu.py").read_text("utf-8")


def test_two_ranks_are_run_and_compared(root: Path) -> None:
    place = add(root, "pkg/ranks.py", RANKS, "distributed")
    assert "pytest.mark.multi_rank" in (root / place).read_text("utf-8")
    (rows,) = run_tests(root, place).values()
    assert [row.partition(":")[0] for row in rows] == ["test_on_two_ranks[ragged]"]
