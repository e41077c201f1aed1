"""The symbols that a source file defines: what is public, its head, and its lines."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

from scaffold.analysis.python.annotations import spelled
from scaffold.analysis.python.decorators import PROPERTIES, last_part
from scaffold.analysis.python.statements import statements
from scaffold.syntax import parse

Kind = Literal["class", "constant", "function", "method", "property"]


_PROPERTY_MARKS = PROPERTIES | {"setter", "deleter"}


class Symbol(NamedTuple):
    """One definition of a file.

    Lines are counted from 1; decorators count as part of their definition.
    """

    name: str
    """Dotted from the file's top: "Engine.generate"."""
    kind: Kind
    head: str
    """What callers see, in one line: the parameters and what is returned, or the bases."""
    start: int
    end: int
    is_public: bool
    digest: str
    """Of its whole text without layout and comments, so that a moved symbol is known again."""


def read_symbols(path: str, text: str) -> tuple[Symbol, ...] | None:
    """Return what a file defines, in its order; None where its language is not read.

    A file that cannot be parsed defines nothing that is known, which is None as well.
    """
    if not _is_python(path):
        return None
    try:
        tree = parse(text)
    except SyntaxError:
        return None
    return tuple(_python_symbols(tree.body, "", is_public=True, listed=_listed(tree)))


def symbol_at(symbols: tuple[Symbol, ...], line: int) -> Symbol | None:
    """Return the innermost definition that a line belongs to."""
    around = [each for each in symbols if each.start <= line <= each.end]
    return min(around, key=lambda each: each.end - each.start, default=None)


def _listed(tree: ast.Module) -> frozenset[str] | None:
    """Return what ``__all__`` names where it is a literal; else None."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets):
            try:
                return frozenset(ast.literal_eval(node.value))
            except (ValueError, TypeError):
                return None
    return None


def _python_symbols(
    body: list[ast.stmt], prefix: str, *, is_public: bool, listed: frozenset[str] | None
) -> Iterator[Symbol]:
    # A definition under a condition is the module's all the same, but for what runs as a program.
    for node, _ in statements([each for each in body if not _is_main(each)]):
        found = _python_name(node, in_class=bool(prefix))
        if found is None:
            continue
        name, kind, head = found
        is_seen = is_public and _is_public(name, listed)
        # Every definition begins with its decorators.
        lines = [node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]
        digest = hashlib.sha256(ast.dump(node).encode()).hexdigest()
        end = node.end_lineno or node.lineno
        yield Symbol(f"{prefix}{name}", kind, head, min(lines), end, is_seen, digest)
        if isinstance(node, ast.ClassDef):
            yield from _python_symbols(
                node.body, f"{prefix}{name}.", is_public=is_seen, listed=None
            )


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def _is_public(name: str, listed: frozenset[str] | None) -> bool:
    if listed is not None:
        return name in listed
    is_special = name.startswith("__") and name.endswith("__")
    return is_special or not name.startswith("_")


def _python_name(node: ast.stmt, *, in_class: bool) -> tuple[str, Kind, str] | None:
    """Return name, kind and head of a statement that defines something."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        returns = f" -> {spelled(node.returns)}" if node.returns else ""
        word = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        head = f"{word}({_taken(node.args)}){returns}"
        marks = {last_part(ast.unparse(each)) for each in node.decorator_list}
        inside = "property" if marks & _PROPERTY_MARKS else "method"
        return node.name, inside if in_class else "function", head
    if isinstance(node, ast.ClassDef):
        given = [*node.bases, *node.keywords]
        return node.name, "class", f"({', '.join(map(ast.unparse, given))})"
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, head = node.targets[0], ""
    elif isinstance(node, ast.AnnAssign):
        target, head = node.target, f": {spelled(node.annotation)}"
    else:
        return None
    return (target.id, "constant", head) if isinstance(target, ast.Name) else None


def _taken(arguments: ast.arguments) -> str:
    text = ast.unparse(arguments)
    if ":" not in text:
        return text
    copied = ast.parse(f"def f({text}): ...").body[0]
    assert isinstance(copied, ast.FunctionDef)
    for each in ast.walk(copied.args):
        if isinstance(each, ast.arg) and each.annotation is not None:
            each.annotation = ast.parse(spelled(each.annotation), mode="eval").body
    return ast.unparse(copied.args)


def _is_python(path: str) -> bool:
    return path.lower().endswith((".py", ".pyi"))


def why_unread(path: str) -> str:
    """Return why `read_symbols` gives None for a file."""
    return "it cannot be parsed" if _is_python(path) else "its language is not read"
