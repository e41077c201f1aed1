"""The dispatches in a function: chains of elif, separate ifs, match, and their branches as rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scaffold.edit.layout import indent_at, line_start
from scaffold.edit.rows import Row, line_after, with_inner_comments
from scaffold.edit.statements import Statements

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Branch:
    """One branch; ``word`` is the offset of its keyword."""

    test: ast.expr | None
    case: ast.match_case | None
    body: list[ast.stmt]
    word: int
    row: Row


@dataclass(frozen=True)
class Chain:
    """A dispatch; ``kind`` is "elif", "if" for separate ifs, or "case"."""

    kind: str
    branches: tuple[Branch, ...]


def find_function(registry: Statements[Any]) -> Function:
    """Return the function that the table names; dots lead through classes and functions.

    Raises:
        RegistryError: The function is missing, or is defined twice.
    """
    table = registry.entry.table
    bodies: list[list[ast.stmt]] = [registry.tree.body]
    found: list[Function | ast.ClassDef] = []
    for part in table.split("."):
        inner = [each for body in bodies for each in _definitions(body)]
        found = [each for each in inner if each.name == part]
        # A name may be defined in several branches; all of its bodies are searched for the next
        # part.
        bodies = [each.body for each in found]
    functions = [each for each in found if isinstance(each, Function)]
    # The overloads of a function are signatures without a body to put a branch into.
    functions = [each for each in functions if not _is_overload(each)]
    if not functions:
        raise registry.refusal("registry_missing", 0, f"no function {table} was found")
    if len(functions) > 1:
        line = functions[1].lineno
        raise registry.refusal("registry_computed", line, f"{table} is defined twice")
    return functions[0]


def find_chains(registry: Statements[Any]) -> list[Chain]:
    """Return every dispatch of the entry's function, in the order of the text.

    Raises:
        RegistryError: The function is missing, or is defined twice.
    """
    bodies = _bodies(find_function(registry).body)
    return [chain for body in bodies for chain in _chains_of(registry, body)]


def segment_of(registry: Statements[Any], branch: Branch) -> str:
    """Return a branch's condition, or pattern with guard, as it is written."""
    if branch.test:
        return registry.file.text(branch.test)
    assert branch.case is not None
    last = branch.case.guard or branch.case.pattern
    text = registry.raw[registry.file.start(branch.case.pattern) : registry.file.end(last)]
    return text.decode("utf-8")


def _definitions(body: list[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    for inner in _bodies(body):
        for node in inner:
            if isinstance(node, Function | ast.ClassDef):
                yield node


def _is_overload(function: Function) -> bool:
    marks = [ast.unparse(each) for each in function.decorator_list]
    return any(mark.split(".")[-1] == "overload" for mark in marks)


def _bodies(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Return the statement lists of a scope, those of nested functions and classes left out."""
    yield body
    for node in body:
        if not isinstance(node, Function | ast.ClassDef):
            for inner in _inner_bodies(node):
                yield from _bodies(inner)


def _inner_bodies(node: ast.stmt | ast.ExceptHandler | ast.match_case) -> list[list[ast.stmt]]:
    """Return the statement lists directly in a statement; an elif lies in its if."""
    found: list[list[ast.stmt]] = []
    for name in ("body", "orelse", "finalbody"):
        inner: list[ast.stmt] = getattr(node, name, [])
        arm = _elif(node) if name == "orelse" and isinstance(node, ast.If) else None
        found += _inner_bodies(arm) if arm else [inner]
    for name in ("handlers", "cases"):
        # Except clauses and cases are no statements, but what they contain is.
        parts: list[ast.ExceptHandler | ast.match_case] = getattr(node, name, [])
        for part in parts:
            found += _inner_bodies(part)
    return [inner for inner in found if inner]


def _elif(node: ast.If) -> ast.If | None:
    """Return the elif of an if; an if that is alone in an else is indented deeper."""
    inner = node.orelse[0] if len(node.orelse) == 1 else None
    if isinstance(inner, ast.If) and inner.col_offset == node.col_offset:
        return inner
    return None


def _chains_of(registry: Statements[Any], body: list[ast.stmt]) -> Iterator[Chain]:
    """Return the dispatches among the statements of one list, in the order of the text."""
    lone: list[ast.If] = []
    # The statement at the end closes a run of ifs that the body ends with.
    for node in [*body, ast.Pass()]:
        # An if with an elif or else is a dispatch by itself; those without gather into one of
        # separate ifs.
        if isinstance(node, ast.If) and not node.orelse:
            lone.append(node)
            continue
        if lone:
            last = lone[0].body[-1]
            ends = isinstance(last, ast.Return | ast.Raise | ast.Continue | ast.Break)
            # A single if that goes on may get an elif; one that leaves the function begins a series
            # of separate ifs.
            is_chain = len(lone) == 1 and not ends
            branches = tuple(_if_branch(registry, each) for each in lone)
            yield Chain("elif" if is_chain else "if", branches)
            lone = []
        if isinstance(node, ast.If):
            yield Chain("elif", tuple(_if_branch(registry, each) for each in _arms(node)))
        elif isinstance(node, ast.Match):
            yield Chain("case", tuple(_case_branch(registry, each) for each in node.cases))


def _arms(node: ast.If) -> Iterator[ast.If]:
    arm: ast.If | None = node
    while arm:
        yield arm
        arm = _elif(arm)


def _if_branch(registry: Statements[Any], node: ast.If) -> Branch:
    word = registry.file.start(node)
    return Branch(node.test, None, node.body, word, _row(registry, word, node.body))


def _case_branch(registry: Statements[Any], case: ast.match_case) -> Branch:
    # ast gives the place of a pattern and not that of its keyword.
    word = registry.raw.rindex(b"case", 0, registry.file.start(case.pattern))
    return Branch(None, case, case.body, word, _row(registry, word, case.body))


def _row(registry: Statements[Any], word: int, body: list[ast.stmt]) -> Row:
    raw = registry.raw
    end = line_after(raw, registry.file.end(body[-1]))
    return Row(line_start(raw, word), with_inner_comments(raw, end, indent_at(raw, word)))
