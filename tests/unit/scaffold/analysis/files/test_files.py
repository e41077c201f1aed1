"""What counts as a file of a repository, and which of them are read."""

import os
import subprocess
from pathlib import Path

import pytest

from scaffold.analysis.files.files import Files, list_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A git repository with a package, beside a folder that is none of its business."""
    inside = tmp_path / "here"
    for path in ("pkg/one.py", "pkg/two.py", "pkg-more/three.py", "R x.py"):
        (inside / path).parent.mkdir(parents=True, exist_ok=True)
        (inside / path).write_text(f"# {path}\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.py").write_text("KEY = 1\n")
    subprocess.run(["git", "init", "--quiet"], cwd=inside, check=True)
    subprocess.run(["git", "add", "--all"], cwd=inside, check=True)
    return inside


def test_lists_tracked_and_new_files_but_none_that_are_gone(root: Path):
    (root / "pkg/two.py").unlink()
    (root / "new.py").write_text("")
    (root / ".gitignore").write_text("out/\n")
    (root / "out").mkdir()
    (root / "out/made.py").write_text("")
    expected = {"pkg/one.py", "pkg-more/three.py", "R x.py", "new.py", ".gitignore"}
    assert list_files(root).paths == expected


def test_reads_through_links_that_stay_inside(root: Path):
    (root / "file.py").symlink_to("pkg/one.py")
    (root / "linked").symlink_to("pkg")
    files = Files(root, ["file.py", "linked/one.py"], has_git=False)
    assert files.data("file.py") == files.data("linked/one.py") == b"# pkg/one.py\n"


@pytest.mark.parametrize(
    "path", ["file.py", "linked/secret.py", "linked/../elsewhere/secret.py", "pkg/deep/secret.py"]
)
def test_reads_nothing_that_a_link_leads_to_outside(root: Path, path: str):
    (root / "file.py").symlink_to("../elsewhere/secret.py")
    (root / "linked").symlink_to("../elsewhere")
    (root / "pkg/deep").symlink_to("../linked")
    assert os.path.exists(root / path)
    assert Files(root, [path], has_git=False).data(path) is None


def test_reads_nothing_by_an_absolute_path(root: Path, tmp_path: Path):
    outside = str(tmp_path / "elsewhere/secret.py")
    files = Files(root, [], has_git=False)
    assert files.data(outside) is None
    assert files.data(str(tmp_path / "elsewhere")) is None
    assert files.data("../elsewhere/secret.py") is None


def test_below_takes_no_folder_whose_name_only_begins_alike(root: Path):
    files = list_files(root)
    assert files.below("pkg") == ["pkg/one.py", "pkg/two.py"]
    assert files.below("pk") == files.below("") == []
