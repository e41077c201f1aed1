"""What the history of a small repository answers, and when it is not asked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scaffold.analysis.files import history as searched
from scaffold.analysis.files.files import list_files
from scaffold.analysis.files.history import History, defines
from scaffold.analysis.files.words import files_with


def git(root: Path, *argv: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.hooksPath=/dev/null"]
    who += ["-c", "protocol.file.allow=always"]
    done = subprocess.run(
        ["git", *who, *argv], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def commit(root: Path, message: str) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository that lost a file, renamed a folder and a file, and dropped a function."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    body = "".join(f"def step_{number}(rows):\n    return rows\n\n\n" for number in range(8))
    write(root, "pkg/loop.py", f"class OldLoop:\n    pass\n\n\n{body}")
    write(root, "pkg/lost.py", "LOST = 1\n")
    write(root, "pkg/steps/sort.py", body)
    write(root, "tests/test_loop.py", "def test_passing_by():\n    pass\n")
    commit(root, "first")
    (root / "pkg/lost.py").unlink()
    write(root, "pkg/loop.py", body)
    write(root, "tests/test_loop.py", "")
    commit(root, "second")
    git(root, "mv", "pkg/steps", "pkg/stages")
    git(root, "mv", "pkg/loop.py", "pkg/circle.py")
    commit(root, "third")
    return root


def history(root: Path, place: Path | None = None) -> History:
    return History(list_files(root), place)


def test_a_removed_path_has_its_commit(root: Path) -> None:
    found = history(root).removed_paths(["pkg/lost.py", "pkg/never.py"])
    assert list(found) == ["pkg/lost.py"]
    assert found["pkg/lost.py"].commit == git(root, "rev-parse", "HEAD~1")
    assert found["pkg/lost.py"].successor == ""
    assert "removed it from pkg/lost.py" in found["pkg/lost.py"].evidence


def test_a_renamed_file_and_a_renamed_folder_have_their_successors(root: Path) -> None:
    found = history(root).removed_paths(["pkg/loop.py", "pkg/steps", "pkg/steps/sort.py"])
    assert {path: each.successor for path, each in found.items()} == {
        "pkg/loop.py": "pkg/circle.py",
        "pkg/steps": "pkg/stages",
        "pkg/steps/sort.py": "pkg/stages/sort.py",
    }


def test_a_folder_whose_files_went_apart_has_no_successor(root: Path) -> None:
    body = "".join(f"def walk_{number}(rows):\n    return rows\n\n\n" for number in range(8))
    write(root, "pkg/stages/walk.py", body)
    commit(root, "fourth")
    git(root, "mv", "pkg/stages/sort.py", "pkg/sort.py")
    (root / "pkg/walks").mkdir()
    git(root, "mv", "pkg/stages/walk.py", "pkg/walks/walk.py")
    commit(root, "fifth")
    found = history(root).removed_paths(["pkg/stages", "pkg/stages/walk.py"])
    assert found["pkg/stages"].successor == ""
    assert found["pkg/stages/walk.py"].successor == "pkg/walks/walk.py"


def test_a_file_that_was_renamed_twice_is_followed(root: Path) -> None:
    git(root, "mv", "pkg/circle.py", "pkg/ring.py")
    commit(root, "fourth")
    assert history(root).removed_paths(["pkg/loop.py"])["pkg/loop.py"].successor == "pkg/ring.py"


def test_a_removed_definition_has_the_commit_that_removed_it(root: Path) -> None:
    found = history(root).removed_names(["OldLoop", "NeverThere"])
    assert list(found) == ["OldLoop"]
    assert found["OldLoop"].was == "pkg/loop.py"
    assert found["OldLoop"].commit == git(root, "rev-parse", "HEAD~1")


def test_a_file_is_known_by_its_name_and_a_module_without_its_ending(root: Path) -> None:
    found = history(root).removed_files(["lost.py", "lost", "never.py", ""])
    assert {name: each.was for name, each in found.items()} == {
        "lost.py": "pkg/lost.py",
        "lost": "pkg/lost.py",
    }


@pytest.mark.parametrize(
    ("row", "is_defined"),
    [
        ("class Name:", True),
        ("    async def Name(self):", True),
        ("func (s *Store) Name(x int) {", True),
        ("    self.Name = 3", True),
        ("    Name: int = 3", True),
        ("x = os.environ.get('Name', '')", True),
        ("    Name = local()", False),
        ("    call(Name=3)", False),
        ("        Name: value,", False),
        ("from x import Name", False),
    ],
)
def test_a_line_defines_a_name_or_only_uses_it(row: str, is_defined: bool) -> None:
    assert defines("Name", row) == is_defined


def test_answers_are_kept_by_head(root: Path, tmp_path: Path) -> None:
    place = tmp_path / "cache" / "history.json"
    first = history(root, place)
    first.removed_paths(["pkg/lost.py"])
    first.keep()
    kept = place.read_text()
    assert git(root, "rev-parse", "HEAD") in kept
    place.write_text(kept.replace("pkg/lost.py", "pkg/made-up.py"))
    assert history(root, place).removed_paths(["pkg/made-up.py"])
    write(root, "pkg/more.py", "")
    commit(root, "fourth")
    assert not history(root, place).removed_paths(["pkg/made-up.py"])


def test_a_shallow_clone_is_not_asked(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{root}", "shallow")
    asked = history(tmp_path / "shallow")
    assert asked.why_not == "the clone is shallow, so the history was not asked"
    assert asked.removed_paths(["pkg/lost.py"]) == {}
    assert asked.removed_names(["OldLoop"]) == {}


def test_a_partial_clone_is_not_asked(root: Path, tmp_path: Path) -> None:
    git(root, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", f"file://{root}", "partial")
    assert "partial" in history(tmp_path / "partial").why_not


def test_without_git_or_without_a_commit_it_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert "no git repository" in history(tmp_path / "plain").why_not
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    assert "has no commit" in history(tmp_path / "empty").why_not


def test_a_worktree_has_the_history_of_its_repository(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"))
    assert history(tmp_path / "tree").removed_paths(["pkg/lost.py"])


def test_a_submodule_has_a_history_of_its_own(root: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "--quiet")
    git(outer, "submodule", "add", "--quiet", str(root), "inner")
    commit(outer, "first")
    assert history(outer).removed_paths(["inner/pkg/lost.py"]) == {}


def test_the_search_ends_after_so_many_commits_and_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after so many seconds: what is found would depend on what else the machine does."""
    monkeypatch.setattr(searched, "MAX_COMMITS", 1)
    asked = history(root)
    assert asked.removed_paths(["pkg/lost.py", "pkg/loop.py"]).keys() == {"pkg/loop.py"}
    assert asked.notes == ["removed paths were looked for in the newest 1 commits"]


def test_words_are_looked_for_in_files_other_than_prose(root: Path) -> None:
    write(root, "notes.md", "OldLoop\n")
    write(root, "settings.toml", 'name = "OldLoop"\n')
    files = list_files(root)
    assert files_with(["OldLoop", "step_1"], files) == {
        "OldLoop": "settings.toml",
        "step_1": "pkg/circle.py",
    }
    assert "OldLoop" not in files_with(["OldLoop"], files, ["settings.toml"])


def test_what_the_next_commit_takes_away_is_removed(root: Path, tmp_path: Path) -> None:
    """A hook runs before that commit is made."""
    place = tmp_path / "kept.json"
    asked = ["pkg/circle.py", "pkg/stages", "pkg/never.py"]
    kept = history(root, place)
    assert kept.removed_paths(["pkg/never.py"]) == {}
    kept.keep()
    git(root, "rm", "-rq", "pkg/circle.py", "pkg/stages")
    found = history(root, place).removed_paths(asked)
    assert {path: each.was for path, each in found.items()} == {each: each for each in asked[:2]}
    assert all(
        each.is_last and each.commit == git(root, "rev-parse", "HEAD") for each in found.values()
    )
