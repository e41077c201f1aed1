"""Does no module import itself by way of others, also not from inside a function?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Graph = dict[str, set[str]]


def modules_of(root: Path, package: str) -> dict[str, Path]:
    """Return the file of every module below a folder of a path entry, by its dotted name."""
    found: dict[str, Path] = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_statements(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield every import that runs, in functions too; those for a type checker never do."""
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.unparse(tree.test):
        for statement in tree.orelse:
            yield from import_statements(statement)
    elif isinstance(tree, ast.Import | ast.ImportFrom):
        yield tree
    else:
        for child in ast.iter_child_nodes(tree):
            yield from import_statements(child)


def import_graph(root: Path, package: str) -> Graph:
    """Return what each module of a package imports of the same package.

    A name taken from a package is the submodule of that name, or else the package's own
    ``__init__``. That a submodule runs its parents' ``__init__`` first is no arrow here.
    """
    modules = modules_of(root, package)
    graph: Graph = {}
    for name, path in modules.items():
        package_parts = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        targets: set[str] = set()
        for node in import_statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                targets.update(alias.name for alias in node.names)
                continue
            up = package_parts[: len(package_parts) - node.level + 1] if node.level else []
            base = ".".join([*up, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                targets.add(inner if inner in modules else base)
        graph[name] = (targets & modules.keys()) - {name}
    return graph


def circle(graph: Graph) -> list[str]:
    """Return one circle, its first module again at its end; none if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


# The runners import each other by names below their own folder, which is on a target's path.
@pytest.mark.parametrize("package", ["areal", "scaffold", "scaffold/runners"])
def test_no_module_imports_itself_by_way_of_others(package: str):
    is_runners = package.endswith("runners")
    found = circle(import_graph(ROOT / package, "") if is_runners else import_graph(ROOT, package))
    assert not found, " -> ".join(found)


@pytest.mark.parametrize("statement", ["import p.b", "from p import b", "from . import b"])
def test_a_circle_through_a_function_is_seen(tmp_path: Path, statement: str):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "__init__.py").write_text("")
    (tmp_path / "p" / "a.py").write_text(f"def late():\n    {statement}\n")
    (tmp_path / "p" / "b.py").write_text("from p.a import late\n")
    assert set(circle(import_graph(tmp_path, "p"))) == {"p.a", "p.b"}


def test_what_only_a_type_checker_imports_is_no_circle(tmp_path: Path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "__init__.py").write_text("")
    (tmp_path / "p" / "a.py").write_text("if TYPE_CHECKING:\n    import p.b\n")
    (tmp_path / "p" / "b.py").write_text("import p.a\n")
    assert not circle(import_graph(tmp_path, "p"))


def test_an_import_inside_a_function_has_its_reason_beside_it() -> None:
    """Hold the rooms of the toolkit to imports at the top; `cli` loads lazily by design."""
    lazy = ("scaffold/cli/", "scaffold/runners/", "scaffold/skills/check/")
    found: list[str] = []
    for path in sorted((ROOT / "scaffold").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        if where.startswith(lazy):
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        found += [
            f"{where}:{node.lineno}"
            for node in import_statements(ast.parse(text))
            if node.col_offset
            and ast.unparse(node).startswith(("from scaffold", "import scaffold"))
            and "#" not in lines[node.lineno - 1] + lines[node.lineno - 2]
        ]
    assert found == []
