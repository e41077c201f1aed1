"""The programs of a repository: its console scripts, its modules and the files it runs."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import NamedTuple

from scaffold.analysis.cli.argparse_reader import read_argparse
from scaffold.analysis.cli.cli_json import read_cli
from scaffold.analysis.cli.click_reader import read_click
from scaffold.analysis.cli.commands import Command
from scaffold.analysis.cli.dataclass_reader import read_dataclasses
from scaffold.analysis.files.files import Files
from scaffold.analysis.project.project import normal_name
from scaffold.analysis.project.projects import Projects
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Sources
from scaffold.config import FieldError


class Program(NamedTuple):
    """One program of the repository.

    Args:
        evidence: Where it is declared or defined.
        command: What it takes; None where that cannot be read.
        fault: Why it cannot run, or "".
        near: For a fault, what there is in its place, or "".
    """

    evidence: str
    command: Command | None = None
    fault: str = ""
    near: str = ""


class Programs:
    """The programs of a repository and what they take, read when asked for.

    Args:
        files: The repository's files.
        python: Its Python names.
    """

    def __init__(self, files: Files, python: PythonIndex) -> None:
        self._files = files
        self._python = python
        self._sources = Sources(files)
        self._read: dict[tuple[str, str], Command | None] = {}
        self._consoles: dict[str, Program | None] = {}
        self.projects = Projects(files, self._sources)

    @cached_property
    def described(self) -> dict[str, Command]:
        """The programs in committed descriptions of command lines."""
        found: dict[str, Command] = {}
        for path in self.projects.descriptions:
            text = self._files.text(path) if path in self._files.paths else None
            try:
                found |= read_cli(text, path) if text is not None else {}
            except FieldError:
                continue  # whoever generates it reports it
        return found

    def console(self, name: str) -> Program | None:
        """Return the program that an installed repository calls by this name, or None."""
        if name not in self._consoles:
            self._consoles[name] = self._console(name)
        return self._consoles[name]

    def _console(self, name: str) -> Program | None:
        entries = self.projects.scripts.get(name, [])
        described = self.described.get(name)
        if not entries:
            return None if described is None else Program(described.place, described)
        targets = {target for target, _ in entries}
        if len(targets) > 1:
            return Program(f"{len(targets)} projects have the script {name}")
        target, project = entries[0]
        # "module:function [extra]" is valid in an entry point.
        module, _, function = target.partition("[")[0].strip().partition(":")
        evidence = f"{project.path} has the script {name}"
        if not function:
            return Program(evidence, described)
        found = self._python.find(f"{module}.{function}")
        if found.is_missing:
            near = found.near or ""
            return Program(evidence, None, f"{target} does not exist: {found.evidence}", near)
        if described is not None:
            return Program(described.place, described)
        place = self._python.find(module).path
        command = self.command_of(place, function) if place else None
        return Program(evidence, command)

    def module(self, dotted: str) -> Program | None:
        """Return what `python -m` runs; None where it is no module of this repository."""
        top = dotted.partition(".")[0]
        # `python -m json.tool` and the like never come from the repository.
        if top in sys.stdlib_module_names:
            return None
        found = self._python.find(dotted)
        if found.is_missing:
            return Program("", None, found.evidence, found.near or "")
        if found.kind != "module" or found.path is None:
            return None
        if not any(each.is_firm for each in self._python.modules.top(top)):
            return None
        folder = found.path.removesuffix("/__init__.py").removesuffix("/__init__.pyi")
        if folder.endswith((".py", ".pyi")):
            return Program(f"git lists {found.path}", self.command_of(found.path, ""))
        main = f"{folder}/__main__.py"
        if main in self._files.paths:
            return Program(f"git lists {main}", self.command_of(main, ""))
        return Program("", None, f"the package {folder} has no __main__.py")

    def script(self, path: str) -> Program:
        """Return the program that a file is."""
        evidence = f"git lists {path}"
        if not path.endswith(".py"):
            return Program(evidence)
        return Program(evidence, self.command_of(path, ""))

    def command_of(self, path: str, function: str) -> Command | None:
        """Return what a Python source takes when a function of it, or all of it, is run."""
        key = path, function
        if key not in self._read:
            self._read[key] = self._command_of(path, function)
        return self._read[key]

    def _command_of(self, path: str, function: str) -> Command | None:
        source = self._sources.get(path)
        if source is None:
            return None
        # The first that finds its library's calls wins; each returns None for a program of another
        # one.
        for read in (read_click, read_argparse, read_dataclasses):
            try:
                command = read(path, function, self._sources, self._python)
            # Deep code, and a command that is defined by itself.
            except RecursionError:
                continue
            if command is not None:
                return command
        return None

    def is_own_name(self, name: str) -> bool:
        """Return whether a word is the name of one of the repository's distributions."""
        own = {normal_name(each.name) for each in self.projects.all if each.name}
        return normal_name(name) in own
