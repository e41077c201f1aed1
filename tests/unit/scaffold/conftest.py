"""Targets to scaffold in, made fresh for each test."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaffold.templating.manifests import load_kind
from scaffold.units.context import Options
from scaffold.units.project import new_project

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Makes a project as `scaffold new` does, and returns its folder."""
    options = Options(tmp_path)
    new_project(load_kind("project"), "my_rl", [], {"areal_source": ""}, options)
    return tmp_path / "my_rl"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copies what makes this repository a target: its registries and one file beside them."""
    root = tmp_path / "checkout"
    for kind in ("dataset", "reward", "workflow"):
        (root / "areal" / kind).mkdir(parents=True)
        shutil.copy(ROOT / "areal" / kind / "__init__.py", root / "areal" / kind / "__init__.py")
    (root / "areal" / "api").mkdir()
    shutil.copy(ROOT / "areal" / "api" / "registry.py", root / "areal" / "api" / "registry.py")
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return root


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Runs tiny models on one thread; where torch is not loaded, there are none."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
