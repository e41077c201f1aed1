"""`scaffold pr` on real repositories with local remotes; gh is a stand-in that records calls."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scaffold.cli.main import main
from scaffold.errors import ScaffoldError
from scaffold.vcs.pull_request.command import Options, pull_request
from scaffold.vcs.pull_request.github import Fork, fork_of
from tests.integration.scaffold.git_places import (
    ENV,
    commit,
    everything,
    gh_calls,
    git,
    make_gh,
    make_repository,
    whole_tree,
)
from tests.reports import REPORTS

pytestmark = pytest.mark.heavy

REWRITE = ("--rewrite", "--yes")
PUSH = ("--rewrite", "--push", "--yes")


class Place(NamedTuple):
    """Is a clone with a branch, its bare remote, and another clone that pushes to it."""

    here: Path
    bare: Path
    other: Path
    bin: Path

    def pr(self, *argv: str) -> tuple[int, dict[str, Any]]:
        """Runs the command and returns its status and report, which fits the schema."""
        printed = io.StringIO()
        streams = redirect_stdout(printed), redirect_stderr(io.StringIO())
        with streams[0], streams[1], pytest.raises(SystemExit) as end:
            main(["pr", "--json", "--target", str(self.here), *argv])
        report = json.loads(printed.getvalue())
        REPORTS.validate(report)
        return int(end.value.code or 0), report

    def env(self) -> dict[str, str]:
        """Returns an environment in which gh is the stand-in, or is not there."""
        path = os.pathsep.join([str(self.bin), *_path_without_gh()])
        return {**ENV, "PATH": path}


def _path_without_gh() -> list[str]:
    return [
        each for each in os.environ["PATH"].split(os.pathsep) if not (Path(each) / "gh").exists()
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes the repositories once; tests work on copies."""
    root = tmp_path_factory.mktemp("made")
    first = make_repository(root / "first")
    files = {"pkg/a.py": "def one():\n    return 1\n", "pkg/b.py": "B = 1\n", ".gitignore": "*.o\n"}
    commit(first, "feat: add a", files)
    git(first, "clone", "-q", "--bare", str(first), str(root / "bare.git"))
    shutil.rmtree(first)
    for name in ("here", "other"):
        git(root, "clone", "-q", "bare.git", name)
    here = root / "here"
    git(here, "switch", "-q", "-c", "12-add-two")
    commit(here, "feat(pkg): add two", {"pkg/two.py": "def two():\n    return 2\n"})
    ben = {"GIT_AUTHOR_NAME": "Ben", "GIT_AUTHOR_EMAIL": "ben@example.org"}
    commit(here, "test the two", {"tests/test_two.py": "def test_two(): ...\n"}, **ben)
    commit(root / "other", "fix: let b be 2", {"pkg/b.py": "B = 2\n"})
    git(root / "other", "push", "-q")
    return root


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Copies the repositories; the base has one commit that the clone has not fetched."""
    root = tmp_path / "place"
    shutil.copytree(made, root, symlinks=True)
    for name in ("here", "other"):
        git(root / name, "remote", "set-url", "origin", str(root / "bare.git"))
        git(root / name, "update-index", "-q", "--refresh")
    found = Place(root / "here", root / "bare.git", root / "other", make_gh(root / "bin"))
    for key, value in found.env().items():
        monkeypatch.setenv(key, value)
    return found


def conflict(place: Place) -> None:
    """Lets the remote's base change what the branch changes too."""
    commit(place.here, "feat(pkg): let one be big", {"pkg/a.py": "def one():\n    return 100\n"})
    commit(place.other, "fix: let one be small", {"pkg/a.py": "def one():\n    return -1\n"})
    git(place.other, "push", "-q")


def contents(folder: Path) -> dict[str, str]:
    """Return a digest of each file, git's own too; the time of an object that it meets changes."""
    return {path: digest for path, (_, digest) in whole_tree(folder).items()}


# --- reading ------------------------------------------------------------------------------------


def test_without_options_nothing_at_all_is_written(place: Place) -> None:
    before = whole_tree(place.here)
    status, report = place.pr()
    assert status == 0
    assert whole_tree(place.here) == before
    assert gh_calls(place.bin) == []
    told = report["pull_request"]
    assert told["title"] == "feat(pkg): add two"
    assert told["references"] == ["#12"]
    assert [each["action"] + " " + each["name"] for each in told["key_changes"]["symbols"]] == [
        "added two"
    ]
    assert "- `tests/test_two.py`" in told["body"]
    assert {each["name"]: each["state"] for each in told["checks"]} == {
        "branch": "ok", "operation": "ok", "tree": "ok", "base": "ok", "messages": "warning",
        "remote": "ok", "gh": "ok",
    }  # fmt: skip


def test_a_dry_run_of_all_of_it_writes_nothing_either(place: Place) -> None:
    before = contents(place.here)
    status, report = place.pr(*PUSH, "--dry-run")
    assert (status, report["dry_run"]) == (0, True)
    assert report["pull_request"]["message"].startswith("feat(pkg): add two\n\n- test")
    assert contents(place.here) == before
    assert gh_calls(place.bin) == []


def test_the_template_of_the_repository_is_filled(place: Place) -> None:
    text = "<!-- be kind -->\n# What changes\n\n# Type\n- [ ] Bug\n- [ ] New feature\n\n# Tests\n"
    commit(place.here, "docs: add a template", {".github/PULL_REQUEST_TEMPLATE.md": text})
    _, report = place.pr()
    body = report["pull_request"]["body"]
    assert "<!-- be kind -->\n# What changes\n\n- feat(pkg): add two\n" in body
    assert "- [ ] Bug\n- [x] New feature\n" in body
    assert body.rstrip().endswith("- `tests/test_two.py`\n\nRun: not given (`--tested`).")
    assert "None of the areas" not in body


def test_a_body_tells_apart_which_tests_were_run(place: Place) -> None:
    files = {"pkg/server.py": "def serve():\n    return 1\n", "tests/test_server.py": "x = 1\n"}
    commit(place.here, "feat(pkg): add a server", files)
    _, report = place.pr("--tested", "pytest tests/test_two.py: 1 passed")
    body = report["pull_request"]["body"]
    assert "Serving and interfaces to other programs (HIGH): `pkg/server.py`. " in body
    assert "- pytest tests/test_two.py: 1 passed\n" in body
    assert "Not run, though near to the change: `tests/test_server.py`." in body


def make_detached(place: Place) -> None:
    git(place.here, "checkout", "-q", "--detach")


def make_base_itself(place: Place) -> None:
    git(place.here, "switch", "-q", "main")


def make_dirty(place: Place) -> None:
    (place.here / "pkg" / "a.py").write_text("x = 1\n")


def make_staged(place: Place) -> None:
    make_dirty(place)
    git(place.here, "add", "-A")


def make_half_merge(place: Place) -> None:
    (place.here / ".git" / "MERGE_HEAD").write_text(git(place.here, "rev-parse", "HEAD") + "\n")


def make_no_gh(place: Place) -> None:
    (place.bin / "gh").unlink()


def make_logged_out(place: Place) -> None:
    make_gh(place.bin, fails="auth status")


def make_orphan(place: Place) -> None:
    git(place.here, "switch", "-q", "--orphan", "new")
    commit(place.here, "feat: begin anew", {"n.txt": "n"})


def make_no_remote(place: Place) -> None:
    git(place.here, "remote", "remove", "origin")


def make_nothing(place: Place) -> None:
    git(place.here, "switch", "-q", "-c", "empty", "main")


def make_unborn(place: Place) -> None:
    shutil.rmtree(place.here)
    make_repository(place.here)


def make_gone_remote(place: Place) -> None:
    shutil.rmtree(place.bare)


def make_two_remotes(place: Place) -> None:
    git(place.here, "remote", "rename", "origin", "one")
    git(place.here, "remote", "add", "two", str(place.bare))


def make_bad_message(place: Place) -> None:
    (place.here / ".git" / "m.txt").write_text("Added two.\n")


REFUSED: dict[str, tuple[Callable[[Place], None], tuple[str, ...], str, str]] = {
    "detached": (make_detached, PUSH, "branch_missing", "detached at"),
    "the base itself": (make_base_itself, PUSH, "not_ready", "main is the base itself"),
    "edited": (make_dirty, PUSH, "not_ready", "1 tracked files are not as committed: pkg/a.py"),
    "staged": (make_staged, REWRITE, "not_ready", "pkg/a.py"),
    "half done": (make_half_merge, (), "not_ready", "a merge is half done"),
    "no gh": (make_no_gh, PUSH, "not_ready", "gh, the command of GitHub, is not there"),
    "logged out": (make_logged_out, PUSH, "gh_failed", "not logged in: gh: the server said no"),
    "unrelated": (make_orphan, PUSH, "not_ready", "no common commit"),
    "no remote": (make_no_remote, ("--push", "--yes"), "not_ready", "there is no remote"),
    "nothing new": (make_nothing, (), "not_ready", "has all of empty"),
    "no commit": (make_unborn, (), "branch_missing", "no commit yet"),
    "the remote is gone": (make_gone_remote, REWRITE, "git_failed", "git ls-remote failed"),
    "two remotes": (make_two_remotes, (), "remote_unknown", "none is called origin: one, two"),
    "an unknown remote": (make_dirty, ("--remote", "orign"), "remote_unknown", "mean 'origin'"),
    "an unknown base": (make_dirty, ("--base", "mian"), "base_unknown", "mean 'main'"),
    "an unknown template": (make_nothing, ("--template", "x"), "template_unknown", "known: none"),
    "a bad message": (
        make_bad_message, (*REWRITE, "--message", "MESSAGE"), "message_invalid", "type",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_ready_is_refused_and_nothing_changes(case: str, place: Place) -> None:
    make, argv, code, part = REFUSED[case]
    make(place)
    before = everything(place.here)
    message = str(place.here / ".git" / "m.txt")
    status, report = place.pr(*(message if each == "MESSAGE" else each for each in argv))
    assert status in (1, 2)
    assert report["error"]["code"] == code, report["error"]
    assert part in report["error"]["message"]
    assert report["error"]["hint"]
    assert everything(place.here) == before


def test_without_a_yes_the_plan_is_told_and_nothing_is_done(place: Place) -> None:
    before = everything(place.here)
    status, report = place.pr("--rewrite", "--push")
    assert status == 2
    assert report["error"]["code"] == "unconfirmed"
    assert "2 commits of 12-add-two become" in report["error"]["hint"]
    assert "push       origin/12-add-two: a new branch" in report["error"]["hint"]
    assert everything(place.here) == before


@pytest.mark.parametrize("answer", [True, False])
def test_who_is_asked_decides(answer: bool, place: Place) -> None:
    before = everything(place.here)
    plans: list[str] = []

    def ask(plan: str) -> bool:
        plans.append(plan)
        return answer

    if answer:
        assert pull_request(place.here, Options(rewrite=True), ask).ok
        assert git(place.here, "rev-list", "--count", "origin/main..HEAD") == "1"
    else:
        with pytest.raises(ScaffoldError) as caught:
            pull_request(place.here, Options(rewrite=True), ask)
        assert caught.value.code == "aborted"
        assert everything(place.here) == before
    assert "the backup is" in plans[0]


def test_a_shallow_clone_names_the_way_out(place: Place, tmp_path: Path) -> None:
    commit(place.other, "fix: one more", {"pkg/b.py": "B = 3\n"})
    git(place.other, "push", "-q")
    git(place.here, "push", "-q", "origin", "12-add-two")
    here = tmp_path / "shallow"
    argv = ["clone", "-q", "--depth=1", "--no-single-branch", "-b", "12-add-two"]
    git(tmp_path, *argv, f"file://{place.bare}", str(here))
    status, report = place._replace(here=here).pr()
    assert status == 1
    assert "git fetch --unshallow origin" in report["error"]["hint"]


# --- rewriting ----------------------------------------------------------------------------------


def test_a_rewrite_makes_one_commit_on_the_fetched_base(place: Place) -> None:
    old = git(place.here, "rev-parse", "HEAD")
    (place.here / "untracked.txt").write_text("mine")
    (place.here / "x.o").write_text("ignored")
    status, report = place.pr(*REWRITE)
    assert status == 0, report["error"]
    made = report["pull_request"]["rewritten"]
    assert git(place.here, "rev-parse", made["backup"]) == made["old"] == old
    assert git(place.here, "rev-parse", "12-add-two", "HEAD").split() == [made["new"]] * 2
    assert git(place.here, "status", "--porcelain") == "?? untracked.txt"
    assert (place.here / "pkg" / "b.py").read_text() == "B = 2\n"
    assert git(place.here, "rev-parse", "HEAD^") == git(place.bare, "rev-parse", "main")
    assert git(place.here, "rev-parse", "origin/main") == git(place.bare, "rev-parse", "main")
    message = git(place.here, "log", "-1", "--format=%an|%B")
    assert message.startswith("Ada|feat(pkg): add two\n\n- test the two\n")
    assert "Refs: #12" in message
    assert "Co-authored-by: Ben <ben@example.org>" in message
    assert message.count("Squashed: ") == 2
    assert git(place.here, "log", "-1", "--format=%aI") == git(
        place.here, "log", "-1", "--format=%aI", f"{made['backup']}~1"
    )
    assert gh_calls(place.bin) == []
    git(place.here, "reset", "-q", "--hard", made["backup"])
    assert git(place.here, "rev-parse", "HEAD") == old


def test_a_conflict_is_reported_with_both_sides_and_nothing_is_touched(place: Place) -> None:
    conflict(place)
    before = everything(place.here)
    status, report = place.pr(*REWRITE)
    assert status == 1
    assert report["error"]["code"] == "rebase_conflict"
    (told,) = report["pull_request"]["conflicts"]
    assert told["path"] == "pkg/a.py"
    assert [line.split(" ", 1)[1] for line in told["ours"]] == ["feat(pkg): let one be big"]
    assert [line.split(" ", 1)[1] for line in told["theirs"]] == ["fix: let one be small"]
    assert "    return -1\n" in told["hunks"][0]
    assert "    return 100\n" in told["hunks"][0]
    assert "git rebase origin/main" in report["error"]["hint"]
    assert everything(place.here) == before


def test_what_git_would_overwrite_without_a_word_is_refused(place: Place) -> None:
    commit(place.other, "build: keep an object", {"late.txt": "theirs"})
    (place.other / "big.o").write_text("theirs")
    git(place.other, "add", "-f", "big.o")
    git(place.other, "commit", "-q", "-m", "build: keep another")
    git(place.other, "push", "-q")
    for name in ("late.txt", "big.o"):
        (place.here / name).write_text("mine")
        before = everything(place.here)
        status, report = place.pr(*REWRITE)
        assert (status, report["error"]["code"]) == (1, "file_exists")
        assert name in report["error"]["message"]
        assert everything(place.here) == before
        (place.here / name).unlink()


def test_edits_that_git_was_told_not_to_see_are_kept(place: Place) -> None:
    git(place.here, "update-index", "--assume-unchanged", "pkg/b.py")
    (place.here / "pkg" / "b.py").write_text("B = 'mine'\n")
    before = everything(place.here)
    status, report = place.pr(*REWRITE)
    assert (status, report["error"]["code"]) == (1, "file_exists")
    assert "pkg/b.py" in report["error"]["message"]
    assert everything(place.here) == before


def test_a_git_that_is_too_old_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaffold.vcs.pull_request.squash.MIN_VERSION", (99, 1))
    before = everything(place.here)
    status, report = place.pr(*REWRITE)
    assert (status, report["error"]["code"]) == (1, "git_old")
    assert "install git 99.1 or newer" in report["error"]["hint"]
    assert everything(place.here) == before


def test_work_that_is_merged_already_is_told(place: Place) -> None:
    git(place.here, "push", "-q", "origin", "12-add-two")
    git(place.other, "fetch", "-q")
    git(place.other, "merge", "-q", "--squash", "origin/12-add-two")
    git(place.other, "commit", "-q", "-m", "feat: add two")
    git(place.other, "push", "-q")
    status, report = place.pr(*REWRITE)
    assert (status, report["error"]["code"]) == (1, "nothing_to_propose")


def set_filter(place: Place, script: str, *, required: bool = True) -> None:
    """Lets git run a script for the file that the base changes, where it is written."""
    (place.here / ".git" / "info" / "attributes").write_text("pkg/b.py filter=slow\n")
    git(place.here, "config", "filter.slow.smudge", script)
    git(place.here, "config", "filter.slow.clean", "cat")
    git(place.here, "config", "filter.slow.required", str(required).lower())
    git(place.here, "status")


@pytest.mark.parametrize("way", ["a ref", "a file"])
def test_a_move_that_fails_half_way_is_taken_back(way: str, place: Place) -> None:
    """A ref that cannot be written, and a file whose filter fails once, behind others."""
    commit(place.other, "feat: add more", {"new/deep/file.txt": "new\n", "pkg/a.py": "A = 2\n"})
    git(place.other, "push", "-q")
    if way == "a ref":
        (place.here / ".git" / "refs" / "heads" / "12-add-two.lock").write_text("")
    else:
        (place.here / ".git" / "armed").write_text("")
        set_filter(place, "[ ! -f .git/armed ] && cat || { rm .git/armed; exit 1; }")
    before = everything(place.here)
    status, report = place.pr(*REWRITE)
    assert (status, report["error"]["code"]) == (1, "git_failed")
    assert everything(place.here) == before
    assert not (place.here / ".git" / "armed").exists()


def test_links_modes_renames_and_odd_names_survive_a_rewrite(place: Place) -> None:
    (place.here / "a link").symlink_to("pkg/a.py")
    git(place.here, "mv", "pkg/b.py", "pkg/b \u00e4\n.py")
    (place.here / "pkg" / "a.py").chmod(0o755)
    commit(place.here, "refactor: move things", {"bin.dat": b"\0\1\2\xff", "no_end": "x"})
    git(place.here, "rm", "-q", "--cached", "no_end")
    (place.here / "no_end").unlink()
    git(place.here, "commit", "-q", "-m", "chore: drop it")
    tree = git(place.here, "ls-tree", "-r", "-z", "HEAD")
    status, report = place.pr(*REWRITE)
    assert status == 0, report["error"]
    assert git(place.here, "status", "--porcelain") == ""
    # The base's own change of pkg/b.py came along with the rename.
    assert (place.here / "pkg" / "b \u00e4\n.py").read_text() == "B = 2\n"
    assert len(git(place.here, "ls-tree", "-r", "-z", "HEAD").split("\0")) == len(tree.split("\0"))


def test_a_folder_may_become_a_file_and_a_file_a_folder(place: Place) -> None:
    commit(place.other, "build: more", {"x/y/file": "1", "z": "1"})
    git(place.other, "push", "-q")
    git(place.here, "pull", "-q", "--rebase", "origin", "main")
    (place.other / "z").unlink()
    shutil.rmtree(place.other / "x")
    commit(place.other, "build: swap", {"x": "a file", "z/deep": "a folder"})
    git(place.other, "push", "-q")
    (place.here / "x" / "mine.o").write_text("mine")
    before = everything(place.here)
    status, report = place.pr(*REWRITE)
    assert (status, report["error"]["code"]) == (1, "file_exists")
    assert everything(place.here) == before
    (place.here / "x" / "mine.o").unlink()
    assert place.pr(*REWRITE)[0] == 0
    assert (place.here / "x").read_text() == "a file"
    assert (place.here / "z" / "deep").read_text() == "a folder"


def test_a_work_tree_of_its_own_is_moved_alone(place: Place, tmp_path: Path) -> None:
    git(place.here, "switch", "-q", "main")
    tree = tmp_path / "tree"
    git(place.here, "worktree", "add", "-q", str(tree), "12-add-two")
    main_before = git(place.here, "status", "--porcelain=v2", "--branch")
    status, report = place._replace(here=tree).pr(*REWRITE)
    assert status == 0, report["error"]
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "log", "-1", "--format=%s") == "feat(pkg): add two"
    assert git(place.here, "rev-parse", "HEAD") in main_before


def test_a_submodule_that_the_base_gained_is_taken_back_too(place: Place, tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner")
    commit(inner, "feat: inner", {"x": "x"})
    git(place.other, "submodule", "-q", "add", str(inner), "sub", GIT_ALLOW_PROTOCOL="file")
    commit(place.other, "build: add a submodule", {})
    git(place.other, "push", "-q")
    lock = place.here / ".git" / "refs" / "heads" / "12-add-two.lock"
    lock.write_text("")
    before = everything(place.here)
    status, report = place.pr(*REWRITE)
    assert (status, report["error"]["code"]) == (1, "git_failed")
    assert everything(place.here) == before
    lock.unlink()
    assert place.pr(*REWRITE)[0] == 0
    assert git(place.here, "ls-tree", "HEAD", "sub").startswith("160000 commit")


def test_a_branch_with_merges_becomes_one_commit_too(place: Place) -> None:
    git(place.here, "fetch", "-q")
    git(place.here, "merge", "-q", "--no-edit", "origin/main")
    commit(place.here, "feat(pkg): add three", {"pkg/three.py": "def three(): ...\n"})
    tree = git(place.here, "rev-parse", "HEAD^{tree}")
    status, report = place.pr(*REWRITE)
    assert status == 0, report["error"]
    assert git(place.here, "rev-parse", "HEAD^{tree}") == tree
    assert git(place.here, "rev-list", "--count", "origin/main..HEAD") == "1"


# --- pushing ------------------------------------------------------------------------------------


def test_push_opens_a_pull_request(place: Place) -> None:
    status, report = place.pr(*PUSH, "--draft", "--title", "feat(pkg): add the two")
    assert status == 0, report["error"]
    told = report["pull_request"]
    assert told["request"] == {
        "action": "created", "number": None, "url": "https://example.org/pull/7",
    }  # fmt: skip
    head = git(place.here, "rev-parse", "HEAD")
    assert git(place.bare, "rev-parse", "12-add-two") == head
    assert git(place.here, "rev-parse", "origin/12-add-two") == head
    calls = gh_calls(place.bin)
    assert [call["argv"][:2] for call in calls] == [
        ["auth", "status"], ["pr", "list"], ["pr", "create"],
    ]  # fmt: skip
    argv = calls[-1]["argv"]
    assert argv[argv.index("--title") + 1] == "feat(pkg): add the two"
    assert argv[argv.index("--base") + 1] == "main"
    assert argv[argv.index("--head") + 1] == "12-add-two"
    assert "--draft" in argv
    assert calls[-1]["bodies"][0].startswith(told["body"].rstrip())


def test_push_alone_leaves_the_commits_as_they_are(place: Place) -> None:
    old = git(place.here, "rev-parse", "HEAD")
    status, report = place.pr("--push", "--yes")
    assert status == 0, report["error"]
    assert report["pull_request"]["rewritten"] is None
    assert git(place.bare, "rev-parse", "12-add-two") == git(place.here, "rev-parse", "HEAD") == old


def open_request(place: Place, body: str) -> None:
    row = {"number": 7, "url": "https://example.org/pull/7", "title": "t", "body": body,
           "isDraft": False, "baseRefName": "main"}  # fmt: skip
    make_gh(place.bin, prs=[row])


def test_a_text_that_a_person_wrote_stays_in_an_open_request(place: Place) -> None:
    open_request(place, "Written by hand.")
    status, report = place.pr("--push", "--yes")
    assert status == 0, report["error"]
    assert report["pull_request"]["request"]["action"] == "edited"
    argv = gh_calls(place.bin)[-1]["argv"]
    assert argv == ["pr", "edit", "7", "--base", "main"]


def test_a_text_of_the_tool_is_renewed(place: Place) -> None:
    assert place.pr("--push", "--yes")[0] == 0
    open_request(place, gh_calls(place.bin)[-1]["bodies"][0].replace("\n", "\r\n"))
    commit(place.here, "feat(pkg): add three", {"pkg/three.py": "def three(): ...\n"})
    status, report = place.pr("--push", "--yes")
    assert status == 0, report["error"]
    call = gh_calls(place.bin)[-1]
    assert call["argv"][:3] == ["pr", "edit", "7"]
    assert "add three" in call["bodies"][0]


def test_commits_of_the_remote_are_replaced_only_with_the_option_and_a_yes(place: Place) -> None:
    git(place.here, "push", "-q", "origin", "12-add-two")
    git(place.here, "fetch", "-q")
    old = git(place.bare, "rev-parse", "12-add-two")
    before = everything(place.here)
    status, report = place.pr(*PUSH)
    assert (status, report["error"]["code"]) == (1, "push_refused")
    assert "2 commits that the push would replace" in report["error"]["message"]
    status, report = place.pr("--rewrite", "--push", "--force-with-lease")
    assert (status, report["error"]["code"]) == (2, "unconfirmed")
    assert "lost: " in report["error"]["hint"]
    assert everything(place.here) == before
    assert git(place.bare, "rev-parse", "12-add-two") == old
    status, report = place.pr(*PUSH, "--force-with-lease")
    assert status == 0, report["error"]
    assert git(place.bare, "rev-parse", "12-add-two") == git(place.here, "rev-parse", "HEAD") != old
    assert len(report["pull_request"]["pushed"]["lost"]) == 2


def test_what_somebody_else_pushed_since_is_never_replaced(place: Place) -> None:
    git(place.here, "push", "-q", "origin", "12-add-two")
    git(place.here, "fetch", "-q")
    git(place.other, "fetch", "-q")
    git(place.other, "switch", "-q", "12-add-two")
    commit(place.other, "fix: theirs", {"theirs.txt": "x"})
    git(place.other, "push", "-q")
    theirs = git(place.bare, "rev-parse", "12-add-two")
    before = everything(place.here)
    status, report = place.pr(*PUSH, "--force-with-lease")
    assert (status, report["error"]["code"]) == (1, "remote_moved")
    assert everything(place.here) == before
    assert git(place.bare, "rev-parse", "12-add-two") == theirs


def test_a_hook_of_the_remote_that_refuses_leaves_all_as_it_was(place: Place) -> None:
    hook = place.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'no pushes on Sundays' >&2\nexit 1\n")
    hook.chmod(0o755)
    before = everything(place.here)
    status, report = place.pr(*PUSH)
    assert (status, report["error"]["code"]) == (1, "git_failed")
    assert "no pushes on Sundays" in report["error"]["message"]
    assert everything(place.here) == before


@pytest.mark.parametrize("call", ["pr list", "pr create"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_gh_that_fails_takes_the_push_back(call: str, is_there: bool, place: Place) -> None:
    make_gh(place.bin, fails=call)
    if is_there:
        git(place.here, "push", "-q", "origin", "12-add-two")
        git(place.here, "fetch", "-q")
    before, remote = everything(place.here), git(place.bare, "for-each-ref")
    status, report = place.pr(*PUSH, "--force-with-lease")
    assert (status, report["error"]["code"]) == (1, "gh_failed")
    assert "the server said no" in report["error"]["message"]
    assert everything(place.here) == before
    assert git(place.bare, "for-each-ref") == remote


def write_hook(place: Place, name: str, status: int) -> None:
    """Write a hook of the repository that leaves a trace of its name."""
    hook = place.here / ".git" / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho no >&2\ntouch '{place.here}/../{name}'\nexit {status}\n")
    hook.chmod(0o755)


def test_a_pre_push_hook_runs_and_may_refuse(place: Place) -> None:
    for name in ("pre-push", "commit-msg", "post-checkout"):
        write_hook(place, name, 1)
    before, remote = everything(place.here), git(place.bare, "for-each-ref")
    status, report = place.pr(*PUSH)
    assert (status, report["error"]["code"]) == (1, "git_failed")
    assert everything(place.here) == before
    assert git(place.bare, "for-each-ref") == remote
    traces = {each.name for each in place.here.parent.iterdir()}
    assert traces & {"pre-push", "commit-msg", "post-checkout"} == {"pre-push"}
    status, report = place.pr(*PUSH, "--no-verify")
    assert status == 0, report["error"]


def test_a_push_that_is_taken_back_does_not_ask_the_hook(place: Place) -> None:
    make_gh(place.bin, fails="pr create")
    # It lets the push pass, and refuses to let a branch go.
    write_hook(place, "pre-push", 0)
    hook = place.here / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\nwhile read a sha b c; do case $sha in 0000*) exit 1;; esac; done\n")
    status, report = place.pr(*PUSH)
    assert (status, report["error"]["code"]) == (1, "gh_failed")
    assert "12-add-two" not in git(place.bare, "for-each-ref")


def test_the_one_commit_is_signed_where_git_is_set_to(place: Place) -> None:
    gpg = place.bin / "gpg"
    gpg.write_text(
        "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\n"
        "echo '-----BEGIN PGP SIGNATURE-----'\necho '-----END PGP SIGNATURE-----'\n"
    )
    gpg.chmod(0o755)
    git(place.here, "config", "gpg.program", str(gpg))
    git(place.here, "config", "commit.gpgSign", "true")
    status, report = place.pr(*REWRITE)
    assert status == 0, report["error"]
    assert "BEGIN PGP SIGNATURE" in git(place.here, "cat-file", "commit", "HEAD")


def test_a_dry_run_ends_in_the_conflict_of_the_real_one(place: Place) -> None:
    conflict(place)
    git(place.here, "fetch", "-q")
    before = contents(place.here)
    dry = place.pr(*REWRITE, "--dry-run")
    assert contents(place.here) == before
    real = place.pr(*REWRITE)
    assert (dry[0], dry[1]["error"]["code"]) == (1, "rebase_conflict")
    assert dry[1]["pull_request"]["conflicts"] == real[1]["pull_request"]["conflicts"]


def test_a_dry_run_refuses_what_the_real_push_would_replace(place: Place) -> None:
    git(place.here, "push", "-q", "-u", "origin", "12-add-two")
    git(place.here, "commit", "-q", "--amend", "-m", "test: amended")
    before = contents(place.here)
    ends = [place.pr("--push", "--yes", *extra) for extra in (("--dry-run",), ())]
    assert [(status, report["error"]["code"]) for status, report in ends] == [
        (1, "push_refused"), (1, "push_refused"),
    ]  # fmt: skip
    assert contents(place.here) == before


def test_what_is_refused_prints_why_and_no_text(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    (place.here / "pkg/a.py").write_text("def one():\n    return 3\n")
    with pytest.raises(SystemExit) as end:
        main(["pr", *PUSH, "--dry-run", "--target", str(place.here)])
    out, error = capsys.readouterr()
    assert end.value.code == 1
    assert "feat(pkg): add two" not in out
    assert "failed     tree" in out
    assert "12-add-two is not ready" in error


# --- forks --------------------------------------------------------------------------------------


def make_fork(place: Place) -> None:
    """Let origin be a fork that is behind, and upstream have the branch's base."""
    git(place.here.parent, "clone", "-q", "--bare", "bare.git", "up.git")
    git(place.other, "remote", "set-url", "origin", str(place.bare.with_name("up.git")))
    for number in range(3):
        commit(place.other, f"feat!: drop part {number}", {"pkg/c.py": f"C = {number}\n"})
    git(place.other, "push", "-q", "origin", "main")
    git(place.here, "remote", "add", "upstream", str(place.bare.with_name("up.git")))
    git(place.here, "fetch", "-q", "upstream")
    git(place.here, "rebase", "-q", "upstream/main")


def test_commits_of_another_remote_are_never_squashed(place: Place) -> None:
    make_fork(place)
    before = everything(place.here)
    status, report = place.pr(*REWRITE)
    assert (status, report["error"]["code"]) == (1, "not_ready")
    # Three that were made upstream, and the one that the fork's base has not fetched either.
    assert "4 of 6 commits are on upstream/main already" in report["error"]["message"]
    assert "--remote upstream" in report["error"]["hint"]
    assert everything(place.here) == before


def test_a_fork_is_pushed_to_and_the_request_goes_upstream(place: Place) -> None:
    make_fork(place)
    status, report = place.pr(*PUSH, "--remote", "upstream")
    assert status == 0, report["error"]
    made = report["pull_request"]
    assert [each["subject"] for each in made["commits"]] == ["feat(pkg): add two", "test the two"]
    assert made["pushed"]["remote"] == "origin"
    assert made["title"] == "feat(pkg): add two"
    assert "12-add-two" in git(place.bare, "for-each-ref")
    assert "12-add-two" not in git(place.bare.with_name("up.git"), "for-each-ref")
    parents = git(place.here, "rev-parse", "HEAD^", "upstream/main").split()
    assert parents[0] == parents[1]


def test_a_branch_that_began_at_the_upstream_goes_to_the_fork(place: Place) -> None:
    make_fork(place)
    # What `git switch -c 12-add-two upstream/main` leaves behind; git would not push it there.
    git(place.here, "branch", "-q", "--set-upstream-to", "upstream/main")
    status, report = place.pr(*PUSH, "--remote", "upstream")
    assert status == 0, report["error"]
    assert report["pull_request"]["pushed"]["remote"] == "origin"
    assert "12-add-two" not in git(place.bare.with_name("up.git"), "for-each-ref")


def test_gh_is_told_whose_branch_goes_where() -> None:
    fork = fork_of("git@github.com:them/tool.git", "https://github.com/me/tool")
    assert fork == Fork("them/tool", "me")
    assert fork_of("them", "me") == Fork()


# --- kept as it was -----------------------------------------------------------------------------


def lock_branch(place: Place) -> None:
    """Lets the last step fail, once files and index have moved."""
    (place.here / ".git" / "refs" / "heads" / "12-add-two.lock").write_text("")


@pytest.mark.parametrize("way", ["mode", "autocrlf=true", "autocrlf=input"])
def test_what_git_would_write_otherwise_is_put_back_as_it_was(way: str, place: Place) -> None:
    file = place.here / "pkg" / "b.py"
    if way == "mode":
        file.chmod(0o600)
    else:
        git(place.here, "config", "core.autocrlf", way.partition("=")[2])
        file.write_bytes(b"B = 1\n" if way.endswith("true") else b"B = 1\r\n")
    git(place.here, "add", "-A")
    lock_branch(place)
    before = everything(place.here)
    status, report = place.pr(*REWRITE)
    assert (status, report["error"]["code"]) == (1, "git_failed")
    assert everything(place.here) == before
    assert not list((place.here / ".git").glob("scaffold-*"))


def test_files_whose_times_alone_differ_are_no_edits(place: Place) -> None:
    os.utime(place.here / "pkg" / "b.py", (10**9, 10**9))
    status, report = place.pr(*REWRITE)
    assert status == 0, report["error"]
    assert git(place.here, "status", "--porcelain") == ""


def test_the_lock_of_another_git_stays(place: Place) -> None:
    lock = place.here / ".git" / "index.lock"
    lock.write_text("")
    status, report = place.pr(*REWRITE)
    assert (status, report["error"]["code"]) == (1, "git_failed")
    assert str(lock) in report["error"]["message"]
    assert lock.exists()


def test_the_work_tree_of_a_submodule_stays_where_it_is(place: Place, tmp_path: Path) -> None:
    inner, sub = make_repository(tmp_path / "inner"), place.here / "sub"
    old = commit(inner, "feat: inner", {"x": "x"})
    add = ("submodule", "-q", "add", str(inner), "sub")
    git(place.other, *add, GIT_ALLOW_PROTOCOL="file")
    commit(place.other, "build: add a submodule", {})
    git(place.other, "push", "-q")
    git(place.here, "pull", "-q", "--rebase", "origin", "main")
    git(place.here, "submodule", "-q", "update", "--init", GIT_ALLOW_PROTOCOL="file")
    commit(inner, "feat: more", {"x": "y"})
    git(sub, "fetch", "-q", GIT_ALLOW_PROTOCOL="file")
    git(place.other / "sub", "pull", "-q", "origin", "main", GIT_ALLOW_PROTOCOL="file")
    commit(place.other, "build: take the new one", {})
    git(place.other, "push", "-q")
    git(place.here, "config", "submodule.recurse", "true")
    status, report = place.pr(*REWRITE)
    assert status == 0, report["error"]
    assert git(sub, "rev-parse", "HEAD") == old


# --- working on meanwhile -----------------------------------------------------------------------


def do_meanwhile(place: Place, script: str) -> None:
    """Lets a script run in the clone once the branch is pushed, before anything here moves."""
    (place.bin / "gh").rename(place.bin / "gh-real")
    gh = place.bin / "gh"
    gh.write_text(
        f"#!/bin/sh\nif [ \"$2\" = create ]; then cd '{place.here}'\n{script}\nfi\n"
        f"exec '{place.bin}/gh-real' \"$@\"\n"
    )
    gh.chmod(0o755)


MEANWHILE = {
    "another branch": ("git switch -q main", "changed_meanwhile"),
    "a commit": ("echo 'B = 3' >pkg/b.py; git commit -qam 'fix: more'", "changed_meanwhile"),
    "an edit": ("echo 'B = 3' >pkg/b.py", "git_failed"),
    "an ignored file": ("echo mine >big.o", "file_exists"),
}


@pytest.mark.parametrize("case", MEANWHILE)
def test_what_a_person_does_meanwhile_is_kept(case: str, place: Place, tmp_path: Path) -> None:
    script, code = MEANWHILE[case]
    (place.other / "big.o").write_text("theirs")
    git(place.other, "add", "-f", "big.o")
    git(place.other, "commit", "-q", "-m", "build: keep an object")
    git(place.other, "push", "-q")
    do_meanwhile(place, script)
    alone = tmp_path / "alone"
    shutil.copytree(place.here, alone, symlinks=True)
    git(alone, "update-index", "-q", "--refresh")
    stamps = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}
    subprocess.run(["sh", "-c", script], cwd=alone, env={**ENV, **stamps}, check=True)
    with pytest.MonkeyPatch.context() as patch:
        for key, value in stamps.items():
            patch.setenv(key, value)
        status, report = place.pr(*PUSH)
    assert (status, report["error"]["code"]) == (1, code), report["error"]
    assert _told(place.here) == _told(alone)
    assert "12-add-two" not in git(place.bare, "for-each-ref")


def _told(folder: Path) -> dict[str, str]:
    """Returns all that a command could have changed but the index, which holds times."""
    found = everything(folder)
    return {name: said for name, said in found.items() if name not in (".git/index", ".git/config")}


def test_who_fetches_meanwhile_stops_nothing(place: Place) -> None:
    do_meanwhile(place, "git fetch -q")
    status, report = place.pr(*PUSH)
    assert status == 0, report["error"]
    assert git(place.here, "rev-parse", "HEAD~1") == git(place.bare, "rev-parse", "main")


# --- the message --------------------------------------------------------------------------------


def test_a_message_is_utf_8_whatever_git_is_set_to(place: Place) -> None:
    for name in ("commitEncoding", "logOutputEncoding"):
        git(place.here, "config", f"i18n.{name}", "ISO-8859-1")
    status, report = place.pr(*REWRITE, "--title", "feat(pkg): f\u00fcge \u20ac hinzu")
    assert status == 0, report["error"]
    told = git(place.here, "-c", "i18n.logOutputEncoding=UTF-8", "log", "-1", "--format=%s")
    assert told == "feat(pkg): f\u00fcge \u20ac hinzu"


def test_a_message_may_be_longer_than_a_command_line(place: Place) -> None:
    text = "feat(pkg): add two\n\n" + "\n".join(f"- point {each}" for each in range(20_000))
    (place.here / ".git" / "m.txt").write_text(text)
    status, report = place.pr(*REWRITE, "--message", str(place.here / ".git" / "m.txt"))
    assert status == 0, report["error"]
    assert git(place.here, "log", "-1", "--format=%B").rstrip() == text


# --- being stopped ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("moment", ["push", "gh", "files"])
def test_a_stop_in_the_middle_leaves_all_as_it_was(
    moment: str, number: signal.Signals, place: Place, tmp_path: Path
) -> None:
    reached = tmp_path / "reached"
    end = f"sleep 1\ntouch '{tmp_path}/ended'\n"
    wait = f"#!/bin/sh\ntouch '{reached}'\n{end}"
    if moment == "push":
        script = place.bare / "hooks" / "pre-receive"
        script.parent.mkdir(exist_ok=True)
    elif moment == "files":
        script = place.here / ".git" / "smudge"
        (place.here / ".git" / "armed").write_text("")
        wait = (
            f"#!/bin/sh\n[ -f .git/armed ] || exec cat\nrm .git/armed\ntouch '{reached}'\nsleep 3\n"
        )
        set_filter(place, ".git/smudge")
    else:
        script = place.bin / "gh"
        wait = f'#!/bin/sh\n[ "$2" = create ] || exec echo "[]"\ntouch \'{reached}\'\n{end}'
    script.write_text(wait)
    script.chmod(0o755)
    before, remote = everything(place.here), git(place.bare, "for-each-ref")
    process = subprocess.Popen(
        [sys.executable, "-m", "scaffold", "pr", *PUSH],
        cwd=place.here,
        env=place.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    deadline = time.monotonic() + 60
    while not reached.exists():
        assert time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)
    process.send_signal(number)
    output = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 128 + number, output
    assert everything(place.here) == before
    # The remote's own programs do not hear of a stop here, and go on.
    while moment == "push" and not (tmp_path / "ended").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    assert git(place.bare, "for-each-ref") == remote


def test_a_stop_while_refs_move_comes_too_late(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scaffold.vcs.pull_request import rewrite as placing

    moved = placing.move_refs

    def stopped(*argv: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        moved(*argv)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(placing, "move_refs", stopped)
    status, report = place.pr(*PUSH)
    assert status == 0, report["error"]
    assert git(place.here, "status", "--porcelain") == ""
    assert git(place.bare, "rev-parse", "12-add-two") == git(place.here, "rev-parse", "HEAD")
    assert report["pull_request"]["rewritten"]["new"] == git(place.here, "rev-parse", "HEAD")
