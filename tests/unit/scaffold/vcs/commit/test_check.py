"""The command `scaffold commit-msg --check FILE`: exit status, places, JSON, git's settings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scaffold.cli.main import main
from scaffold.vcs.commit.check import comment_mark
from tests.reports import REPORTS


def check(folder: Path, text: str, *options: str) -> Result:
    """Runs the command on a message in a folder, as git's hook does."""
    (folder / "COMMIT_EDITMSG").write_bytes(text.encode())
    return CliRunner().invoke(main, ["commit-msg", "--check", "COMMIT_EDITMSG", *options])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_good_message_is_no_news(folder: Path) -> None:
    done = check(folder, "feat: add x\n")
    assert (done.exit_code, done.output) == (0, "")


def test_a_fault_is_shown_with_its_line_and_a_mark(folder: Path) -> None:
    done = check(folder, "feat(a b): add x\n")
    assert done.exit_code == 1
    first, line, mark, form, rescue = done.output.splitlines()
    assert first.startswith("COMMIT_EDITMSG:1:7: ' ' is not allowed in a scope")
    assert first.endswith(" [scope]")
    assert (line, mark) == ("    feat(a b): add x", "          ^")
    assert form == "form: the default: Conventional Commits"
    assert rescue.endswith("git commit --edit --file=COMMIT_EDITMSG")


def test_the_report_is_one_object(folder: Path) -> None:
    done = check(folder, "feature: add x\n", "--json")
    report = json.loads(done.output)
    REPORTS.validate(report)
    (problem,) = report["problems"]
    assert not report["ok"]
    assert (problem["file"], problem["line"], problem["rule"]) == ("COMMIT_EDITMSG", 1, "type")


def test_a_message_that_is_no_text_is_no_traceback(folder: Path) -> None:
    (folder / "message").write_bytes(b"feat: add x\n\n\xff\xfe\x00")
    done = CliRunner().invoke(main, ["commit-msg", "--check", "message"])
    assert done.exit_code == 1
    assert done.output.startswith("message:3:1: byte 0xff is not UTF-8")


def test_a_file_that_is_not_there_is_an_error() -> None:
    done = CliRunner().invoke(main, ["commit-msg", "--check", "nothing"])
    assert done.exit_code == 2
    assert "error: the message 'nothing' cannot be read" in done.output
    assert "[usage]" in done.output


def test_comments_are_what_git_is_set_to(folder: Path) -> None:
    assert comment_mark() == "#"
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "config", "core.commentChar", ";"], check=True)
    assert check(folder, "feat: add x\n; note of git\n").exit_code == 0
    (folder / "elsewhere").mkdir()
    assert comment_mark(str(folder / "elsewhere")) == ";"
    assert comment_mark(str(folder / "nowhere")) == "#"
    subprocess.run(["git", "config", "core.commentChar", "auto"], check=True)
    assert comment_mark() == "#"


def test_without_git_comments_are_the_usual_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert comment_mark() == "#"
