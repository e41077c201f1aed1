"""Which dependencies a change adds, drops or asks for otherwise, read from manifests as text."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from scaffold.analysis.project.project import is_requirements, logical_lines, normal_name

# `torch[cuda] >= 2.4 ; python_version > "3.9"`: the name, and what is asked of it; then a line of
# go.mod, `require example.com/x v1.2.3`.
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*([^;#]*)")
_GO = re.compile(r"^\s*(?:require\s+)?([\w.-]+\.[\w./-]+)\s+(v\S+)", re.MULTILINE)
_SECTIONS = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
_CARGO = ("dependencies", "dev-dependencies", "build-dependencies")


class DependencyChange(NamedTuple):
    """The change of one dependency in one manifest."""

    path: str
    name: str
    what: Literal["added", "removed", "changed"]
    old: str
    new: str


def dependency_changes(
    path: str, old_text: str | None, new_text: str | None
) -> Iterator[DependencyChange]:
    """Yield what happened to the dependencies that a manifest names, by name.

    Args:
        path: The manifest; any other file yields nothing.
        old_text: What it held; None where it is new.
        new_text: What it holds; None where it is gone.
    """
    reader = _reader(path)
    if reader is None:
        return
    old, new = (_read(reader, text) for text in (old_text, new_text))
    if old is None or new is None:
        return
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before is None:
            yield DependencyChange(path, name, "added", "", after or "")
        elif after is None:
            yield DependencyChange(path, name, "removed", before, "")
        elif before != after:
            yield DependencyChange(path, name, "changed", before, after)


_Reader = Callable[[str], Iterator[tuple[str, str]]]


def _reader(path: str) -> _Reader | None:
    known: dict[str, _Reader] = {
        "pyproject.toml": _pyproject,
        "setup.cfg": _setup_cfg,
        "package.json": lambda text: _sections([json.loads(text or "{}")], _SECTIONS),
        "Cargo.toml": _cargo,
        "go.mod": lambda text: ((match[1], match[2]) for match in _GO.finditer(text)),
    }
    return _requirements if is_requirements(path) else known.get(path.rpartition("/")[2])


def _read(reader: _Reader, text: str | None) -> dict[str, str] | None:
    """Return the dependencies of a text; None where it is broken."""
    found: dict[str, set[str]] = {}
    try:
        for name, asked in reader(text or ""):
            found.setdefault(name, set()).add(asked)
    except (ValueError, RecursionError, configparser.Error, AttributeError, TypeError):
        # A file that is new or gone has no text, and no dependencies.
        return None if text else {}
    # A name may be asked for in several groups, each with a version of its own.
    return {name: " | ".join(sorted(asked)) for name, asked in found.items()}


def _requirement(text: str) -> Iterator[tuple[str, str]]:
    match = _REQUIREMENT.match(text)
    if match is not None:
        yield normal_name(match[1]), "".join(match[2].split())


def _requirements(text: str) -> Iterator[tuple[str, str]]:
    for _, line in logical_lines(text):
        # Lines such as `-r other.txt` and `--hash=...` name no package.
        if line.strip() and not line.lstrip().startswith(("#", "-")):
            yield from _requirement(line)


def _pyproject(text: str) -> Iterator[tuple[str, str]]:
    table: dict[str, Any] = tomllib.loads(text)
    project: dict[str, Any] = table.get("project", {})
    groups: list[Any] = [
        project.get("dependencies", []),
        *project.get("optional-dependencies", {}).values(),
        *table.get("dependency-groups", {}).values(),
        table.get("build-system", {}).get("requires", []),
    ]
    for each in (each for group in groups for each in group):
        if isinstance(each, str):
            yield from _requirement(each)
    poetry: dict[str, Any] = table.get("tool", {}).get("poetry", {})
    for name, asked in _sections([poetry, *poetry.get("group", {}).values()], _SECTIONS[:1]):
        yield normal_name(name), asked


def _setup_cfg(text: str) -> Iterator[tuple[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    rows = [parser.get("options", "install_requires", fallback="")]
    if parser.has_section("options.extras_require"):
        rows += [value for _, value in parser.items("options.extras_require")]
    for row in rows:
        yield from _requirements(row)


def _sections(
    tables: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield what sections of tables ask for, as text or as a table of its own."""
    for table in (each.get(name, {}) for name in names for each in tables):
        for name, asked in table.items():
            told = json.dumps(asked, sort_keys=True, default=str)
            yield name, asked if isinstance(asked, str) else told


def _cargo(text: str) -> Iterator[tuple[str, str]]:
    table: dict[str, Any] = tomllib.loads(text)
    return _sections([table, table.get("workspace", {})], _CARGO)
