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


@pytest.fixture(scope="session")
def new_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a project as `scaffold new` does, for copies of it."""
    folder = tmp_path_factory.mktemp("new")
    new_project(load_kind("project"), "my_rl", [], {"areal_source": ""}, Options(folder))
    return folder / "my_rl"


@pytest.fixture
def project(tmp_path: Path, new_one: Path) -> Path:
    """Copies a new project, and returns its folder."""
    return shutil.copytree(new_one, tmp_path / "my_rl")


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
