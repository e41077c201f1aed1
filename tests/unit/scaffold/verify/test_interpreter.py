from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from scaffold.errors import TargetError
from scaffold.target.target import Target
from scaffold.verify.interpreter import find_interpreter

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes shell scripts")


def fake(path: Path, version: str = "[3, 12, 1]", packages: str = '["areal"]') -> str:
    """Writes a program that answers the probe as an interpreter of some version would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho noise\necho '[{version}, {packages}]'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def target(root: Path, python: str | None = None) -> Target:
    root.mkdir(exist_ok=True)
    return Target(root, "project", "pkg", "tests", {}, python)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)


def test_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the first choice again and again, until nothing but this process's is left."""
    root = tmp_path / "root"
    target(root)
    asked = fake(tmp_path / "asked")
    configured = fake(root / "configured")
    own = fake(root / ".venv/bin/python")
    uv = fake(tmp_path / "bin/uv")
    active = fake(tmp_path / "active/bin/python")
    (root / "uv.lock").touch()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))

    assert find_interpreter(target(root, "configured"), asked).argv == (asked,)
    found = find_interpreter(target(root, "configured"), None)
    assert (found.argv, found.why) == ((configured,), "[tool.scaffold].python")
    assert find_interpreter(target(root), None).argv == (own,)
    Path(own).unlink()
    assert find_interpreter(target(root), None).argv[:2] == (uv, "run")
    (root / "uv.lock").unlink()
    assert find_interpreter(target(root), None).argv == (active,)
    monkeypatch.delenv("VIRTUAL_ENV")
    assert find_interpreter(target(root), None).argv[0] in (sys.executable, *_on_path())


def _on_path() -> list[str]:
    folders = os.environ["PATH"].split(os.pathsep)
    return [str(Path(folder) / name) for folder in folders for name in ("python3", "python")]


def test_version_and_packages_are_found_out(tmp_path: Path) -> None:
    found = find_interpreter(target(tmp_path), sys.executable)
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert "pytest" in found.packages
    assert found.describe().endswith(f"({found.version}; --python)")


def test_an_environments_folder_will_do(tmp_path: Path) -> None:
    python = fake(tmp_path / "venv/bin/python")
    assert find_interpreter(target(tmp_path), str(tmp_path / "venv")).argv == (python,)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("[3, 9, 7]", "is Python 3.9.7; 3.10 is the oldest"),
        ("oops", "cannot be run: JSONDecodeErr"),
    ],
)
def test_an_unfit_interpreter_is_refused(tmp_path: Path, version: str, message: str) -> None:
    with pytest.raises(TargetError, match="python") as caught:
        find_interpreter(target(tmp_path), fake(tmp_path / "python", version))
    assert message in caught.value.message
    assert "--python EXE" in caught.value.hint


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"nothing_here \(--python\) cannot be run") as caught:
        find_interpreter(target(tmp_path), "nothing_here")
    assert caught.value.exit_status == 1
