"""Which files the tests import or start, directly or through others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.modules import Module, Modules

# `from ..pkg.a import (b, c as d)`: dots, module, names; bytes, since every file is searched.
_FROM = re.compile(
    rb"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]+)", re.MULTILINE
)
_IMPORT = re.compile(rb"^[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)
_NAME = re.compile(rb"\w+")
_AS = re.compile(rb"\bas[ \t]+\w+")
# A short text that may be a path: `"scripts/train.py"`, `'pkg.__main__'`.
_TEXT = re.compile(rb"""["']([\w./-]{3,120})["']""")
_START = "__main__.py"


class Imports:
    """Imports from file to file, found by their text and not by parsing.

    A text that is the name of a script, or of a folder that Python can run, counts too: that is how
    programs are started.

    Args:
        files: The repository's files.
        modules: Its modules.
    """

    def __init__(self, files: Files, modules: Modules) -> None:
        self._files = files
        self._modules = modules
        self._named: dict[tuple[str, int, str], tuple[Module, ...]] = {}

    def reached_from(self, starts: Iterable[str]) -> dict[str, str]:
        """Return the files that some files import, each with the first of them that does."""
        found: dict[str, str] = {}
        for start in sorted(starts):
            pending = [start]
            while pending:
                path = pending.pop()
                for other in self._imported_by(path):
                    # Marked when first met, so that circles of imports end.
                    if other not in found:
                        found[other] = start
                        pending.append(other)
        return found

    def _imported_by(self, path: str) -> Iterator[str]:
        module = self._modules.at_path(path)
        data = self._files.data(path) if module is not None else None
        if module is None or data is None:
            return
        for dots, target, names in _FROM.findall(data):
            for each in self._modules_named(module, len(dots), target.decode()):
                yield from _source(each)
                for name in _NAME.findall(_AS.sub(b"", names)):
                    child = self._modules.child(each, name.decode())
                    if child is not None:
                        yield from _source(child)
        for names in _IMPORT.findall(data):
            for name in _AS.sub(b"", names).split(b","):
                for each in self._modules_named(module, 0, name.strip().decode()):
                    yield from _source(each)
        for text in set(_TEXT.findall(data)):
            yield from self._started.get(text.decode().rstrip("/").rpartition("/")[2], ())

    @cached_property
    def _started(self) -> dict[str, list[str]]:
        """The scripts and runnable folders by their own names, where one name means one of them."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self._files.python:
            folder, _, name = path.rpartition("/")
            if name == _START:
                found[folder.rpartition("/")[2]].append(path)
            elif not name.startswith("__"):
                found[name].append(path)
        # A name that several scripts share does not single one out.
        return {name: paths for name, paths in found.items() if len(paths) == 1}

    def _modules_named(self, module: Module, level: int, target: str) -> tuple[Module, ...]:
        key = (module.package_folder, level, target)
        if key not in self._named:
            self._named[key] = tuple(self._modules.imported(module, level, target))
        return self._named[key]


def imported_by_tests(
    files: Files, modules: Modules, is_test: Callable[[str], bool]
) -> dict[str, str]:
    """Return the files that tests import, each with a test that does."""
    tests = [path for path in files.python if is_test(path)]
    return Imports(files, modules).reached_from(tests)


def _source(module: Module) -> Iterator[str]:
    if module.path is not None:
        yield module.path
