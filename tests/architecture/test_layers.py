"""Do the layers hold? The contracts stand in pyproject.toml; each is shown to be able to fail."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Runs import-linter in a folder; it puts that folder first on the path."""
    return subprocess.run(
        [str(LINT_IMPORTS), "--no-logo", "--no-cache"],
        cwd=root,
        env=os.environ | {"COLUMNS": "200"},  # no line breaks inside a sentence
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def copied_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies what import-linter reads, so that a test can break it."""
    root = tmp_path_factory.mktemp("repository")
    shutil.copy(ROOT / "pyproject.toml", root)
    for package in ("areal", "scaffold"):
        shutil.copytree(
            ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return root


def test_the_contracts_hold():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_workflow_may_import_from_the_root_package(copied_root: Path):
    """Code written for AReaL begins with ``from areal import workflow_context``."""
    file = copied_root / "areal/workflow/rlvr.py"
    clean = file.read_bytes()
    file.write_bytes(
        clean + b"\n\ndef _seeded() -> None:\n    from areal import workflow_context\n"
    )
    try:
        result = lint_imports(copied_root)
    finally:
        file.write_bytes(clean)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("path", "imported", "broken"),
    [
        ("areal/api/errors.py", "areal.infra", "areal.api is not allowed to import areal.infra"),
        (
            "areal/utils/__init__.py",
            "areal.trainer.report",
            "areal.utils is not allowed to import areal.trainer",
        ),
        (
            "areal/reward/__init__.py",
            "areal.dataset",
            "areal.reward is not allowed to import areal.dataset",
        ),
        (
            "areal/trainer/report/records.py",
            "scaffold.templating.spec",
            "areal is not allowed to import scaffold",
        ),
        (
            "scaffold/templating/spec.py",
            "scaffold.units.plan",
            "scaffold.templating is not allowed to import scaffold.units",
        ),
        ("scaffold/units/ledger.py", "areal.api.errors", "scaffold is not allowed to import areal"),
    ],
)
def test_a_seeded_violation_breaks_its_contract(
    copied_root: Path, path: str, imported: str, broken: str
):
    file = copied_root / path
    clean = file.read_bytes()
    file.write_bytes(clean + f"\n\ndef _seeded() -> None:\n    import {imported}\n".encode())
    try:
        result = lint_imports(copied_root)
    finally:
        file.write_bytes(clean)
    assert result.returncode == 1
    assert broken in result.stdout


@pytest.mark.parametrize("package", ["areal", "scaffold"])
def test_a_module_outside_every_layer_breaks_the_contract(copied_root: Path, package: str):
    stray = copied_root / package / "helpers.py"
    stray.write_text("")
    try:
        result = lint_imports(copied_root)
    finally:
        stray.unlink()
    assert result.returncode == 1
    assert f"{package}.helpers" in result.stdout


def imported_modules(path: Path) -> set[str]:
    """Returns the absolute names of what a file imports, function bodies included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_the_toolkit_never_imports_its_runners_and_they_need_nothing_of_it():
    runners = ROOT / "scaffold" / "runners"
    toolkit = [p for p in (ROOT / "scaffold").rglob("*.py") if runners not in p.parents]
    packages = {path.parent.name for path in runners.glob("*/__init__.py")}
    assert packages
    for path in toolkit:
        imported = imported_modules(path)
        assert not {m for m in imported if m.startswith("scaffold.runners")}, path
        assert not {m for m in imported if m.split(".")[0] in packages}, path
    for path in runners.rglob("*.py"):
        assert not {m for m in imported_modules(path) if m.split(".")[0] == "scaffold"}, path
    assert not (runners / "__init__.py").exists()
