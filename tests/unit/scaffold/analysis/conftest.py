"""Small repositories written to a scratch folder, and their Python index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.index import PythonIndex

Sources = Mapping[str, str | bytes]


@pytest.fixture
def index_of(tmp_path: Path) -> Callable[[Sources], PythonIndex]:
    """Writes sources and returns the index of a repository that has just these."""

    def write(sources: Sources) -> PythonIndex:
        for path, text in sources.items():
            place = tmp_path / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text if isinstance(text, bytes) else text.encode())
        return PythonIndex(Files(tmp_path, list(sources), has_git=False))

    return write
