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


def test_a_pip_that_waits_for_the_index_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 60\n")
    python.chmod(0o755)
    monkeypatch.setattr(download, "LIMIT_S", 0.2)
    with pytest.raises(ScaffoldError, match=r"within 0\.2 s") as refusal:
        download.run_pip(str(python), ["download", "toolbox"], tmp_path)
    assert refusal.value.code == "index_unreachable"
    monkeypatch.undo()
    with pytest.raises(ScaffoldError) as refusal:
        download.run_pip(str(tmp_path / "none"), ["download", "toolbox"], tmp_path)
    assert refusal.value.code == "interpreter_lacks"
