"""The repositories that commands are measured in: empty, with many units, with many files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.cli.scenes import Stage
from scaffold.units.add import add_unit
from scaffold.units.context import Options

SAMPLE = "probe000"
"""A unit that every project has; as long as the names of the rounds, so that no line wraps."""

_FILES_PER_FOLDER = 1000


def make_project(stage: Stage, scaffold: list[str], place: Path) -> Path:
    """Make a project of one's own with one unit, in git where there is git."""
    place.mkdir(parents=True)
    stage.run([*scaffold, "new", "my_rl"], place)
    root = place / "my_rl"
    if shutil.which("git"):
        _init_git(root)
    stage.run([*scaffold, "add-reward", SAMPLE, "--no-format"], root)
    return root


def copy_project(root: Path, place: Path) -> Path:
    """Copy a project into a new folder."""
    return Path(shutil.copytree(root, place / root.name))


def add_units(root: Path, count: int) -> None:
    """Add so many units, each as the command would, without starting a process for each."""
    from scaffold.templating.manifests import catalogue_for

    kind = catalogue_for(root).kind("reward")
    options = Options(root, with_format=False)
    for i in range(count):
        add_unit(kind, f"many_{i:04}", ("exact",), {}, options)


def fill_registry(root: Path, count: int) -> None:
    """Put so many entries into the table of rewards."""
    registry = root / root.name / "reward" / "__init__.py"
    text = registry.read_text()
    line = next(row for row in text.splitlines(keepends=True) if f'"{SAMPLE}"' in row)
    rows = [line.replace(SAMPLE, f"entry{i:05}") for i in range(count)]
    registry.write_text(text.replace(line, "".join(rows) + line))


def surround(root: Path, count: int) -> None:
    """Put so many files beside a project, and makes the folder around both the repository."""
    around = root.parent
    shutil.rmtree(root / ".git", ignore_errors=True)
    for i in range(count):
        folder = around / "others" / f"folder{i // _FILES_PER_FOLDER:04}"
        if not i % _FILES_PER_FOLDER:
            folder.mkdir(parents=True)
        (folder / f"file{i:06}.py").touch()
    if shutil.which("git"):
        _init_git(around)


def _init_git(folder: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True, capture_output=True)
