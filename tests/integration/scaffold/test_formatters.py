"""A strict repository: its formatters have nothing to do after an add, and nothing looks edited."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent

STRICT = """
repos:
  - repo: local
    hooks:
      - id: ruff-check
        name: ruff
        entry: ruff check --fix
        language: system
        types: [python]
        args: [--exit-non-zero-on-fix]
      - id: ruff-format
        name: ruff format
        entry: ruff format
        language: system
        types: [python]
      - id: mdformat
        name: mdformat
        entry: mdformat
        language: system
        types: [markdown]
        args: [--wrap, "88"]
"""
RUFF = """
[tool.ruff]
line-length = 72
[tool.ruff.lint]
select = ["E", "F", "I", "UP", "B", "SIM", "RUF"]
ignore = ["E501"]
[tool.ruff.lint.isort]
force-single-line = true
[tool.ruff.format]
quote-style = "single"
"""
ADDS = [
    ["add-reward", "answers_of_a_rather_long_name_that_fills_a_line", "--style=exact"],
    ["add-workflow", "told", "--style=rlvr", '--system-prompt=it\'s "quoted"'],
    ["add-dataset", "rows", "--type=rl", "--type=sft"],
]


def git(root: Path, *argv: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *who, *argv], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def strict(scaffold: Callable[..., Any], tmp_path: Path) -> Path:
    """Makes a project that is clean by a strict configuration, and commits it."""
    assert scaffold(tmp_path, "new", "my_rl").status == 0
    root = tmp_path / "my_rl"
    shutil.copytree(ROOT / ".agents", root / ".agents")
    # What is generated there follows from our sources, which the project has not.
    for page in (root / ".agents").rglob("*.md"):
        page.write_text(re.sub(r" *<!-- scaffold:(begin|end)\b.*-->\n", "", page.read_text()))
    (root / ".pre-commit-config.yaml").write_text(STRICT)
    text = (root / "pyproject.toml").read_text().partition("\n[tool.ruff")[0]
    (root / "pyproject.toml").write_text(text + RUFF)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    run_hooks(root)
    run_hooks(root)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


def run_hooks(root: Path) -> int:
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    argv = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
    return subprocess.run(argv, cwd=root, env=env, capture_output=True, check=False).returncode


def test_a_strict_configuration_finds_nothing_to_do(
    scaffold: Callable[..., Any], strict: Path
) -> None:
    for argv in ADDS:
        added = scaffold(strict, *argv, "--json")
        assert added.status == 0, added.text
        assert added.report["warnings"] == []
    assert scaffold(strict, "skills", "sync").status == 0
    git(strict, "add", "-A")
    before = git(strict, "write-tree")
    for _ in range(2):
        assert run_hooks(strict) == 0, git(strict, "diff")
        assert git(strict, "diff", "--stat") == ""
    git(strict, "add", "-A")
    assert git(strict, "write-tree") == before
    states = {
        row["id"]: row["states"] for row in scaffold(strict, "status", "--json").report["units"]
    }
    assert {tuple(state) for name, state in states.items() if "project/" not in name} == {
        ("untouched",)
    }


def test_a_registry_on_one_line_is_broken_as_its_formatter_would(
    scaffold: Callable[..., Any], strict: Path
) -> None:
    table = strict / "my_rl" / "reward" / "__init__.py"
    table.write_text("REWARDS: dict[str, str] = {'sums': 'my_rl.reward.sums:sums_reward_fn'}\n")
    git(strict, "commit", "-qam", "one line")
    before = table.read_text()
    assert scaffold(strict, *ADDS[0]).status == 0
    assert table.read_text().count("\n") > 2
    assert run_hooks(strict) == 0
    assert scaffold(strict, "remove", ADDS[0][1]).status == 0
    assert table.read_text() == before
    assert git(strict, "status", "--porcelain") == ""


def test_what_was_written_after_a_registry_was_broken_stays(
    scaffold: Callable[..., Any], strict: Path
) -> None:
    table = strict / "my_rl" / "reward" / "__init__.py"
    table.write_text("REWARDS: dict[str, str] = {'sums': 'my_rl.reward.sums:sums_reward_fn'}\n")
    assert scaffold(strict, *ADDS[0]).status == 0
    table.write_text(table.read_text() + "MINE = 1\n")
    assert scaffold(strict, "remove", ADDS[0][1]).status == 0
    assert "answers_of" not in table.read_text()
    assert "MINE = 1\n" in table.read_text()


@pytest.mark.parametrize(
    ("config", "marks"),
    [
        ('format = ["ruff", "format", "--isolated", "--line-length", "60"]', []),
        ('format = [["ruff", "check", "--fix", "--isolated"], ["ruff", "format"]]', []),
        ('format = ["no-such-program"]', ["is not run", "scaffold trust"]),
        ('format = ["ruff", "no-such-command"]', ["failed"]),
    ],
)
def test_the_configured_formatter_is_the_one(
    scaffold: Callable[..., Any], tmp_path: Path, config: str, marks: list[str]
) -> None:
    assert scaffold(tmp_path, "new", "my_rl").status == 0
    root = tmp_path / "my_rl"
    path = root / "pyproject.toml"
    path.write_text(
        path.read_text().replace("[tool.scaffold]\n", f"[tool.scaffold]\n{config}\n", 1)
    )
    added = scaffold(root, "add-reward", "sums", "--json")
    assert added.status == 0, added.text
    text = " ".join(added.report["warnings"])
    assert all(mark in text for mark in marks)
    assert bool(marks) == bool(text)
    if "60" in config:
        layout = ["--check", "--isolated", "--line-length", "60"]
        argv = [sys.executable, "-m", "ruff", "format", *layout, "my_rl/reward/sums.py"]
        assert subprocess.run(argv, cwd=root, capture_output=True, check=False).returncode == 0
    bare = scaffold(root, "add-reward", "more", "--no-format", "--json")
    assert bare.report["warnings"] == []


HOSTILE = "import sys\nfor path in sys.argv[1:]:\n    open(path, 'a').write('# by it\\n')\n"


def test_programs_of_the_repository_run_once_they_are_trusted(
    scaffold: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a command of its configuration nor a formatter in its .venv, dry or not."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert scaffold(tmp_path, "new", "my_rl").status == 0
    root = tmp_path / "my_rl"
    (root / "mine.py").write_text(HOSTILE)
    tool = root / ".venv" / "bin" / "ruff"
    tool.parent.mkdir(parents=True)
    only_files = "sys.argv[1:] = [each for each in sys.argv if each.endswith('.py')]"
    tool.write_text(f"#!{sys.executable}\nimport sys\n{only_files}\n{HOSTILE}")
    tool.chmod(0o755)
    path = root / "pyproject.toml"
    config = f'format = [["{sys.executable}", "mine.py"], ["ruff", "format"]]'
    text = path.read_text().replace("[tool.scaffold]\n", f"[tool.scaffold]\n{config}\n", 1)
    path.write_text(text)

    def marks(name: str, *options: str) -> tuple[int, int]:
        """Returns how often a program of the repository ran, and how many were refused."""
        added = scaffold(root, "add-reward", name, "--json", *options)
        assert added.status == 0, added.text
        refused = [each for each in added.report["warnings"] if "is not run" in each]
        made = root / "my_rl" / "reward" / f"{name}.py"
        text = made.read_text() if made.exists() else added.report["changes"][0]["diff"]
        return text.count("# by it"), len(refused)

    assert marks("one", "--dry-run") == (0, 1)
    assert scaffold(root, "trust", "--dry-run").status == 0
    assert marks("one") == (0, 1)
    command, folder = scaffold(root, "trust", "--json").report["trusted"]
    assert "mine.py` ([tool.scaffold].format)" in command
    assert folder == "formatters of .venv"
    assert marks("two") == (2, 0)
    # Another argument is another command.
    path.write_text(text.replace('"mine.py"', '"mine.py", "pyproject.toml"'))
    assert marks("three") == (1, 1)
    assert scaffold(root, "trust", "--revoke").status == 0
    assert marks("four") == (0, 1)


@pytest.mark.parametrize("config", ["format = 3", "format = [1]", "format = [[]]"])
def test_a_wrong_format_is_refused(
    scaffold: Callable[..., Any], tmp_path: Path, config: str
) -> None:
    assert scaffold(tmp_path, "new", "my_rl").status == 0
    path = tmp_path / "my_rl" / "pyproject.toml"
    path.write_text(
        path.read_text().replace("[tool.scaffold]\n", f"[tool.scaffold]\n{config}\n", 1)
    )
    done = scaffold(tmp_path / "my_rl", "add-reward", "sums", "--json")
    assert (done.status, done.report["error"]["code"]) == (1, "target_invalid")


def test_header_docstrings_and_tests_are_as_the_siblings_have_them(
    scaffold: Callable[..., Any], tmp_path: Path
) -> None:
    assert scaffold(tmp_path, "new", "my_rl").status == 0
    root = tmp_path / "my_rl"
    header = "# Copyright 2026 The Authors\n"
    for name in ("one", "two"):
        doc = '    """Adds.\n\n    Parameters\n    ----------\n    a : int\n    """\n'
        text = f"{header}\n\ndef {name}(a):\n{doc}"
        (root / f"my_rl/reward/{name}.py").write_text(text)
        (root / "tests/scores").mkdir(exist_ok=True)
        (root / f"tests/scores/{name}_test.py").write_text("")
    added = scaffold(root, "add-reward", "sums", "--json")
    assert added.status == 0, added.text
    source = (root / "my_rl/reward/sums.py").read_text()
    assert source.startswith(header)
    assert "Parameters\n    ----------" in source
    assert (root / "tests/scores/sums_test.py").read_text().startswith(header)
    assert scaffold(root, "verify", "sums", "--allow-stub").status == 0
    updated = scaffold(root, "update", "sums", "--set", "take=last_line", "--json")
    assert updated.report["ok"], updated.text
    assert {c["path"] for c in updated.report["changes"]} >= {"tests/scores/sums_test.py"}
