"""Names that a module gives on first use: import maps and a module-level ``__getattr__``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scaffold.analysis.python.bindings import Scope
from scaffold.analysis.python.literal_tables import LiteralTable, read_literal_tables
from scaffold.analysis.python.module_getattr import refuses_unknown_names
from scaffold.analysis.python.statements import all_nodes, dotted_name


@dataclass(slots=True)
class LazyNames:
    """The names that a module gives on first use, beyond those it binds.

    Args:
        is_there: Whether it has a ``__getattr__`` or replaces itself by a lazy module.
        targets: The names of its literal tables, each with the dotted names it may stand for;
            one that begins with a dot is relative to the module's own package.
        is_complete: Whether a name outside the tables is refused for certain.
    """

    is_there: bool = False
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    is_complete: bool = False


def read_lazy_names(tree: ast.Module, body: Sequence[ast.stmt], scope: Scope) -> LazyNames:
    """Read the lazy names of a module.

    Args:
        tree: The module.
        body: Its statements, those inside of others among them.
        scope: What they bind.
    """
    makers = list(_makers(body)) if _may_be_lazy(body, scope) else []
    if not makers:
        return LazyNames()
    tables = read_literal_tables(tree)
    changed = _changed_in_functions(tree)
    used = {each.id for maker in makers for each in all_nodes(maker) if isinstance(each, ast.Name)}
    # A factory may take its table from a closure or another name: without a match all tables count.
    chosen = {name: table for name, table in tables.items() if name in used} or tables
    for number, maker in enumerate(makers):
        if not isinstance(maker, ast.FunctionDef):
            chosen[f"<{number}>"] = _inline(maker, tables)
        else:
            chosen[f"<{number}>"] = _compared(maker)
    whole = {name for name, table in chosen.items() if table.is_complete and name not in changed}
    # The table of a maker itself is stored under a key that is no name.
    targets = _targets(chosen)
    return LazyNames(True, targets, all(_is_whole(maker, whole) for maker in makers))


def is_lazy_module(value: ast.expr | None) -> bool:
    """Return whether an expression makes a lazy module from a table (``_LazyModule(...)``)."""
    return isinstance(value, ast.Call) and "lazy" in (dotted_name(value.func) or "").lower()


def _may_be_lazy(body: Sequence[ast.stmt], scope: Scope) -> bool:
    return "__getattr__" in scope.names or any(
        # `sys.modules[__name__] = ...` in any of its spellings; `_makers` looks more closely.
        isinstance(name, ast.Attribute) and name.attr == "modules"
        for node in body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name in all_nodes(target)
    )


def _makers(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef | ast.expr]:
    """Yield what gives the names: ``def __getattr__``, its factory's call, a lazy module."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            yield node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                if any(_is_hook(each) for each in names):
                    yield node.value


def _is_hook(target: ast.expr) -> bool:
    # `sys.modules[__name__] = _LazyModule(...)` replaces the module by an object.
    if isinstance(target, ast.Subscript):
        return dotted_name(target.value) == "sys.modules"
    return isinstance(target, ast.Name) and target.id == "__getattr__"


def _inline(maker: ast.expr, tables: dict[str, LiteralTable]) -> LiteralTable:
    """Read tables that are arguments, as in ``lazy.attach(__name__, ["a"], {"b": ["c"]})``."""
    found = LiteralTable()
    if isinstance(maker, ast.Call):
        for each in [*maker.args, *(word.value for word in maker.keywords)]:
            if isinstance(each, (ast.Dict, ast.List, ast.Set, ast.Tuple)):
                found.add(each, tables)
    return found


def _compared(function: ast.FunctionDef) -> LiteralTable:
    """Read the names that a ``__getattr__`` compares with (``name == "x"``)."""
    found = LiteralTable()
    for node in all_nodes(function):
        if isinstance(node, ast.Compare):
            for each in [node.left, *node.comparators]:
                # Tuples, lists and sets have `elts`, a dict has `keys`, a single constant neither.
                for text in getattr(each, "elts", getattr(each, "keys", [each])):
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        found.entries.append((text.value, None))
        elif isinstance(node, ast.Dict):
            found.add(node, {})
    return found


def _changed_in_functions(tree: ast.Module) -> frozenset[str]:
    """Find the tables that functions change: what they hold at the end is not known."""
    found: set[str] = set()
    for outer in all_nodes(tree):
        if not isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for node in all_nodes(outer):
            # `table["x"] = y`, `del table["x"]`; then `table.update(...)` and its like.
            if (isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)) or (
                isinstance(node, ast.Attribute)
                and node.attr
                in (
                    "update",
                    "append",
                    "add",
                    "extend",
                    "setdefault",
                )
            ):
                found.add(dotted_name(node.value) or "")
            elif isinstance(node, ast.Global):
                found.update(node.names)
    return frozenset(found)


def _is_whole(maker: ast.FunctionDef | ast.expr, whole: set[str]) -> bool:
    if isinstance(maker, ast.FunctionDef):
        return refuses_unknown_names(maker, whole)
    if not is_lazy_module(maker) or not isinstance(maker, ast.Call):
        return False
    given = [*maker.args, *(word.value for word in maker.keywords)]
    tables = [
        each
        for each in given
        if isinstance(each, (ast.Dict, ast.List))
        or (isinstance(each, ast.Name) and each.id in whole)
    ]
    return (
        # Any other argument may be a table out of reach; dunder names are the module's own.
        bool(tables)
        and _inline(maker, {}).is_complete
        and all(
            isinstance(each, (ast.Constant, ast.Subscript, ast.Dict, ast.List, ast.Set))
            or (isinstance(each, ast.Name) and (each.id in whole or each.id.startswith("__")))
            for each in given
        )
    )


def _targets(tables: dict[str, LiteralTable]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for table in tables.values():
        for key, value in table.entries:
            for name, dotted in _names(key, value):
                found[name] = tuple(dict.fromkeys((*found.get(name, ()), *dotted)))
    return found


def _names(key: str, value: ast.expr | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names of one entry, and the dotted names that each may stand for."""
    # An entry without a value is taken for a submodule of the package.
    if value is None:
        yield key, (f".{key}",)
        return
    texts = [
        each.value
        for each in all_nodes(value)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    if isinstance(value, ast.Constant):
        yield key, _candidates(key, texts[0]) if texts else ()
    elif isinstance(value, ast.Tuple) and _is_of_own_package(value) and len(texts) == 1:
        yield key, (f".{key}",) if texts[0] == "__module__" else _joined(texts[0], key)
    elif isinstance(value, ast.Tuple) and len(value.elts) == len(texts) and len(texts) in (1, 2):
        yield key, (_candidates(key, texts[0]) if len(texts) == 1 else _joined(*texts))
        # ("a", "b") is ambiguous: module and attribute, or two names of the module `key`.
        yield from ((name, _joined(key, name)) for name in texts)
    elif isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        yield from ((name, _joined(key, name)) for name in texts)
        yield key, (f".{key}",)
    else:
        yield key, ()


def _is_of_own_package(value: ast.Tuple) -> bool:
    """Return whether a pair begins with the package itself: ``(__spec__.parent, ".main")``."""
    own = ("__spec__.parent", "__package__", "__name__")
    return len(value.elts) == 2 and dotted_name(value.elts[0]) in own


def _candidates(name: str, text: str) -> tuple[str, ...]:
    module, colon, attribute = text.partition(":")
    if colon:
        return _joined(module, attribute)
    # "pkg.name" may be the object itself or a module that holds a `name`.
    if text.rpartition(".")[2] == name:
        return (*_joined(text, name), *_spellings(text))
    return _joined(text, name)


def _joined(module: str, name: str) -> tuple[str, ...]:
    dotted = f"{module}{name}" if module.endswith(".") else f"{module}.{name}"
    return _spellings(dotted)


def _spellings(dotted: str) -> tuple[str, ...]:
    # Import maps rarely mark relative targets: both readings are candidates.
    return (dotted,) if dotted.startswith(".") else (dotted, f".{dotted}")
