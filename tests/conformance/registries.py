"""What the conformance tests of all kinds ask of a registry table and of a registered thing."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def check_table(package_name: str, table_name: str) -> None:
    """Asserts that a table is one annotated, sorted literal with an entry and a comma per line."""
    package = importlib.import_module(package_name)
    assert package.__file__ is not None
    source = Path(package.__file__).read_text(encoding="utf-8")
    tables = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == table_name
    ]
    assert len(tables) == 1, f"{table_name} must be assigned once, with its type"
    assert ast.unparse(tables[0].annotation) == "dict[str, str]"
    table = ast.literal_eval(tables[0].value)  # type: ignore[arg-type]  # None would raise here
    assert list(table) == sorted(table), "entries are sorted"
    start, end = tables[0].lineno, tables[0].end_lineno
    lines = [line.strip() for line in source.splitlines()[start : (end or start) - 1]]
    assert lines == [f'"{key}": "{value}",' for key, value in table.items()]
    for name in table:
        assert _NAME.fullmatch(name), f"{name!r} is not in snake case"


def check_unit(kind: str, name: str, module_name: str) -> Any:
    """Asserts that a registered thing has its own file of its own name, and a test; returns it."""
    assert module_name == f"areal.{kind}.{name}", "the file is named after the entry"
    module = importlib.import_module(module_name)
    check_docstring(module)
    test = ROOT / "tests" / "unit" / kind / f"test_{name}.py"
    assert test.is_file(), f"{test.relative_to(ROOT)} is missing"
    assert name in test.read_text(encoding="utf-8"), f"{test.name} does not name {name}"
    return module


def check_docstring(documented: Any, *sections: str) -> None:
    """Asserts that there is a docstring with a one-sentence first line and these sections."""
    # Not inspect.getdoc, which takes a base class's for one.
    docstring = inspect.cleandoc(documented.__doc__ or "")
    first = docstring.partition("\n\n")[0]
    assert first.endswith("."), f"{documented}: the docstring starts with one sentence"
    missing = [section for section in sections if f"\n{section}:\n" not in docstring]
    name = getattr(documented, "__qualname__", documented)
    assert not missing, f"{name} documents no {' and no '.join(missing)}"


def check_arguments_are_documented(function: Any, docstring: str) -> None:
    """Asserts that each parameter occurs in the docstring's list of arguments."""
    names = [
        n for n in inspect.signature(function).parameters if n not in ("self", "args", "kwargs")
    ]
    missing = [n for n in names if not re.search(rf"^ +\**{n}: ", docstring, re.MULTILINE)]
    assert not missing, f"undocumented: {', '.join(missing)}"


def check_lazy_exports(package_name: str, names: list[str]) -> None:
    """Asserts that a package offers these names in ``__all__`` and finds them on first use."""
    package = importlib.import_module(package_name)
    assert len(package.__all__) == len(set(package.__all__))
    assert set(names) <= set(package._LAZY_IMPORTS) <= set(package.__all__)
    assert set(dir(package)) >= set(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
