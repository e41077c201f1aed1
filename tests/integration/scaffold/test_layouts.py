"""AReaL checkouts of today and of older releases: what is written there is registered and runs."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
LAYOUTS = ROOT / "tests" / "fixtures" / "layouts"

ADDS = [
    ["add-reward", "math_debate", "--style=exact"],
    ["add-workflow", "math_debate", "--style=rlvr"],
    ["add-dataset", "math_debate", "--type=sft", "--type=rl"],
]


@pytest.fixture(params=["older", "today"])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Is an AReaL checkout as it was, or is."""
    return _laid_out(request.param, tmp_path)


@pytest.fixture(params=[pytest.param("older", marks=pytest.mark.slow), "today"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Is the same for tests that run what was written; that takes long."""
    root = _laid_out(request.param, tmp_path)
    # Its table imports models that this package lacks, and engines import the package.
    table = Path("areal/experimental/models/archon/__init__.py")
    shutil.copyfile(ROOT / table, root / table)
    return root


def _laid_out(name: str, folder: Path) -> Path:
    """Lays the registries of an AReaL checkout over a copy of the package, which has its API."""
    ignored = shutil.ignore_patterns("__pycache__")
    root = folder / name
    shutil.copytree(ROOT / "areal", root / "areal", ignore=ignored)
    shutil.copytree(LAYOUTS / name, root, dirs_exist_ok=True)
    if name == "older":  # it imports its workflows eagerly
        (root / "areal" / "workflow" / "vision_rlvr.py").unlink()
    return root


def registries(root: Path) -> dict[str, str]:
    paths = [root / "areal" / kind / "__init__.py" for kind in ("dataset", "reward", "workflow")]
    return {path.parent.name: path.read_text() for path in paths}


def gained(before: str, after: str) -> list[str]:
    rows = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    lost = [row for row in rows if row.startswith("- ")]
    # A list on one line changes on its line; nothing else of the file goes.
    assert all(row.lstrip("- ").startswith(("__all__", "VALID_")) for row in lost), lost
    return [row[2:] for row in rows if row.startswith("+ ")]


def run_python(root: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_units_are_registered_as_the_checkout_registers_its_own(
    scaffold: Callable[..., Any], checkout: Path
) -> None:
    before = registries(checkout)
    for argv in ADDS:
        added = scaffold(checkout, *argv, "--json")
        assert added.status == 0, added.text
        assert added.report["target"]["layout"] == "areal-checkout"
        again = scaffold(checkout, *argv, "--json")
        assert (again.status, again.report["changes"]) == (0, [])
    after = registries(checkout)
    lines = {kind: gained(before[kind], after[kind]) for kind in before}
    assert any("math_debate_reward_fn" in row for row in lines["reward"])
    assert any("MathDebateWorkflow" in row for row in lines["workflow"])
    assert any('"math_debate" in path and type == "rl"' in row for row in lines["dataset"])
    assert any('"math_debate",' in row for row in lines["dataset"])
    for name in ("reward", "workflow", "dataset"):
        assert (checkout / f"tests/test_math_debate_{name}.py").is_file()

    for kind in ("reward", "workflow", "dataset"):
        assert scaffold(checkout, "remove", f"{kind}/math_debate", "--json").status == 0
    assert registries(checkout) == before
    assert not (checkout / ".scaffold" / "made").exists()


def test_the_checkout_finds_them(scaffold: Callable[..., Any], running: Path) -> None:
    for argv in ADDS:
        assert scaffold(running, *argv).status == 0
    run_python(running, "from areal.workflow import MathDebateWorkflow")
    if running.name == "today":
        run_python(running, "from areal.reward import math_debate_reward_fn")
    else:
        code = (
            "from areal.reward import get_reward_fn; print(get_reward_fn('math_debate').__name__)"
        )
        assert run_python(running, code) == "math_debate_reward_fn"
    rows = running / "math_debate.jsonl"
    rows.write_text('{"question": "2+3?", "answer": "5"}\n')
    code = (
        "from areal.dataset import _get_custom_dataset as get\n"
        f"print(get({str(rows)!r}, type='rl')[0]['answer'])"
    )
    assert run_python(running, code) == "5"


@pytest.mark.slow  # `verify` below and the matrix run the same tests
def test_what_is_written_passes_its_own_test(scaffold: Callable[..., Any], running: Path) -> None:
    for argv in ADDS:
        assert scaffold(running, *argv).status == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=running,
        env={**os.environ, "PYTHONPATH": str(running), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_name_that_a_branch_would_swallow_is_refused(
    scaffold: Callable[..., Any], checkout: Path
) -> None:
    before = registries(checkout)
    done = scaffold(checkout, "add-dataset", "gsm8k_hard", "--type=rl", "--json")
    assert done.status == 1, done.text
    assert done.report["error"]["code"].startswith("registry_")
    assert "areal/dataset/__init__.py:" in done.report["error"]["message"]
    assert registries(checkout) == before
    assert not (checkout / "areal" / "dataset" / "gsm8k_hard.py").exists()


@pytest.mark.parametrize(
    "kind", ["reward", *(pytest.param(k, marks=pytest.mark.slow) for k in ("dataset", "workflow"))]
)
def test_verify_on_a_checkout(scaffold: Callable[..., Any], running: Path, kind: str) -> None:
    argv = next(argv for argv in ADDS if argv[0].endswith(kind))
    assert scaffold(running, *argv).status == 0
    done = scaffold(
        running,
        "verify",
        f"{kind}/math_debate",
        "--json",
        "--allow-stub",
        "--python",
        sys.executable,
    )
    assert done.report["verdict"] == "ok", done.text
