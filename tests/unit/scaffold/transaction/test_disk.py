"""The steps of a run: what is in the way is never overwritten or followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.transaction.disk import DISK


def test_a_new_file_takes_the_place_of_nothing(tmp_path: Path):
    (tmp_path / "there").write_bytes(b"mine\n")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("there", "link", "dangling"):
        with pytest.raises(FileExistsError):
            DISK.create(tmp_path / name, b"new\n")
    assert (tmp_path / "there").read_bytes() == b"mine\n"
    assert not (tmp_path / "nowhere").exists()


def test_a_new_file_holds_all_of_its_bytes(tmp_path: Path):
    data = bytes(range(256)) * 5000
    DISK.create(tmp_path / "new", data)
    DISK.sync(tmp_path / "new")
    DISK.sync(tmp_path)
    assert (tmp_path / "new").read_bytes() == data
