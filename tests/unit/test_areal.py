"""The top level of the package."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import areal

ROOT = Path(areal.__file__).parent.parent


def run(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *path]))}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd="/"
    )


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "areal" / "pyproject.toml").read_text(encoding="utf-8"))
    assert areal.__version__ == project["project"]["version"]


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'areal' has no attribute 'Trainer'"):
        _ = areal.Trainer  # type: ignore[attr-defined]
    assert dir(areal) == sorted(areal.__all__)


@pytest.mark.parametrize("name", sorted(areal.__all__))
def test_every_name_of_the_top_level_can_be_had(name: str) -> None:
    assert getattr(areal, name) is not None


@pytest.mark.parametrize(
    "folder", ["areal-2.0.0.dist-info", "areal.egg-info", "AReaL-1.0.egg-info", "areal.egg-link"]
)
def test_an_installed_areal_is_not_shadowed(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    ran = run("import areal.api", tmp_path)
    assert ran.returncode == 1
    assert "ImportError: AReaL is installed in this environment" in ran.stderr
    assert "Uninstall one of them" in ran.stderr
    assert str(tmp_path / folder) in ran.stderr


@pytest.mark.parametrize("folder", ["areal_lite-0.1.0.dist-info", "arealx-1.dist-info", "areal"])
def test_others_do_not_matter(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    ran = run("import areal.api", tmp_path, tmp_path / "not_there")
    assert ran.returncode == 0, ran.stderr


def test_the_platform_of_this_process() -> None:
    import torch

    platform = areal.current_platform
    assert platform.device_type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert platform.device_count() >= 1
    platform.synchronize()
    platform.clear_memory()
    platform.set_device(0)
    assert platform.current_device() in (0, "cpu")
