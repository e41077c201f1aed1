"""One repository as text, each part read when it is first asked for."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from scaffold.analysis.cli.programs import Programs
from scaffold.analysis.files.files import Files, list_files, parents
from scaffold.analysis.files.git import git_output
from scaffold.analysis.files.words import defined_names
from scaffold.analysis.go import Go
from scaffold.analysis.labels import Labels
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.near_names import NearNames
from scaffold.analysis.project.agent_guides import guide_names
from scaffold.analysis.project.config_classes import ConfigClasses
from scaffold.analysis.project.defaults import Defaults
from scaffold.analysis.project.images import Images
from scaffold.analysis.project.project import Project
from scaffold.analysis.project.pytest_names import PytestNames
from scaffold.analysis.python.families import Families
from scaffold.analysis.python.index import PythonIndex

if TYPE_CHECKING:
    from scaffold.analysis.typescript import TypeScript

_PACKAGE_FILES = frozenset(
    {"pyproject.toml", "setup.py", "setup.cfg", "package.json", "Cargo.toml", "go.mod", "pom.xml"}
)
# Behind a key that is about the project itself, and not in the list of what it needs.
_SLUG = lazy_re(
    r"^[\s\"']*(?:[\w -]*(?:home|repo|source|url|code)[\w -]*[\"']?\s*[=:]|module\s).*?"
    r"github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?(?=[/\"'#\s)]|$)",
    re.MULTILINE | re.IGNORECASE,
)
_REMOTE = lazy_re(r"github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")


class Repository:
    """A repository as text.

    Args:
        files: Its files.
        installed: The packages of an interpreter that count for names from elsewhere, or None:
            then the verdict depends on the repository alone.
    """

    def __init__(self, files: Files, installed: Files | None = None) -> None:
        self.files = files
        self._installed = installed
        self._bases: dict[str, tuple[str, ...]] = {}

    @classmethod
    def at(cls, root: Path) -> Repository:
        """Return the repository of a folder."""
        return cls(list_files(root))

    @property
    def root(self) -> Path:
        """The top folder, absolute."""
        return self.files.root

    @cached_property
    def package_roots(self) -> frozenset[str]:
        """Folders with a package's project file; the repository's own root is the empty text."""
        names = (self.files.by_name.get(name, ()) for name in _PACKAGE_FILES)
        return frozenset(path.rpartition("/")[0] for paths in names for path in paths)

    @cached_property
    def python(self) -> PythonIndex:
        """The Python names."""
        return PythonIndex(self.files)

    @cached_property
    def families(self) -> Families:
        """Its classes by what they derive from, and its enums."""
        return Families(self.files, self.python)

    @cached_property
    def near_names(self) -> NearNames:
        """All names that sources define, for the one that is meant by a name which is missing."""
        return NearNames({*self.python.names(), *defined_names(self.files)})

    @cached_property
    def typescript(self) -> TypeScript:
        """Its types of TypeScript."""
        # Its grammar takes as long to load as the rest of this module; few repositories need it.
        from scaffold.analysis.typescript import TypeScript

        return TypeScript(self.files)

    @cached_property
    def go(self) -> Go:
        """Its packages of Go."""
        return Go(self.files)

    @cached_property
    def labels(self) -> Labels:
        """The keys of its data, the classes of its style sheets: words with hyphens."""
        return Labels(self.files)

    @cached_property
    def defaults(self) -> Defaults:
        """The defaults that its Python gives fields, parameters and options."""
        return Defaults(self.files)

    @cached_property
    def installed(self) -> PythonIndex | None:
        """The Python names of what is installed, where that counts."""
        return PythonIndex(self._installed) if self._installed is not None else None

    def index_for(self, dotted: str) -> PythonIndex:
        """Return the index for a dotted name: the repository's, or that of what is installed."""
        is_elsewhere = self.python.find(dotted.split(".")[0]).kind == "third_party"
        return self.installed if is_elsewhere and self.installed is not None else self.python

    @cached_property
    def project(self) -> Project:
        """The versions that the project's own files name."""
        return Project(self.files)

    @cached_property
    def config_classes(self) -> ConfigClasses:
        """The keys of its configuration."""
        return ConfigClasses(self.files, self.python)

    @cached_property
    def slugs(self) -> frozenset[str]:
        """The addresses on GitHub that the project's own files give for it, as ``owner/name``."""
        names = ("pyproject.toml", "setup.cfg", "setup.py", "package.json", "Cargo.toml", "go.mod")
        there = (each for each in names if each in self.files.paths)
        found = (_SLUG.findall(self.files.text(each) or "") for each in there)
        remote = git_output(self.root, "config", "--get", "remote.origin.url") or b""
        address = _REMOTE.search(remote.decode("utf-8", "replace").strip())
        own = [address[1]] if address and self.files.has_git else []
        return frozenset(slug.lower() for every in (*found, own) for slug in every)

    @cached_property
    def own_names(self) -> frozenset[str]:
        """What a clone's folder is called, in lower case: by this one, by its addresses."""
        return frozenset({self.root.name.lower(), *(each.partition("/")[2] for each in self.slugs)})

    @cached_property
    def images(self) -> Images:
        """The container images that its files use."""
        return Images(self.files)

    @cached_property
    def pytest(self) -> PytestNames:
        """The markers and fixtures of the tests."""
        return PytestNames(self.files)

    @cached_property
    def guide_names(self) -> frozenset[str]:
        """The names of all skills, subagents and slash commands."""
        return guide_names(self.files)

    @cached_property
    def programs(self) -> Programs:
        """The programs: console scripts, modules, files, with what they take."""
        return Programs(self.files, self.python)

    def bases(self, folder: str) -> tuple[str, ...]:
        """Return the folders that a path written in ``folder`` may start from, nearest first.

        They are the folder itself, the packages around it, and the repository's root.
        """
        if folder not in self._bases:
            found = [folder, *(each for each in parents(folder) if each in self.package_roots)]
            self._bases[folder] = tuple(dict.fromkeys([*found, ""]))
        return self._bases[folder]
