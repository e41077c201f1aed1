"""A release that is fetched from an index, and one that is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from scaffold.deps import download
from scaffold.errors import ScaffoldError
from tests.deps_places import make_sdist, use_index


def test_an_archive_above_the_limit_is_called_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_index(monkeypatch, tmp_path / "index", tmp_path / "cache")
    size = make_sdist(tmp_path / "index", "toolbox", "3.0", {"x.py": ""}).stat().st_size
    monkeypatch.setattr(download, "MAX_ARCHIVE_BYTES", size)
    assert (download.fetch_release("toolbox", Version("3.0")) / "x.py").is_file()

    make_sdist(tmp_path / "index", "toolbox", "4.0", {"x.py": ""})
    monkeypatch.setattr(download, "MAX_ARCHIVE_BYTES", 100)
    with pytest.raises(ScaffoldError, match="larger than") as refusal:
        download.fetch_release("toolbox", Version("4.0"))
    assert refusal.value.code == "release_unreadable"
