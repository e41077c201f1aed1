"""Repositories are opened without running what they name, and odd ones are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.errors import ScaffoldError
from scaffold.vcs.repository import commit_at, open_repository
from tests.integration.scaffold.git_places import commit, git, make_repository


def refusal(folder: Path) -> ScaffoldError:
    """Returns the error of opening a folder."""
    with pytest.raises(ScaffoldError) as caught:
        open_repository(folder)
    return caught.value


def test_a_folder_below_the_top_will_do(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "r")
    commit(folder, "feat: x", {"a/b/c.txt": "x"})
    repository = open_repository(folder / "a" / "b")
    assert repository.root == folder
    assert (repository.head is None, repository.is_shallow) == (False, False)
    assert commit_at(repository, "HEAD") == git(folder, "rev-parse", "HEAD")
    repository.close()


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    assert refusal(tmp_path / "missing").code == "target_missing"
    assert refusal(tmp_path).code == "repository_missing"
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    bare = refusal(tmp_path / "bare.git")
    assert (bare.code, "bare repository" in bare.message) == ("repository_missing", True)
    git(tmp_path, "init", "-q", "--object-format=sha256", "long")
    assert "sha256" in refusal(tmp_path / "long").message


def test_a_broken_repository_is_told_in_gits_own_words(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "r")
    (folder / ".git" / "config").write_text("[core\nbroken")
    error = refusal(folder)
    assert error.code == "repository_missing"
    assert "config" in error.message


def test_revisions_that_are_none(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "r")
    opened = open_repository(folder)
    assert opened.head is None
    opened.close()
    commit(folder, "feat: x", {"x": "1"})
    commit(folder, "feat: y", {"x": "2"})
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{folder}", "shallow")
    shallow = open_repository(tmp_path / "shallow")
    assert shallow.is_shallow
    with pytest.raises(ScaffoldError, match="there is no commit 'HEAD~1'") as caught:
        commit_at(shallow, "HEAD~1")
    assert (caught.value.code, "unshallow" in caught.value.hint) == ("revision_unknown", True)
    shallow.close()


def test_a_work_tree_of_its_own_and_a_submodule(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "r")
    commit(folder, "feat: x", {"x": "1"})
    git(folder, "worktree", "add", "-q", "../tree")
    git(folder, "submodule", "-q", "add", f"file://{folder}", "sub", GIT_ALLOW_PROTOCOL="file")
    for place in (tmp_path / "tree", folder / "sub"):
        repository = open_repository(place)
        assert repository.root == place
        assert repository.head is not None
        repository.close()
