from __future__ import annotations

from pathlib import Path

import datasets
import pytest


@pytest.fixture(autouse=True)
def own_parquet_cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Keeps what datasets converts from Parquet out of the home folder."""
    folder = tmp_path_factory.mktemp("datasets-cache")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder)
    return folder
