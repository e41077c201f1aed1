"""What a manifest asks for: the packages of its lists, each with the versions that it allows."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

_NAME = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?P<extras>\[[^\]]*\])?\s*(?P<rest>.*)"
)
_GO = re.compile(r"^\s*(?:require\s+)?(?P<name>[\w.-]+\.[\w.-]+/\S+)\s+(?P<version>v\S+)", re.M)
_NPM_LISTS = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
_CARGO_LISTS = ("dependencies", "dev-dependencies", "build-dependencies")

Table = dict[str, object]


class Dependency(NamedTuple):
    """Is a package that a manifest gained, lost, or asks for in other versions."""

    file: str
    name: str
    old: str | None
    new: str | None


def changed_dependencies(path: str, old: str | None, new: str | None) -> list[Dependency]:
    """Returns how the packages of a manifest changed; none where it cannot be read.

    Args:
        path: Its path, by which its form is known.
        old: Its text before; None where there was none.
        new: Its text after.
    """
    reader = _reader_of(path)
    if reader is None:
        return []
    try:
        before, after = (dict(reader(text)) if text is not None else {} for text in (old, new))
    except (ValueError, AttributeError):  # broken TOML and JSON, or a text where a table belongs
        return []
    names = sorted(before.keys() | after.keys())
    rows = [Dependency(path, name, before.get(name), after.get(name)) for name in names]
    return [row for row in rows if row.old != row.new]


def _reader_of(path: str) -> Callable[[str], Iterator[tuple[str, str]]] | None:
    name = path.rpartition("/")[2].lower()
    if name.endswith((".txt", ".in")):
        return _read_requirements
    return _READERS.get(name)


def _read_requirements(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if not line.lstrip().startswith(("-", "#")):
            yield from _requirement(re.split(r"(?:^|\s)#|\s;|\s--", line)[0])


def _requirement(text: str) -> Iterator[tuple[str, str]]:
    match = _NAME.match(text)
    if match is not None and not text.strip().startswith(("/", ".")):
        rest = match["rest"].partition(";")[0].strip()
        yield re.sub(r"[-_.]+", "-", match["name"]).lower(), rest


def _read_pyproject(text: str) -> Iterator[tuple[str, str]]:
    whole = cast("Table", tomllib.loads(text))
    project, tool = _table(whole, "project"), _table(whole, "tool")
    lists: list[object] = [
        project.get("dependencies"),
        _table(whole, "build-system").get("requires"),
    ]
    lists += _table(project, "optional-dependencies").values()
    lists += _table(whole, "dependency-groups").values()
    for rows in lists:
        for row in cast("list[object]", rows) if isinstance(rows, list) else []:
            if isinstance(row, str):
                yield from _requirement(row)
    poetry = _table(tool, "poetry")
    groups = [_table(each, "dependencies") for each in _tables(_table(poetry, "group"))]
    for table in (_table(poetry, "dependencies"), _table(poetry, "dev-dependencies"), *groups):
        yield from _versions(table)


def _read_package_json(text: str) -> Iterator[tuple[str, str]]:
    whole = cast("Table", json.loads(text))
    for key in _NPM_LISTS:
        yield from _versions(_table(whole, key))


def _read_cargo(text: str) -> Iterator[tuple[str, str]]:
    whole = cast("Table", tomllib.loads(text))
    places = [whole, _table(whole, "workspace"), *_tables(_table(whole, "target"))]
    for place in places:
        for key in _CARGO_LISTS:
            yield from _versions(_table(place, key))


def _read_go(text: str) -> Iterator[tuple[str, str]]:
    for match in _GO.finditer(text):
        yield match["name"], match["version"]


def _versions(table: Table) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        inner = cast("Table", value).get("version") if isinstance(value, dict) else value
        yield name, inner if isinstance(inner, str) else ""


def _table(table: Table, key: str) -> Table:
    found = table.get(key)
    return cast("Table", found) if isinstance(found, dict) else {}


def _tables(table: Table) -> list[Table]:
    return [cast("Table", each) for each in table.values() if isinstance(each, dict)]


_READERS: dict[str, Callable[[str], Iterator[tuple[str, str]]]] = {
    "pyproject.toml": _read_pyproject,
    "package.json": _read_package_json,
    "cargo.toml": _read_cargo,
    "go.mod": _read_go,
}
