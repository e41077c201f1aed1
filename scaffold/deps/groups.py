"""What a resolver is asked: the requirements that are installed together."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.project import normal_name
from scaffold.deps.pin import Pin
from scaffold.deps.pins import is_requirements

# `-r base.txt`, `--constraint=limits.txt`; then `-e .`, `./local` and `file:///x`, which are built.
_INCLUDE = re.compile(r"^\s*(?:-r|--requirement|-c|--constraint)[ =]\s*(\S+)")
_LOCAL = re.compile(r"^\s*(-e|--editable)\b|^\s*(\.|/|file:)")


@dataclass(frozen=True)
class Group:
    """A list of requirements that are installed together.

    Args:
        name: What to call it: the file, or the file and its table.
        lines: The requirements; for a file with ``-r`` and ``-c`` the options themselves.
        files: The texts of the files that the options name, by path.
        left_out: What is not resolved, because it would be built or lies outside.
    """

    name: str
    lines: tuple[str, ...]
    files: Mapping[str, str]
    left_out: tuple[str, ...] = ()


def groups_of(files: Files, pins: Iterable[Pin]) -> list[Group]:
    """Return the groups of a tree in which pins stand."""
    found: dict[str, Group] = {}
    # What takes each file of requirements in; the setup of setuptools is computed as often as not.
    takers: dict[str, list[str]] = {}
    for path in files.paths:
        if is_requirements(files, path):
            for inner in _included(path, files.text(path) or ""):
                takers.setdefault(inner, []).append(path)
    for pin in pins:
        if pin.variant or pin.path.rpartition("/")[2] == "tox.toml":
            group = _of_toml(pin, files.text(pin.path) or "")
            found.setdefault(group.name, group)
        elif is_requirements(files, pin.path) and not pin.why_fixed:
            around = _reached(pin.path, lambda path: takers.get(path, []))
            # Of files that take each other in, none is the outermost one.
            for root in [each for each in around if each not in takers] or [pin.path]:
                found.setdefault(root, _of_requirements(files, root))
    return [each for each in found.values() if each.lines]


def _reached(start: str, following: Callable[[str], Iterable[str]]) -> list[str]:
    """Return a path and all that it leads to, each once."""
    found = [start]
    for path in found:
        found += [each for each in dict.fromkeys(following(path)) if each not in found]
    return found


def _of_toml(pin: Pin, text: str) -> Group:
    table = tomllib.loads(text)
    if pin.group.startswith("tool.poetry"):
        return Group(pin.path, (), {})  # poetry's own resolver reads its own ranges
    # An extra or a group is installed together with the project's own dependencies.
    asked = [] if pin.group == "build-system.requires" else ["project.dependencies"]
    name = pin.path if pin.group in asked else f"{pin.path} {pin.group}"
    asked += [] if pin.group in asked else [pin.group]
    groups: dict[str, Any] = table.get("dependency-groups", {})
    lines: list[str] = []
    left_out: list[str] = []
    for dotted in asked:  # it grows while it is read
        for row in _list_at(table, dotted):
            if isinstance(row, str):
                # tox takes options of pip as well, and its own folder in braces.
                is_asked = not (_LOCAL.match(row) or row.lstrip().startswith(("-", "{")))
                (lines if is_asked else left_out).append(row)
                continue
            wanted = normal_name(str(row["include-group"]) if "include-group" in row else "")
            more = (f"dependency-groups.{each}" for each in groups if normal_name(each) == wanted)
            asked += [each for each in more if each not in asked]
    return Group(name, tuple(lines), {}, tuple(f"{pin.path}: {each}" for each in left_out))


def _list_at(value: Any, dotted: str) -> list[Any]:
    for key in dotted.split("."):
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return cast("list[Any]", value) if isinstance(value, list) else []


def _included(path: str, text: str) -> list[str]:
    folder = PurePosixPath(path).parent
    rows = (_INCLUDE.match(row) for row in text.splitlines())
    return [os.path.normpath(folder / found[1]) for found in rows if found]


def _of_requirements(files: Files, root: str) -> Group:
    """Return a requirements file with all that it takes in, without what would be built."""

    def included(path: str) -> list[str]:
        return [each for each in _included(path, files.text(path) or "") if each in files.paths]

    taken: dict[str, str] = {}
    left_out: list[str] = []
    for path in _reached(root, included):
        rows = (files.text(path) or "").splitlines()
        left_out += [f"{path}: {row.strip()}" for row in rows if _LOCAL.match(row)]
        taken[path] = "".join(f"{row}\n" for row in rows if not _LOCAL.match(row))
    return Group(root, (f"-r {root}",), taken, tuple(left_out))
