"""Where a command stands, also where its folder is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scaffold.cli.working_folder import start_folder, working_folder
from scaffold.errors import TargetError


def test_a_named_folder_is_taken_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    assert start_folder("inner") == tmp_path.resolve() / "inner"
    assert start_folder(None) == tmp_path.resolve()


def test_a_file_is_no_folder(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match="is not a folder"):
        start_folder(str(tmp_path / "file"))


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps a folder that somebody stands in")
def test_a_deleted_working_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(TargetError, match="working folder was deleted"):
        working_folder()
