"""Do the built distributions work like the checkout? Built offline, unpacked and run without it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE_PACKAGES = sysconfig.get_path("purelib")
# These stand in the package's folder, which is a project's too, and go into the metadata.
PROJECT_FILES = {f"areal/{name}" for name in ("pyproject.toml", "README.md", "LICENSE")}


def build(project: Path, out: Path) -> Path:
    """Builds the sdist and, from it, the wheel; returns the wheel."""
    argv = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(project)]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = out.glob("*.whl")
    assert len(list(out.glob("*.tar.gz"))) == 1
    return wheel


@pytest.fixture(scope="module")
def toolkit_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("toolkit"))


@pytest.fixture(scope="module")
def training_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "areal", tmp_path_factory.mktemp("training"))


def names_in(wheel: Path) -> set[str]:
    """Returns the files of a wheel without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def files_below(folder: Path, prefix: str) -> set[str]:
    """Returns what a wheel has to hold of a folder of the checkout, as the wheel names it."""
    return {
        f"{prefix}/{path.relative_to(folder).as_posix()}"
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def run_unpacked(
    wheel: Path, folder: Path, code: str, *argv: str
) -> subprocess.CompletedProcess[str]:
    """Runs code on an unpacked wheel, without .pth files, so that the checkout is not found."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    paths = [str(folder / "unpacked"), SITE_PACKAGES]
    script = f"import sys; sys.path += {paths!r}; sys.argv = ['scaffold', *sys.argv[1:]]\n{code}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, *argv],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_toolkit_wheel_holds_the_toolkit_its_templates_and_skills(toolkit_wheel: Path):
    expected = files_below(ROOT / "scaffold", "scaffold")
    expected |= files_below(ROOT / "templates", "scaffold/_data/templates")
    for pack in ("skills", "agents"):
        expected |= files_below(ROOT / ".agents" / pack, f"scaffold/_data/{pack}")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    brought = [each for each in settings["targets"]["wheel"]["include"] if each[:7] == "/areal/"]
    assert set(brought) <= set(settings["targets"]["sdist"]["include"])
    for place in (place for each in brought for place in ROOT.glob(each[1:])):
        name = f"scaffold/_data/{place.relative_to(ROOT).as_posix()}"
        expected |= files_below(place, name) if place.is_dir() else {name}
    assert names_in(toolkit_wheel) == expected
    for path in ("skills/add-reward/SKILL.md", "agents/planner.md"):
        assert f"scaffold/_data/{path}" in expected


def test_the_training_wheel_holds_the_package_and_nothing_else(training_wheel: Path):
    assert names_in(training_wheel) == files_below(ROOT / "areal", "areal") - PROJECT_FILES


def test_the_unpacked_toolkit_runs_and_finds_its_templates(toolkit_wheel: Path, tmp_path: Path):
    code = "import scaffold.cli.main; print(scaffold.__file__); scaffold.cli.main.main()"
    result = run_unpacked(toolkit_wheel, tmp_path, code, "--help")
    assert result.returncode == 0, result.stderr
    assert str(tmp_path / "unpacked") in result.stdout
    assert "add-reward" in result.stdout


def test_the_unpacked_toolkit_makes_a_project(toolkit_wheel: Path, tmp_path: Path):
    result = run_unpacked(
        toolkit_wheel, tmp_path, "from scaffold.cli.main import main; main()", "new", "my_rl"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "my_rl" / "pyproject.toml").is_file()


def test_the_unpacked_training_package_imports(training_wheel: Path, tmp_path: Path):
    code = (
        "import areal.api, areal.reward, areal.dataset\n"
        "from areal.trainer.report import page\n"
        "page.load_template('report.html.jinja'); page.load_template('eval.html.jinja')\n"
        "print(areal.api.__file__)"
    )
    result = run_unpacked(training_wheel, tmp_path, code)
    assert result.returncode == 0, result.stderr
    assert str(tmp_path / "unpacked") in result.stdout


def fresh_environment(folder: Path, *requirements: str) -> Path:
    """Makes an environment that holds only what is asked for; returns its folder of commands."""
    venv.create(folder, with_pip=True)
    commands = folder / ("Scripts" if sys.platform == "win32" else "bin")
    argv = [str(commands / "python"), "-m", "pip", "install", "--quiet", *requirements]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return commands


@pytest.mark.network
def test_the_toolkit_installs_alone(toolkit_wheel: Path, tmp_path: Path):
    commands = fresh_environment(tmp_path / "env", str(toolkit_wheel))
    for command in ("scaffold", "areal-scaffold"):
        argv = [str(commands / command), "--help"]
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        assert "add-reward" in result.stdout
    argv = [str(commands / "python"), "-c", "import torch"]
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 1


@pytest.mark.network
@pytest.mark.slow
def test_the_training_package_installs_with_all_that_it_needs(training_wheel: Path, tmp_path: Path):
    constraints = ["-c", str(ROOT / "constraints.txt")]
    commands = fresh_environment(tmp_path / "env", *constraints, str(training_wheel))
    argv = [str(commands / "areal"), "train", "--help"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    argv = [str(commands / "python"), "-c", "import areal.api, areal.trainer, areal.workflow"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
