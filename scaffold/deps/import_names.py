"""Under which names a distribution is imported."""

from __future__ import annotations

import csv
import re
import tomllib
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.project import normal_name
from scaffold.analysis.project.tool_table import project_text, read_tool_table, settings_errors
from scaffold.config import FieldError
from scaffold.errors import RequestError, TargetError

_TABLE = Path(__file__).with_name("import_names.toml")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_ENVIRONMENTS = (".venv", "venv", "env")
# Folders that distributions install beside their packages by mistake.
_SCENERY = frozenset({"tests", "test", "docs", "examples", "example", "benchmarks", "scripts"})

OWN_NAME = "its own name"
"""The source of names that are guessed: the distribution's own, as nothing else is known."""


@dataclass(frozen=True)
class Names:
    """The names under which a distribution is imported.

    Args:
        imports: The names under which it is imported, dotted.
        source: Where these were told from.
    """

    distribution: str
    imports: tuple[str, ...]
    source: str


def distribution_name(text: str) -> str:
    """Return the name of a distribution as indexes compare it.

    Raises:
        RequestError: It is no name of one.
    """
    if not _NAME.fullmatch(text):
        raise RequestError(
            f"{text!r} is not the name of a distribution",
            code="requirement_invalid",
            hint="give its name in the package index, such as pyyaml",
        )
    return normal_name(text)


def names_of(files: Files, package: str) -> Names:
    """Return the names of a distribution in a tree: configured, installed, listed, or its own.

    Raises:
        RequestError: It is no name of a distribution.
        TargetError: The tree's table of import names cannot be read.
    """
    name = distribution_name(package)
    configured = _configured(files).get(name)
    if configured:
        return Names(name, configured, "[tool.scaffold.deps.imports]")
    installed = _installed(files.root, name)
    if installed is not None:
        return installed
    known: dict[str, list[str]] = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    if listed := known.get(name):
        return Names(name, tuple(listed), "the list of known distributions")
    return Names(name, (name.replace("-", "_"),), OWN_NAME)


def read_names(name: str, root: Path) -> Names:
    """Return the names of a distribution from its unpacked archive, installed or not."""
    info = sorted(root.glob("*.dist-info")) or sorted(root.glob("**/*.egg-info"))[:1]
    if not info:
        return Names(name, _packages(root), "its folders")
    return _from_info(name, info[0], root)


def _configured(files: Files) -> dict[str, tuple[str, ...]]:
    with settings_errors('write DISTRIBUTION = ["package"]', TargetError):
        table = read_tool_table(project_text(files), "deps", TargetError).fields("imports")
        found: dict[str, tuple[str, ...]] = {}
        for key in table.names():
            rows = (table.text(key),) if isinstance(table.value(key), str) else table.texts(key)
            if not rows or not all(_is_dotted(each) for each in rows):
                raise FieldError(f"{table.where}: {key} must list import names")
            found[normal_name(key)] = rows
        return found


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _installed(root: Path, name: str) -> Names | None:
    """Read the metadata of a distribution in the tree's own environment; nothing is imported."""
    for each in _ENVIRONMENTS:
        folders = [*root.glob(f"{each}/lib/python3*/site-packages")]
        folders += [*root.glob(f"{each}/Lib/site-packages")]
        for folder in folders:
            for info in folder.glob("*.dist-info"):
                # Folder names are spelt as the build tool likes: case, dots and underscores vary.
                if normal_name(info.name.removesuffix(".dist-info").rpartition("-")[0]) == name:
                    return _from_info(name, info, folder)
    return None


def _from_info(name: str, info: Path, root: Path) -> Names:
    distribution = PathDistribution(info)
    tops = (distribution.read_text("top_level.txt") or "").split()
    # RECORD is authoritative; top_level.txt is a relic of setuptools that other builds leave out.
    recorded = _recorded(distribution) or [each for each in tops if each.isidentifier()]
    imports = [each for each in recorded if each not in _SCENERY] or list(_packages(root))
    public = [each for each in imports if not each.startswith("_")] or imports
    return Names(name, tuple(public), info.name)


def _recorded(distribution: Distribution) -> list[str]:
    """Return the packages and modules that a RECORD lists; a namespace with what is below it."""
    rows = csv.reader((distribution.read_text("RECORD") or "").splitlines())
    sources = [row[0] for row in rows if row and row[0].endswith((".py", ".pyi", ".so", ".pyd"))]
    packages = {row.rpartition("/")[0] for row in sources if "/__init__." in row}
    found: set[str] = set()
    for row in sources:
        folder, _, file = row.rpartition("/")
        # The outermost folder with an `__init__`; a namespace package counts with all its folders.
        starts = (folder[: each.start()] for each in re.finditer("/|$", folder))
        outer = next((each for each in starts if each in packages), folder)
        found.add(outer.replace("/", ".") or file.partition(".")[0])
    return sorted(each for each in found if _is_dotted(each))


def _packages(root: Path) -> tuple[str, ...]:
    """Return the packages of an unpacked source archive, without tests and examples."""
    found: set[str] = set()
    for base in (root, root / "src", root / "lib"):
        for place in base.glob("*/__init__.py") if base.is_dir() else ():
            found.add(place.parent.name)
    if not found:
        found = {each.stem for each in root.glob("*.py")} - {"setup", "conftest", "noxfile"}
    return tuple(sorted(found - _SCENERY))
