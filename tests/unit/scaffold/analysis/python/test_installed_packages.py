"""Real packages read as text: nothing that is there when they run may count as missing."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.index import PythonIndex

ANYTHING = [("args", "var_positional", False), ("kwargs", "var_keyword", False)]
ABSENT = "no_module_has_such_a_name"


def index_of_package(name: str) -> PythonIndex:
    """Returns the index of an installed package, as if it were all of a repository."""
    path = importlib.import_module(name).__file__
    assert path is not None
    folder = Path(path).parent
    paths = [
        each.relative_to(folder.parent).as_posix()
        for each in folder.rglob("*")
        if each.is_file() and "__pycache__" not in each.parts
    ]
    return PythonIndex(Files(folder.parent, paths, has_git=False))


def modules_of(name: str) -> Iterator[ModuleType]:
    """Yields a package's modules, those left out that cannot be imported here."""
    package = importlib.import_module(name)
    yield package
    for info in pkgutil.walk_packages(package.__path__, f"{name}.", onerror=lambda _: None):
        if not all(part.isidentifier() for part in info.name.split(".")):
            continue
        if any(part in info.name for part in ("__main__", ".test", "conftest")):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield importlib.import_module(info.name)
        except Exception:  # an optional dependency, a platform
            continue


def own(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yields the classes and functions that a module defines itself."""
    for name, value in vars(module).items():
        is_plain = inspect.isclass(value) or inspect.isfunction(value)
        if is_plain and value.__module__ == module.__name__ and value.__name__ == name:
            yield f"{module.__name__}.{name}", value


def taken(signature: inspect.Signature, *, is_method: bool) -> list[tuple[str, str, bool]]:
    parameters = list(signature.parameters.values())
    if is_method and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    return [
        (each.name, each.kind.name.lower(), each.default is not inspect.Parameter.empty)
        for each in parameters
    ]


def callables(dotted: str, value: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yields a function, or a class with its methods, and whether they drop a receiver."""
    yield dotted, value, False
    if inspect.isclass(value):
        for name in vars(value):
            plain = inspect.getattr_static(value, name)
            if name == "__new__":
                continue  # the class's own signature tells
            if inspect.isfunction(plain):
                yield f"{dotted}.{name}", plain, True
            elif isinstance(plain, staticmethod | classmethod):
                yield f"{dotted}.{name}", getattr(value, name), False


def false_alarms(index: PythonIndex, modules: list[ModuleType]) -> Iterator[str]:
    """Yields what exists and counts as missing, and what takes other than it is said to."""
    for module in modules:
        for name in vars(module):
            if name.isidentifier() and index.find(f"{module.__name__}.{name}").is_missing:
                yield f"{module.__name__}.{name} is missing"
        for dotted, value in own(module):
            for name in dir(value) if inspect.isclass(value) else ():
                if index.find(f"{dotted}.{name}").is_missing:
                    yield f"{dotted}.{name} is missing"
            for each, real, is_method in callables(dotted, value):
                ours = index.signature(each)
                if ours is None:
                    continue
                told = [(one.name, one.kind, one.has_default) for one in ours.parameters]
                expected = taken(inspect.signature(real), is_method=is_method)
                # A name with two underscores is mangled in a class: nobody gives it by keyword.
                mangled = any(one.name.startswith("__") for one in ours.parameters)
                # A wrapper takes anything: what it hands on is what is asked here.
                if told != expected and not mangled and expected != ANYTHING:
                    yield f"{each} takes {expected} and not {told}"


PACKAGES = [
    # The package, and the least share of absent names that are found out in modules and classes.
    pytest.param("click", 0.9, 0.8, id="click"),
    pytest.param("jinja2", 0.9, 0.4, id="jinja2"),
    pytest.param("markdown_it", 0.9, 0.8, id="markdown_it"),
    pytest.param("libcst", 0.9, 0.5, id="libcst", marks=pytest.mark.slow),
    pytest.param("networkx", 0.9, 0.5, id="networkx", marks=pytest.mark.slow),
    pytest.param("torch.nn", 0.9, 0.0, id="torch.nn", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("package", "module_share", "class_share"), PACKAGES)
def test_no_false_alarm_in_a_real_package(
    package: str, module_share: float, class_share: float
) -> None:
    index = index_of_package(package.partition(".")[0])
    modules = list(modules_of(package))
    assert list(false_alarms(index, modules)) == []
    absent = [index.find(f"{each.__name__}.{ABSENT}").is_missing for each in modules]
    classes = [name for each in modules for name, value in own(each) if inspect.isclass(value)]
    lacking = [index.find(f"{name}.{ABSENT}").is_missing for name in classes]
    assert sum(absent) >= module_share * len(absent)
    assert sum(lacking) >= class_share * len(lacking)
