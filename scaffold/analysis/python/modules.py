"""Where a repository's modules lie: import roots, packages, stubs, what a build makes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from scaffold.analysis.files.builds import Builds
from scaffold.analysis.files.files import Files, folders_of
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.builtins_table import is_standard

_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_SOURCE_FOLDERS = ("src", "lib", "python")
_SIDE_PARTS = lazy_re(
    r"(^|/)(tests?|testing|testdata|examples?|samples?|docs?|fixtures?|vendor(ed)?|_vendor"
    r"|third_?party|3rdparty|external|submodules|templates?|benchmarks?|data|site-packages"
    r"|\.[^/]*)(/|$)"
)
"""Folders whose packages are copies or scenery: a name in them may mean an installed package."""

_COMPILED = (".so", ".pyd", ".pyx", ".dylib")


class Module(NamedTuple):
    """A module or package of the repository.

    Args:
        path: Its source, relative to the root; None for a namespace package.
        folder: The folder of a package; None for a plain module.
        stub: Its ``.pyi``, where there is one beside or instead of the source.
        is_compiled: Whether it is an extension: no Python text has its names.
        is_firm: Whether this file is certainly what the import takes, and not perhaps an
            installed package of the same name.
    """

    path: str | None
    folder: str | None = None
    stub: str | None = None
    is_compiled: bool = False
    is_firm: bool = True

    @property
    def place(self) -> str:
        """The source, or the folder of a namespace package."""
        return self.path or self.stub or self.folder or "."

    @property
    def package_folder(self) -> str:
        """The folder that one leading dot of a relative import means."""
        if self.folder is not None:
            return self.folder
        return (self.path or self.stub or "").rpartition("/")[0]


class Modules:
    """The modules of a repository by name and by path.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._builds = Builds(files)
        self._tops: dict[str, tuple[Module, ...]] = {}

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The folders that imports start from, the surest first; the root itself is ``""``."""
        projects = {""}
        for name in _PROJECT_FILES:
            projects |= {path.rpartition("/")[0] for path in self._files.by_name.get(name, ())}
        # A pyproject.toml inside a package makes no import root.
        bases = [each for each in projects if not self._is_package(each)]
        sources = [
            join(base, name)
            for base in bases
            for name in _SOURCE_FOLDERS
            if join(base, name) in self.python_folders and not self._is_package(join(base, name))
        ]
        # The parent of every outermost package is a root, whether or not a project file is there.
        tops = {each.rpartition("/")[0] for each in self.packages if not self._is_inner(each)}
        found = sorted({*bases, *sources, *tops}, key=lambda each: (_rank(each), each))
        return tuple(found)

    @cached_property
    def packages(self) -> frozenset[str]:
        """The folders with an ``__init__.py`` or ``__init__.pyi``."""
        names = ("__init__.py", "__init__.pyi")
        return frozenset(
            path.rpartition("/")[0] for name in names for path in self._files.by_name.get(name, ())
        )

    @cached_property
    def python_folders(self) -> frozenset[str]:
        """The folders with Python somewhere below them."""
        links = [f"{link}/" for link in self._files.folder_links]
        return folders_of([*self._files.python, *links])

    def top(self, name: str) -> tuple[Module, ...]:
        """Return every module that ``import name`` may take from this repository."""
        if name not in self._tops:
            self._tops[name] = tuple(self._find_top(name))
        return self._tops[name]

    def neighbours(self, name: str, folder: str | None) -> tuple[Module, ...]:
        """Return the modules of a name that only a script beside them can import.

        Args:
            name: The first part of the import.
            folder: The script's folder; None where any script may be meant.
        """
        # sys.path[0] is the folder of a script; modules of a package are no scripts.
        if folder is not None and folder in self.packages:
            return ()
        return tuple(
            Module(path, is_firm=False)
            for path in self._files.by_name.get(f"{name}.py", ())
            if folder is None or path.rpartition("/")[0] == folder
        )

    def child(self, module: Module, name: str) -> Module | None:
        """Return a package's submodule; None where it has none of this name."""
        if module.folder is None:
            return None
        return self._at(module.folder, name, module.is_firm)

    def children(self, module: Module) -> frozenset[str]:
        """Return the names of a package's submodules."""
        if module.folder is None:
            return frozenset()
        start = f"{module.folder}/" if module.folder else ""
        below = (
            path[len(start) :].partition("/")[0].partition(".")[0]
            for path in self._files.python
            if path.startswith(start)
        )
        return frozenset(below) - {"__init__"}

    def dotted_names(self, path: str) -> tuple[str, ...]:
        """Return the names under which a source can be imported, the surest first."""
        stem = path.rpartition(".")[0].removesuffix("/__init__")
        found: list[str] = []
        for root in self.roots:
            if root and not stem.startswith(f"{root}/"):
                continue
            parts = stem[len(root) :].strip("/").split("/")
            if all(part.isidentifier() for part in parts):
                found.append(".".join(parts))
        # Up to the outermost package that the source lies in.
        folder, top = path.rpartition("/")[0], path.rpartition("/")[2].partition(".")[0]
        while folder in self.packages:
            folder, _, top = folder.rpartition("/")
        # A stable sort: the names keep their rank but for that of the outermost package.
        return tuple(sorted(found, key=lambda each: each.partition(".")[0] != top))

    def at_path(self, path: str) -> Module | None:
        """Return the module whose source is this file."""
        if path not in self._files.paths:
            return None
        folder, _, name = path.rpartition("/")
        stem = name.partition(".")[0]
        if stem == "__init__":
            return self.package_at(folder)
        if path.endswith((".py", ".pyi")):
            stub = f"{path}i" if path.endswith(".py") and f"{path}i" in self._files.paths else None
            return Module(path, None, stub)
        return None

    def package_at(self, folder: str) -> Module:
        """Return the package that is this folder, for a relative import."""
        return self._package(folder, True)

    def imported(self, module: Module, level: int, target: str) -> list[Module]:
        """Return the modules that ``from target import`` may mean, by their files alone."""
        parts = target.split(".") if target else []
        if level:
            found = [self.above(module, level)]
        elif parts:
            top, *parts = parts
            tops = self.top(top)
            # A folder of examples called like a standard module does not shadow it.
            if is_standard(top) and not any(each.is_firm for each in tops):
                return []
            found = list(tops or self.neighbours(top, module.package_folder))
        else:
            return []
        for part in parts:
            children = [self.child(each, part) for each in found]
            found = [each for each in children if each is not None]
        return found

    def above(self, module: Module, level: int) -> Module:
        """Return the package that so many leading dots mean in a module."""
        folder = module.package_folder
        # One dot is the package itself; only further dots go up.
        for _ in range(level - 1):
            folder = folder.rpartition("/")[0]
        return self.package_at(folder)

    def why_open(self, module: Module, name: str) -> str | None:
        """Return why a module may have a submodule or name that is in no source, or None."""
        if module.is_compiled or (module.path is None and module.stub is not None):
            return f"{module.place} is compiled: no text lists all its names"
        # Extensions register private helpers in their package at import.
        if name.startswith("_") and module.folder in self._folders_of_compiled:
            return f"what is compiled below {module.folder} may set {name}"
        return None if module.folder is None else self._builds.why_made(module.folder, name)

    def why_unsure(self, name: str, tops: tuple[Module, ...], lacking: object) -> str | None:
        """Return why a name that these modules lack may come from elsewhere, or None.

        Args:
            name: The first part of the dotted name.
            tops: The modules of this name in the repository.
            lacking: The module that lacks the further name.
        """
        if not all(top.is_firm for top in tops):
            return f"{name} may be an installed package"
        is_folder = isinstance(lacking, Module) and lacking.path is None and lacking.stub is None
        if is_folder and any(top.path is None and top.stub is None for top in tops):
            return f"the folder {name} has no __init__.py, so an installed package comes first"
        return None

    def _find_top(self, name: str) -> Iterator[Module]:
        # A repository that is itself a package is imported by the name of its folder.
        if name == self._files.root.name and "" in self.packages:
            yield Module("__init__.py", "", is_firm=True)
        for root in self.roots:
            found = self._at(root, name, not _SIDE_PARTS.search(root))
            if found is not None:
                yield found

    def _at(self, folder: str, name: str, is_firm: bool) -> Module | None:
        inner = self._files.folder_links.get(join(folder, name), join(folder, name))
        # Python prefers a regular package over a module, and both over a namespace package.
        if inner in self.packages:
            return self._package(inner, is_firm)
        paths = self._files.paths
        source, stub = f"{inner}.py", f"{inner}.pyi"
        has_source, has_stub = source in paths, stub in paths
        compiled = self._compiled_modules.get(join(folder, name))
        if has_source or has_stub or compiled:
            return Module(
                source if has_source else None if has_stub else compiled,
                None,
                stub if has_stub else None,
                bool(compiled) and not has_source,
                is_firm,
            )
        return self._package(inner, is_firm) if inner in self.python_folders else None

    def _package(self, folder: str, is_firm: bool) -> Module:
        paths = self._files.paths
        source, stub = join(folder, "__init__.py"), join(folder, "__init__.pyi")
        return Module(
            source if source in paths else None,
            folder,
            stub if stub in paths else None,
            False,
            is_firm,
        )

    @cached_property
    def _compiled_modules(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in self._files.paths:
            if path.endswith(_COMPILED):
                folder, _, name = path.rpartition("/")
                # Up to the first dot: extensions are named like `core.cpython-312-x86_64.so`.
                found[join(folder, name.partition(".")[0])] = path
        return found

    @cached_property
    def _folders_of_compiled(self) -> frozenset[str]:
        """The folders with an extension somewhere below them."""
        return folders_of(self._compiled_modules)

    def _is_package(self, folder: str) -> bool:
        return folder in self.packages

    def _is_inner(self, package: str) -> bool:
        """Return whether a package's parent is a package too."""
        return package == "" or package.rpartition("/")[0] in self.packages


def join(folder: str, name: str) -> str:
    """Join a relative folder, which may be empty, and a name."""
    return f"{folder}/{name}" if folder else name


def is_scenery(folder: str) -> bool:
    """Return whether a folder holds copies or examples, and not the repository's own code."""
    return _SIDE_PARTS.search(folder) is not None


def _rank(root: str) -> int:
    if root == "":
        return 0
    return 2 if _SIDE_PARTS.search(root) else 1
