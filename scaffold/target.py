"""Which repository is this, and where do things go in it? Found out from files alone."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from scaffold.fields import FieldError, Fields
from scaffold.names import pascal
from scaffold.spec import Kind, TargetError, fill

CONFIG_SCHEMA = 1
"""The newest format of [tool.scaffold] that this version reads."""


@dataclass(frozen=True)
class Registry:
    """Is a literal table in a file of the target; ``file`` is relative to the root."""

    file: str
    table: str


@dataclass(frozen=True)
class Target:
    """Is a repository that units can be added to.

    Args:
        root: Its folder; nothing outside is ever written.
        layout: How it was recognised: "areal" or "project".
        package: The top-level package that units go into.
        tests: The folder of the tests, relative to the root.
        registries: Kind to the table that names its units.
        python: The interpreter that the target asks for, if any.
    """

    root: Path
    layout: str
    package: str
    tests: str
    registries: Mapping[str, Registry]
    python: str | None = None

    def registry(self, kind: str) -> Registry:
        """Returns the table that names the units of a kind.

        Raises:
            TargetError: The target has none.
        """
        if kind in self.registries:
            return self.registries[kind]
        raise TargetError(
            f"{self.root} has no registry for the kind {kind!r}",
            code="target_invalid",
            hint="add to its pyproject.toml, under [tool.scaffold.registries]:\n"
            f'    {kind} = "{self.package}/{kind}/__init__.py:{kind.upper()}S"',
        )


AREAL_REGISTRIES = {
    "dataset": Registry("areal/dataset/__init__.py", "DATASETS"),
    "reward": Registry("areal/reward/__init__.py", "REWARDS"),
    "workflow": Registry("areal/workflow/__init__.py", "WORKFLOWS"),
}
"""The tables of this repository's training package."""


def find_target(start: Path, *, exact: bool = False) -> Target:
    """Returns the nearest target at a folder or above it, not beyond the git root.

    Args:
        start: Where to begin.
        exact: Look at this folder only, as ``--target`` asks.

    Raises:
        TargetError: There is none, or its configuration is wrong.
    """
    start = start.resolve()
    if not start.is_dir():
        raise TargetError(
            f"{start} is no folder", code="target_missing", hint="give --target an existing folder"
        )
    looked: list[Path] = []
    for folder in (start, *start.parents):
        looked.append(folder)
        target = target_at(folder)
        if target is not None:
            return target
        if exact or (folder / ".git").exists():
            break
    raise _no_target(start, looked)


def target_at(folder: Path) -> Target | None:
    """Returns the target that a folder is the root of, or None.

    Raises:
        TargetError: The folder has a [tool.scaffold] table that is wrong.
    """
    table = _tool_table(folder)
    if table is not None:
        return _configured(folder, table)
    return (
        Target(folder, "areal", "areal", "tests/unit", AREAL_REGISTRIES)
        if _is_areal(folder)
        else None
    )


def unit_names(target: Target, kind: Kind, key: str, style: str = "") -> dict[str, str]:
    """Returns every variable that a kind's manifest and its templates may use for one unit.

    Args:
        target: Where the unit goes.
        kind: The kind's manifest.
        key: The canonical name.
        style: The one chosen style; empty for kinds that allow several.
    """
    registry = target.registry(kind.name)
    folder = str(PurePosixPath(registry.file).parent)
    registry_module = _module_of(target, folder)
    names = key_names(key) | {
        "kind": kind.name,
        "style": style,
        "package": target.package,
        "tests": target.tests,
        "folder": folder,
        "registry": registry.file,
        "registry_module": registry_module,
        "table": registry.table,
        "module": f"{registry_module}.{key}",
    }
    return with_kind_names(kind, names)


def key_names(key: str) -> dict[str, str]:
    """Returns the spellings of a key: math_debate, math-debate, MathDebate, "Math debate"."""
    words = key.replace("_", " ")
    return {
        "key": key,
        "dashed": key.replace("_", "-"),
        "pascal": pascal(key),
        "words": words,
        "title": words.capitalize(),
    }


def with_kind_names(kind: Kind, names: dict[str, str]) -> dict[str, str]:
    """Returns the names, extended by those that the kind's [names] and [place] derive from them."""
    for table in (kind.names, kind.place):
        for name, pattern in table.items():
            names[name] = fill(pattern, names)
    return names


def _tool_table(folder: Path) -> Fields | None:
    path = folder / "pyproject.toml"
    if not path.is_file():
        return None
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        if "[tool.scaffold]" not in _text_or_empty(path):
            return None
        raise TargetError(
            f"{path} cannot be read: {error}", code="target_invalid", hint="repair it first"
        ) from error
    tool: Any = data.get("tool", {})
    table: Any = cast("dict[str, Any]", tool).get("scaffold") if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        return None
    return Fields(cast("dict[str, Any]", table), f"{path} [tool.scaffold]")


def _text_or_empty(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _configured(root: Path, table: Fields) -> Target:
    try:
        schema = table.integer("schema")
        if schema > CONFIG_SCHEMA:
            raise TargetError(
                f"{table.where} has schema {schema}; this version reads up to {CONFIG_SCHEMA}",
                code="target_newer",
                hint="pip install --upgrade areal-scaffold",
            )
        package = table.text("package")
        tests = table.text("tests", "tests")
        python = table.text("python", "")
        rows = table.text_map("registries")
        table.done()
        registries = {kind: _registry(table.where, kind, row) for kind, row in rows.items()}
        _check_inside(table.where, "tests", tests)
    except FieldError as error:
        raise TargetError(
            str(error), code="target_invalid", hint="see the table that `scaffold new` writes"
        ) from error
    if not package.isidentifier():
        raise TargetError(
            f"{table.where}: package {package!r} is no importable name", code="target_invalid"
        )
    return Target(root, "project", package, tests, registries, python or None)


def _registry(where: str, kind: str, row: str) -> Registry:
    file, _, name = row.partition(":")
    if not name.isidentifier() or not file.endswith(".py"):
        raise FieldError(f'{where}: registry {kind} = "{row}" must read "folder/file.py:TABLE"')
    _check_inside(where, f"registry {kind}", file)
    return Registry(file, name)


def _check_inside(where: str, what: str, path: str) -> None:
    parts = PurePosixPath(path).parts
    if "\\" in path or not parts or path.startswith("/") or ".." in parts or ":" in path:
        raise FieldError(f"{where}: {what} = {path!r} must be a relative path inside the target")


def _module_of(target: Target, folder: str) -> str:
    parts = PurePosixPath(folder).parts
    if target.package not in parts:
        raise TargetError(
            f"the registry folder {folder} is not inside the package {target.package!r}",
            code="target_invalid",
            hint="make package and registries in [tool.scaffold] agree",
        )
    return ".".join(parts[parts.index(target.package) :])


def _is_areal(folder: Path) -> bool:
    if not (folder / "areal" / "api" / "registry.py").is_file():
        return False
    tables = AREAL_REGISTRIES.values()
    return any(
        re.search(rf"^{row.table}\b", _text_or_empty(folder / row.file), re.MULTILINE)
        for row in tables
    )


def _no_target(start: Path, looked: list[Path]) -> TargetError:
    below = sorted(
        path.parent.name
        for path in start.glob("*/pyproject.toml")
        if re.search(r"^\[tool\.scaffold\]", _text_or_empty(path), re.MULTILINE)
    )
    if below:
        choices = " or ".join(f"--target {name}" for name in below)
        hint = f"did you mean {choices}?"
    else:
        hint = (
            "go into a project made by `scaffold new NAME`, or teach it this repository by adding "
            "to its pyproject.toml:\n"
            "    [tool.scaffold]\n"
            f"    schema = {CONFIG_SCHEMA}\n"
            '    package = "your_package"\n'
            '    tests = "tests"\n'
            "    [tool.scaffold.registries]\n"
            '    reward = "your_package/reward/__init__.py:REWARDS"\n'
            "where REWARDS is a dictionary literal: REWARDS: dict[str, str] = {}"
        )
    where = f"{looked[0]}" if len(looked) == 1 else f"{looked[0]} and above it up to {looked[-1]}"
    return TargetError(
        f"nothing that scaffold can extend was found in {where}", code="target_missing", hint=hint
    )
