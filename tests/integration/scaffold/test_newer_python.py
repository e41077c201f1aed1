"""A repository for a newer Python than the running one is as readable as any, to every command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scaffold.cli.main import main

pytestmark = pytest.mark.heavy

SOURCE = """\
from other import helper

type Pair[T] = tuple[T, T]


class Box[T]:
    def take[U](self, item: U, *, deep: bool = False) -> Pair[U]:
        try:
            return helper(f"{self!r} {item["a"]}", t"{deep}")
        except KeyError, ValueError:
            return (item, item)
"""
OTHER = "def helper(text, template):\n    return text\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a repository with one commit, whose sources this Python cannot parse."""
    with pytest.raises(SyntaxError):
        compile(SOURCE, "newer.py", "exec")
    (tmp_path / "newer.py").write_text(SOURCE)
    (tmp_path / "other.py").write_text(OTHER)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "feat: begin")
    return tmp_path


def git(root: Path, *argv: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *who, *argv], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout


def run(*argv: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, [*argv, "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_review_finds_the_callers_and_no_broken_syntax(root: Path) -> None:
    (root / "other.py").write_text(OTHER.replace("text, template", "text"))
    (root / "newer.py").write_text(SOURCE + "\nX: Pair[int] = (1, 2)\n")
    git(root, "commit", "-qam", "refactor: drop a parameter")
    _, report = run("review", "HEAD~1..HEAD", "--target", str(root))
    kinds = {row["fact"] for row in report["review"]["findings"]}
    assert "syntax-broken" not in kinds
    assert "call-broken" in kinds, "the call is in a file that only a newer Python parses"


def test_review_still_finds_what_no_python_reads(root: Path) -> None:
    (root / "newer.py").write_text(SOURCE + "def f(:\n")
    git(root, "commit", "-qam", "fix: break it")
    _, report = run("review", "HEAD~1..HEAD", "--target", str(root))
    assert "syntax-broken" in {row["fact"] for row in report["review"]["findings"]}


def test_skills_check_judges_calls_by_the_signatures_there(root: Path) -> None:
    (root / "AGENTS.md").write_text(
        "# Guide\n\n```python\nfrom newer import Box\n\nBox().take(1, deep=True)\n"
        "Box().take(1, shallow=True)\n```\n\nCall `newer.Box.take` or `newer.Box.give`.\n"
    )
    git(root, "add", "AGENTS.md")
    status, report = run("skills", "check", "--target", str(root))
    found = {row["message"] for row in report["findings"]}
    assert status == 1
    assert any("shallow" in text for text in found)
    assert any("give" in text for text in found)
    assert not any("deep" in text and "shallow" not in text for text in found)


def test_commit_msg_names_what_changed(root: Path) -> None:
    (root / "newer.py").write_text(SOURCE.replace("deep: bool = False", "deep: bool"))
    git(root, "add", "newer.py")
    _, report = run("commit-msg", "--target", str(root))
    assert "take" in json.dumps(report)


def test_deps_audit_reads_the_uses(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (root / "newer.py").write_text(
        "import click\n\ntype A[T] = click.Choice[T]\n\nclick.echo('x')\n"
    )
    _, report = run("deps", "catalog", "click", "--target", str(root))
    assert not report.get("unread")
    assert "click.echo" in json.dumps(report)


def test_an_add_edits_a_registry_beside_newer_code(root: Path) -> None:
    project = root / "made"
    assert run("new", "made", "--target", str(root))[0] == 0
    registry = project / "made" / "reward" / "__init__.py"
    newer = registry.read_text() + "\n\ntype Score[T] = tuple[T, float]\n"
    registry.write_text(newer)
    status, report = run("add-reward", "sums", "--no-format", "--target", str(project))
    assert (status, report["ok"]) == (0, True)
    assert "made.reward.sums" in registry.read_text()
    assert registry.read_text().endswith("type Score[T] = tuple[T, float]\n")
