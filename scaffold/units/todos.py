"""The todos that a template leaves to the author, found in Python text by their comment.

A comment line ``# YOURS: what to do`` marks the function or assignment around it; at module or
class level it marks the statement below it. A todo is open while the comment is there and the code
is as it was rendered: writing code closes it, and so does deleting the comment.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from scaffold.syntax import parse
from scaffold.units.ledger import Unit, base_path

# `    # YOURS: write the prompt`, on a line of its own.
MARK = re.compile(r"^[ \t]*#[ \t]*YOURS:[ \t]*(?P<why>.*\S)[ \t]*$")


class OpenTodo(NamedTuple):
    """A todo with its line in the file as it is now."""

    file: str
    line: int
    symbol: str
    why: str


def find_todos(file: str, text: str) -> tuple[OpenTodo, ...]:
    """Return the todos of a Python text, in order.

    Raises:
        SyntaxError: The text is no Python.
        ValueError: A comment marks nothing.
    """
    marks = [(n, m["why"]) for n, row in enumerate(text.splitlines(), 1) if (m := MARK.match(row))]
    tree = parse(text)
    return tuple(OpenTodo(file, line, _symbol_at(tree, line), why) for line, why in marks)


def open_todos(root: Path, unit: Unit) -> tuple[OpenTodo, ...]:
    """Return the todos of a unit that the author has not touched yet; a missing file has none."""
    found: list[OpenTodo] = []
    for file in dict.fromkeys(todo.file for todo in unit.todos):
        current = _text(root / file)
        base = _text(root / base_path(unit.kind, unit.name, file))
        if current is not None:
            # A comment YOURS that a person adds is theirs and no todo of the template.
            known = {todo.symbol for todo in unit.todos if todo.file == file}
            # Where the base was lost, nothing shows that a todo was done.
            still_open = _still_open(file, current, current if base is None else base)
            found += [p for p in still_open if p.symbol in known]
    return tuple(found)


def is_marked(root: Path, todos: Iterable[OpenTodo], file: str, line: int) -> bool:
    """Return whether a line of a file is one of those that open todos mark."""
    text = _text(root / file)
    symbols = [todo.symbol for todo in todos if todo.file == file]
    if text is None or not symbols:
        return False
    tree = parse(text)
    nodes = [node for each in symbols if (node := _find(tree, each)) is not None]
    return any(node.lineno <= line <= (node.end_lineno or 0) for node in nodes)


def symbol_line(text: str, symbol: str) -> int | None:
    """Return the line of a function, class or assignment by its qualified name, or None."""
    node = _find(parse(text), symbol)
    return None if node is None else node.lineno


def _still_open(file: str, current: str, base: str) -> list[OpenTodo]:
    try:
        marked = find_todos(file, current)
        # Most files were never edited: nothing has to be compared then.
        if current == base:
            return list(marked)
        was, now = parse(base), parse(current)
    except (SyntaxError, ValueError):
        return []  # the author is in the middle of it; the static level of verify reports it
    return [
        todo for todo in marked if _is_unchanged(_find(was, todo.symbol), _find(now, todo.symbol))
    ]


def _is_unchanged(was: ast.stmt | None, now: ast.stmt | None) -> bool:
    return was is not None and now is not None and ast.dump(was) == ast.dump(now)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


def _symbol_at(tree: ast.Module, line: int) -> str:
    """Return the qualified name of the function or assignment around a line, else below it."""
    body, prefix = tree.body, ""
    while True:
        around = next(
            (node for node in body if node.lineno <= line <= (node.end_lineno or 0)), None
        )
        # Only classes are entered: a comment inside a function marks the whole function.
        if not isinstance(around, ast.ClassDef):
            break
        body, prefix = around.body, f"{prefix}{around.name}."
    marked = around or next((node for node in body if node.lineno > line), None)
    names = [] if marked is None else _names(marked)
    if not names:
        raise ValueError(f"line {line}: a YOURS comment marks neither a function nor an assignment")
    return f"{prefix}{names[0]}"


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _find(tree: ast.Module, symbol: str) -> ast.stmt | None:
    body: list[ast.stmt] = tree.body
    found: ast.stmt | None = None
    for part in symbol.split("."):
        found = next((node for node in body if part in _names(node)), None)
        if found is None:
            return None
        body = list(getattr(found, "body", []))
    return found
