"""`scaffold commit-msg` in real repositories, odd ones too."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from scaffold.cli.main import main
from scaffold.vcs.commit.conventional import SUBJECT_GAP, TYPE_GAP, WHY
from tests.integration.scaffold.git_places import (
    ENV,
    commit,
    git,
    make_repository,
    whole_tree,
)
from tests.reports import REPORTS
from tests.sarif import Place, read_places

pytestmark = pytest.mark.heavy


def run(folder: Path, *argv: str) -> tuple[int, dict[str, Any]]:
    """Runs the command and returns its status and report, which fits the schema."""
    printed = io.StringIO()
    streams = redirect_stdout(printed), redirect_stderr(io.StringIO())
    with streams[0], streams[1], pytest.raises(SystemExit) as end:
        main(["commit-msg", "--json", "--target", str(folder), *argv])
    report = json.loads(printed.getvalue())
    REPORTS.validate(report)
    return int(end.value.code or 0), report


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a repository with a history of subjects."""
    folder = make_repository(tmp_path_factory.mktemp("made") / "r")
    commit(folder, "chore: begin", {"pkg/core/a.py": "A = 0\n", "docs/a.md": "a\n"})
    for number in range(1, 13):
        commit(folder, "fix(core): mend a", {"pkg/core/a.py": f"A = {number}\n"})
        commit(folder, "docs(guide): tell a", {"docs/a.md": f"a {number}\n"})
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies it."""
    for key, value in ENV.items():
        monkeypatch.setenv(key, value)
    shutil.copytree(made, tmp_path / "r", symlinks=True)
    git(tmp_path / "r", "update-index", "-q", "--refresh")
    return tmp_path / "r"


def stage(folder: Path, files: dict[str, str | bytes]) -> None:
    """Writes files and stages them."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        (folder / path).write_bytes(data)
    git(folder, "add", "-A")


def test_the_draft_of_what_is_staged(folder: Path) -> None:
    git(folder, "switch", "-q", "-c", "12-run")
    stage(folder, {"pkg/core/a.py": "A = 1\n\n\ndef run(rows):\n    return rows\n"})
    (folder / "docs" / "a.md").write_text("not staged\n")
    before = whole_tree(folder)
    status, report = run(folder)
    assert status == 0
    assert whole_tree(folder) == before
    told = report["commit_message"]
    assert told["message"].splitlines()[0] == f"fix: {SUBJECT_GAP}"
    assert "- add function run (pkg/core/a.py)" in told["message"]
    assert told["references"] == ["#12"]
    assert told["files"] == [{"path": "pkg/core/a.py", "status": "M"}]
    assert told["type"]["why"] == "12 of 12 earlier commits to source alone"
    assert told["scope"] == {"word": None, "why": ""}
    assert told["may_break"] == []


def test_what_may_break_callers_is_asked_about_and_not_claimed(folder: Path) -> None:
    commit(folder, "feat(core): add run", {"pkg/core/b.py": "def run(rows): ...\n"})
    stage(folder, {"pkg/core/b.py": "def run(rows, size): ...\n"})
    told = run(folder)[1]["commit_message"]
    assert "!" not in told["message"].partition("\n")[0]
    assert "BREAKING" not in told["message"]
    assert [each["breaks"] for each in told["may_break"]] == ["run requires 'size'"]


@pytest.mark.parametrize("path", ["a b/x.py", "中文/x.py", "new\nline/a\nb.py", "caf\udce9.py"])
def test_a_draft_that_its_author_finished_passes_the_check(path: str, folder: Path) -> None:
    stage(folder, {path: "x = 1\n"})
    text = run(folder)[1]["commit_message"]["message"]
    message = folder / ".git" / "DRAFT"
    for gap, words in ((WHY, "It is odd."), (TYPE_GAP, "fix"), (SUBJECT_GAP, "keep it")):
        message.write_text(text, encoding="utf-8")
        if gap in text:
            problems = run(folder, "--check", str(message))[1]["problems"]
            assert "draft" in {each["rule"] for each in problems}
        text = text.replace(gap, words)
    message.write_text(text, encoding="utf-8")
    status, checked = run(folder, "--check", str(message))
    assert (status, checked["problems"]) == (0, [])


def test_a_merge_in_progress_is_told(folder: Path) -> None:
    start = git(folder, "branch", "--show-current").strip()
    git(folder, "switch", "-q", "-c", "side")
    commit(folder, "feat(core): add b", {"pkg/core/b.py": "B = 1\n"})
    git(folder, "switch", "-q", start)
    git(folder, "merge", "-q", "--no-ff", "--no-commit", "side")
    status, report = run(folder)
    assert status == 0
    assert [each.partition(",")[0] for each in report["warnings"]] == ["a merge is in progress"]


def test_the_draft_is_refused_until_its_author_has_said_why(folder: Path) -> None:
    stage(folder, {"pkg/core/a.py": "A = -1\n"})
    draft = folder / ".git" / "DRAFT"
    draft.write_text(run(folder)[1]["commit_message"]["message"])
    status, report = run(folder, "--check", str(draft))
    assert status == 1
    assert [(each["rule"], each["line"]) for each in report["problems"]] == [
        ("draft", 1), ("draft", 3),
    ]  # fmt: skip


def test_the_settings_of_the_repository_count(folder: Path) -> None:
    settings = (
        '[tool.scaffold.commits]\ntypes = ["add", "mend"]\nscopes = ["all", "core"]\n'
        "max-subject = 30\n[tool.scaffold.commits.paths]\n"
        '"pkg/**" = {type = "mend", scope = "all"}\n'
    )
    commit(folder, "chore: set", {"pyproject.toml": settings})
    stage(folder, {"pkg/core/a.py": "A = -1\n"})
    told = run(folder)[1]["commit_message"]
    assert told["message"].startswith(f"mend(all): {SUBJECT_GAP}\n")
    where = "1 of 1 files, by [tool.scaffold.commits.paths]"
    assert told["type"]["why"] == told["scope"]["why"] == where
    message = folder / ".git" / "m"
    message.write_text("fix(other): keep each of the rows apart\n")
    rules = [each["message"] for each in run(folder, "--check", str(message))[1]["problems"]]
    assert [part.partition(";")[0] for part in rules] == [
        "unknown type 'fix'",
        "unknown scope 'other'",
        "the first line has 39 characters",
    ]


WRONG_SETTINGS = {
    "max-subject = 3": "must be at least 20, not 3",
    "types = 'feat'": "must be list, not str",
    "typs = []": "unknown key 'typs'; did you mean 'types'?",
    "paths = 3": "'paths' must be dict, not int",
    'paths = {"a" = 3}': "it must be a scope, or a table of type and scope",
    'paths = {"a" = {type = "x"}}': "has the type 'x', which is not allowed",
}


@pytest.mark.parametrize("line", WRONG_SETTINGS)
def test_wrong_settings_are_told(line: str, folder: Path) -> None:
    stage(folder, {"pyproject.toml": f"[tool.scaffold.commits]\n{line}\n"})
    status, report = run(folder)
    assert (status, report["error"]["code"]) == (2, "target_invalid")
    assert WRONG_SETTINGS[line] in report["error"]["message"]


# --- ranges -------------------------------------------------------------------------------------


def test_each_commit_of_a_range_is_checked_by_itself(folder: Path) -> None:
    start = git(folder, "rev-parse", "HEAD")
    commit(folder, "Added more", {"x": "1"})
    commit(folder, "feat: add\n\n# a heading stays\n\n" + "w " * 60, {"x": "2"})
    git(folder, "switch", "-q", "-c", "side", start)
    commit(folder, "feat: go aside", {"y": "1"})
    git(folder, "merge", "-q", "-m", "whatever I like", "main")
    git(folder, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty",
        "-F", str(write(folder, "feat: gr\u00fc\u00dfe".encode("latin-1"))))  # fmt: skip
    status, report = run(folder, "--check", f"{start}..HEAD")
    assert status == 1
    subjects = {git(folder, "log", "-1", "--format=%s", each["commit"]): each["rule"]
                for each in report["problems"]}  # fmt: skip
    assert subjects == {"Added more": "form", "feat: add": "body-width"}
    assert run(folder, "--check", "HEAD~1..")[0] == 0
    assert run(folder, "--check", f"{start}...main")[0] == 1


def written(folder: Path, *argv: str) -> str:
    """Run the command without --json and return what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit):
        main(["commit-msg", "--target", str(folder), *argv])
    return printed.getvalue()


def test_problems_are_written_for_code_hosts(folder: Path) -> None:
    message = write(folder, b"feat: added rows\n\n" + b"w " * 60 + b"\n")
    places = read_places(written(folder, "--check", str(message), "--format", "sarif"))
    assert [each[0:2] + each[3:] for each in places] == [
        ("subject-mood", "error", 1, 7),
        ("body-width", "error", 3, 101),
    ]
    assert {each.path for each in places} == {str(message)}
    rows = written(folder, "--check", str(message), "--format", "github").splitlines()
    assert rows[0].startswith(
        f"::error file={message},line=1,col=7,title=subject-mood::the subject"
    )
    commit(folder, "Added more", {"x": "1"})
    name = git(folder, "rev-parse", "HEAD")
    text = written(folder, "--check", "HEAD~1..HEAD", "--format", "sarif")
    assert read_places(text) == [Place("form", "error", name, 1, 1)]


def test_a_draft_has_no_findings_to_write(folder: Path) -> None:
    status, report = run(folder, "--format", "sarif")
    assert (status, report["error"]["code"]) == (2, "usage")


def write(folder: Path, data: bytes) -> Path:
    """Writes a message into git's folder."""
    path = folder / ".git" / "message"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("span", ["nope..HEAD", "HEAD..nope", "HEAD~99..HEAD"])
def test_a_range_that_is_none_is_told(span: str, folder: Path) -> None:
    status, report = run(folder, "--check", span)
    assert (status, report["error"]["code"]) == (2, "revision_unknown")


def test_a_file_with_dots_in_its_name_is_a_file(folder: Path) -> None:
    (folder / "a..b").write_text("feat: add x\n")
    assert run(folder, "--check", str(folder / "a..b"))[0] == 0
    assert run(folder, "--check", str(folder / "none"))[1]["error"]["code"] == "usage"


# --- odd places ---------------------------------------------------------------------------------


def make_empty(folder: Path) -> None:
    shutil.rmtree(folder)
    make_repository(folder)
    stage(folder, {"pkg/x.py": "x = 1\n"})


def make_detached(folder: Path) -> None:
    git(folder, "checkout", "-q", "--detach")
    stage(folder, {"docs/b.md": "b\n"})


def make_shallow(folder: Path) -> None:
    git(folder.parent, "clone", "-q", "--depth=3", f"file://{folder}", "shallow")
    shutil.rmtree(folder)
    shutil.move(folder.parent / "shallow", folder)
    stage(folder, {"docs/b.md": "b\n"})


def make_binary(folder: Path) -> None:
    stage(folder, {"docs/x.bin": b"\0\1"})


def make_merge(folder: Path) -> None:
    git(folder, "switch", "-q", "-c", "side", "HEAD~2")
    commit(folder, "docs: tell b", {"docs/b.md": "b\n"})
    git(folder, "merge", "-q", "--no-commit", "--no-ff", "main")


def make_bytes(folder: Path) -> None:
    name = b"docs/b\xe9.md".decode("utf-8", "surrogateescape")
    stage(folder, {name: b"caf\xe9\n", "docs/l.md": b"\xff\xfe"})


def make_mode(folder: Path) -> None:
    (folder / "pkg" / "core" / "a.py").chmod(0o755)
    git(folder, "add", "-A")


def make_submodule(folder: Path) -> None:
    inner = make_repository(folder.parent / "inner")
    commit(inner, "feat: inner", {"x": "x"})
    git(folder, "submodule", "add", "-q", str(inner), "sub", GIT_ALLOW_PROTOCOL="file")


def make_grafted_history(folder: Path) -> None:
    commit(folder, "fix: odd", {"o": "1"})
    message = write(folder, b"fix: caf\xe9 \x00".replace(b"\x00", b""))
    git(folder, "commit", "-q", "--allow-empty", "-F", str(message))
    stage(folder, {"docs/b.md": "b\n"})


PLACES: list[Callable[[Path], None]] = [
    make_empty, make_detached, make_shallow, make_binary, make_merge, make_bytes, make_mode,
    make_submodule, make_grafted_history,
]  # fmt: skip


@pytest.mark.parametrize("make", PLACES, ids=lambda make: make.__name__[5:])
def test_odd_places_have_a_draft_too(make: Callable[[Path], None], folder: Path) -> None:
    make(folder)
    before = whole_tree(folder)
    status, report = run(folder)
    assert status == 0, report["error"]
    message = report["commit_message"]["message"]
    assert message.partition("\n")[0].partition(": ")[2]
    assert "WHY: " in message
    assert whole_tree(folder) == before


def test_settings_of_git_that_order_a_diff_do_not_count(folder: Path) -> None:
    git(folder, "config", "diff.orderFile", "missing")
    stage(folder, {"pkg/new.py": "def three(): ...\n"})
    status, report = run(folder)
    assert status == 0, report["error"]
    assert "- add function three (pkg/new.py)" in report["commit_message"]["message"]


def test_what_cannot_be_described_is_told(folder: Path) -> None:
    status, report = run(folder)
    assert (status, report["error"]["code"]) == (2, "nothing_staged")
    git(folder, "switch", "-q", "-c", "side", "HEAD~2")
    commit(folder, "fix: other", {"pkg/core/a.py": "A = 'side'\n"})
    git(folder, "merge", "-q", "main", ok=False)
    status, report = run(folder)
    assert (status, report["error"]["code"]) == (2, "unmerged")
    assert "pkg/core/a.py" in report["error"]["message"]
    outside = folder.parent / "outside"
    outside.mkdir()
    assert run(outside)[1]["error"]["code"] == "repository_missing"
