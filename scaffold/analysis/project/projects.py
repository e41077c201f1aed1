"""What the project files of a repository declare: programs, extras, groups."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from scaffold.analysis.files.data_files import load_data
from scaffold.analysis.files.files import Files
from scaffold.analysis.project.project import normal_name
from scaffold.analysis.project.tool_table import inner_table
from scaffold.analysis.python.modules import is_scenery
from scaffold.analysis.python.sources import Sources
from scaffold.analysis.python.statements import all_nodes

Table = dict[str, Any]


@dataclass
class Project:
    """One Python project of a repository.

    Args:
        path: Its project file.
        name: Its name, or "".
        scripts: Its console scripts: the name and `module:attribute`.
        extras: The names of its extras; None where they are computed.
        groups: The names of its dependency groups.
    """

    path: str
    name: str = ""
    scripts: dict[str, str] = field(default_factory=dict[str, str])
    extras: set[str] | None = field(default_factory=set[str])
    groups: set[str] = field(default_factory=set[str])


class Projects:
    """The Python projects of a repository, read from their files.

    Args:
        files: The repository's files.
        sources: Its Python sources.
    """

    def __init__(self, files: Files, sources: Sources) -> None:
        self._files = files
        self._sources = sources

    @cached_property
    def all(self) -> list[Project]:
        """Every project that is no copy and no scenery of a test."""
        found: dict[str, Project] = {}
        for name in ("pyproject.toml", "setup.cfg", "setup.py"):
            for path in self._files.by_name.get(name, ()):
                folder = path.rpartition("/")[0]
                if is_scenery(folder):
                    continue
                # The files of one folder describe one project together.
                project = found.setdefault(folder, Project(path))
                self._read(path, project)
        return list(found.values())

    @cached_property
    def side_extras(self) -> frozenset[str]:
        """The extras of projects beside the repository's own, as of benchmarks and examples."""
        found = Project("")
        for path in self._files.by_name.get("pyproject.toml", ()):
            if is_scenery(path.rpartition("/")[0]):
                self._read(path, found)
        return frozenset(found.extras or ())

    @cached_property
    def scripts(self) -> dict[str, list[tuple[str, Project]]]:
        """The console scripts: each name's targets with their projects."""
        found: dict[str, list[tuple[str, Project]]] = defaultdict(list)
        for project in self.all:
            for name, target in project.scripts.items():
                found[name].append((target, project))
        return dict(found)

    @cached_property
    def descriptions(self) -> tuple[str, ...]:
        """The files of `[tool.scaffold.skills] cli` that describe command lines."""
        table = load_data("pyproject.toml", self._files)
        given: Any = inner_table(table, "tool", "scaffold", "skills").get("cli")
        rows = cast("list[Any]", given) if isinstance(given, list) else []
        return tuple(each for each in rows if isinstance(each, str))

    def _read(self, path: str, project: Project) -> None:
        if path.endswith("pyproject.toml"):
            _read_pyproject(load_data(path, self._files), project)
        elif path.endswith("setup.cfg"):
            _read_setup_cfg(self._files.text(path) or "", project)
        else:
            source = self._sources.get(path)
            for node in all_nodes(source.tree) if source is not None else ():
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setup"):
                    _read_setup_call(node, project)


def _read_pyproject(table: Any, project: Project) -> None:
    own = inner_table(table, "project")
    tool = inner_table(table, "tool")
    poetry = inner_table(tool, "poetry")
    project.name = _text(own, "name") or _text(poetry, "name")
    for outer, key in ((own, "scripts"), (own, "gui-scripts"), (poetry, "scripts")):
        for name, target in inner_table(outer, key).items():
            if isinstance(target, str):
                project.scripts[name] = target
            else:  # poetry: { reference = "path", type = "file" }
                project.scripts[name] = ""
    dynamic: Any = own.get("dynamic")
    named = cast("list[Any]", dynamic) if isinstance(dynamic, list) else []
    if "optional-dependencies" in named:
        project.extras = None
    else:
        extras = inner_table(poetry, "extras")
        _add_extras(project, [*inner_table(own, "optional-dependencies"), *extras])
    project.groups |= {*inner_table(table, "dependency-groups"), *inner_table(poetry, "group")}
    if "dev-dependencies" in inner_table(tool, "uv") or "dev-dependencies" in poetry:
        project.groups.add("dev")
    project.groups |= set(inner_table(tool, "pdm", "dev-dependencies"))


def _read_setup_cfg(text: str, project: Project) -> None:
    import configparser  # few projects have such a file still

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    project.name = project.name or parser.get("metadata", "name", fallback="")
    _add_lines(parser.get("options.entry_points", "console_scripts", fallback=""), project)
    if parser.has_section("options.extras_require"):
        _add_extras(project, parser.options("options.extras_require"))


def _add_lines(text: str, project: Project) -> None:
    for line in text.splitlines():
        name, is_entry, target = line.partition("=")
        if is_entry:
            project.scripts[name.strip()] = target.strip()


def _read_setup_call(node: ast.Call, project: Project) -> None:
    for each in node.keywords:
        try:
            value: Any = ast.literal_eval(each.value)
        except (ValueError, TypeError, SyntaxError):
            value = None
        # `setup(**settings)`.
        if each.arg is None:
            project.extras = None
        elif each.arg == "name" and isinstance(value, str):
            project.name = project.name or value
        elif each.arg == "extras_require":
            if isinstance(value, dict):
                _add_extras(project, list(cast("dict[str, Any]", value)))
            else:
                project.extras = None
        elif each.arg == "entry_points":
            _read_entry_points(value, project)


def _read_entry_points(value: Any, project: Project) -> None:
    scripts = cast("Table", value).get("console_scripts", []) if isinstance(value, dict) else None
    if isinstance(scripts, list):
        _add_lines("\n".join(str(each) for each in cast("list[Any]", scripts)), project)
    elif isinstance(scripts, str):
        _add_lines(scripts, project)


def _add_extras(project: Project, names: list[str]) -> None:
    if project.extras is not None:
        project.extras |= {normal_name(each) for each in names}


def _text(table: Table, key: str) -> str:
    found = table.get(key)
    return found if isinstance(found, str) else ""
