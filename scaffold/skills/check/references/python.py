"""The Python of a document: its blocks, what they import, what they call."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.fragments import (
    parse_fragment,
    parse_or_none,
    parts_of,
    problem_of,
    undoctested,
)
from scaffold.analysis.python.scopes import bound_names, imported
from scaffold.analysis.python.signatures import read_signature
from scaffold.analysis.python.statements import nodes_of
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.read.markdown import Block
from scaffold.skills.check.reference import Reference

LANGUAGES = frozenset({"python", "py", "python3", "pycon"})

_ELIDED = lazy_re(
    r"…|\.\.\.|\{\{|\{%|<[A-Za-z][^<>\n]*>|^\s*[$%!?]|^[+-] ?\S|\{[A-Za-z_]+\}\w|\{[a-z_]+\}"
    r"|=[ \t]*#|\b[A-Z]{2,}_NAME\b",
    re.MULTILINE,
)
_STATEMENT = lazy_re(
    r"^\s*(?:from\s+[\w.]+\s+import|import\s+\w|(?:async\s+)?def\s+\w+\(|@\w)", re.M
)
# What the Python that runs this may be too old, or too new, to parse.
_OTHER_PYTHONS = lazy_re(
    r"^\s*(?:type\s+\w+.*=|(?:async\s+)?(?:def|class)\s+\w+\[|except\s+\w[\w.]*\s*,\s*\w|lazy\s"
    r"|print\s+[\"'\w]|exec\s)|\b[ftFT][\"']",
    re.MULTILINE,
)
_SETTERS = frozenset({"setattr", "object", "setitem", "delattr"})


@dataclass(frozen=True)
class Source:
    """One block of Python.

    Args:
        block: Where it is.
        tree: Its syntax, as far as it can be parsed; None where nothing of it can.
        problem: Python's error for a block that is otherwise whole, or empty.
        problem_line: Where, in the document's lines.
    """

    block: Block
    tree: ast.Module | None
    problem: str = ""
    problem_line: int = 0

    def line(self, node: ast.AST) -> int:
        """Return the document's line of a node."""
        return self.block.line + int(getattr(node, "lineno", 1)) - 1


class Imported(NamedTuple):
    """What one import names: the module, and the name that is taken from it or nothing."""

    module: str
    name: str


class Shown(NamedTuple):
    """A member of a class that a block writes out."""

    owner: ast.ClassDef
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.AnnAssign
    name: str


class Called(NamedTuple):
    """A call, or a member that is read.

    Args:
        dotted: The full name of what is called; behind ``?.`` a bare name, and ``?loader.save``
            is a method of a variable that the block takes from elsewhere.
        call: The call; None where a member is only read.
        is_whole: Whether the block around it leaves nothing out.
        keyword: The one argument that is looked at; empty for the call as such.
    """

    dotted: str
    call: ast.Call | None
    is_whole: bool
    keyword: str = ""


@lru_cache(maxsize=16)
def python_sources(document: Document) -> tuple[Source, ...]:
    """Return the blocks of Python of a document."""
    return tuple(_source(fence) for fence in document.markdown.fences if _is_python(fence))


def find_python(document: Document) -> Iterator[Reference]:
    """Yield the blocks of Python, the imports in them, and the calls of what they import."""
    names, bound = imported_names(document), defined_names(document)
    # What another block imports counts only where no block means something else by the name.
    shared = {name: dotted for name, dotted in names.items() if name not in bound}
    for source in python_sources(document):
        first = source.block.text.strip().split("\n", 1)[0]
        line = source.problem_line if source.problem else source.block.line
        yield Reference(
            "python", first, line, 1, source.problem or source.tree is not None, source.block
        )
        if source.tree is None:
            continue
        for node in nodes_of(source.tree):
            if isinstance(node, ast.ClassDef):
                yield from _shown(node, source)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                yield from _imports(node, source.line(node), source.block)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark":
                yield Reference("marker", node.attr, source.line(node), 1, node.attr, source.block)
        yield from _Finder(source, source.tree, shared).references()
    for span in document.markdown.codes:
        if span.text.startswith(("import ", "from ")):
            for node in getattr(parse_or_none(span.text), "body", ()):
                for each in _imports(node, span.line, None):
                    yield each._replace(column=span.column, span=span)


def _shown(node: ast.ClassDef, source: Source) -> Iterator[Reference]:
    """Yield the members of a class that a block writes out."""
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            shown = Shown(node, each, each.target.id)
        elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            shown = Shown(node, each, each.name)
        else:
            continue
        place = source.line(each), each.col_offset + 1
        yield Reference("definition", f"{node.name}.{shown.name}", *place, shown, source.block)


def _imports(node: ast.AST, line: int, block: Block | None) -> Iterator[Reference]:
    if isinstance(node, ast.Import):
        for each in node.names:
            yield Reference(
                "import", f"import {each.name}", line, 1, Imported(each.name, ""), block
            )
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for each in node.names:
            text = f"from {node.module} import {each.name}"
            name = "" if each.name == "*" else each.name
            yield Reference("import", text, line, 1, Imported(node.module, name), block)


def _is_python(fence: Block) -> bool:
    words = fence.info.replace(",", " ").replace("{", " ").replace("}", " ").split()
    if not words:
        return _STATEMENT.search(fence.text) is not None and parse_or_none(fence.text) is not None
    return words[0].lower().lstrip(".") in LANGUAGES


def _source(fence: Block) -> Source:
    text = undoctested(fence.text)
    tree = parse_fragment(text)
    if tree is not None:
        return Source(fence, tree)
    parts = list(parts_of(text))
    good = [each for _, part in parts if (each := parse_fragment(part)) is not None and each.body]
    body = [node for each in good for node in each.body]
    whole = ast.Module(body, []) if body else None
    is_sketch = _ELIDED.search(text) or _OTHER_PYTHONS.search(text)
    # One part alone, or several that are wrong, are notes and no program.
    if is_sketch or whole is None or len(good) < len(parts) - 1:
        return Source(fence, whole)
    problem, line = problem_of(text)
    if "indent" in problem:
        return Source(fence, whole)
    return Source(fence, whole, problem, fence.line + line - 1)


@lru_cache(maxsize=16)
def imported_names(document: Document) -> dict[str, str]:
    """Return what each name means that a block of the document imports, as a dotted name.

    A name that blocks import from different packages means neither for certain.
    """
    names: dict[str, str] = {}
    tops: dict[str, set[str]] = {}
    for source in python_sources(document):
        if source.tree is not None:
            for name, dotted in imported(source.tree):
                names[name] = dotted
                tops.setdefault(name, set()).add(dotted.split(".")[0])
    return {name: dotted for name, dotted in names.items() if len(tops[name]) == 1}


@lru_cache(maxsize=16)
def defined_names(document: Document) -> frozenset[str]:
    """Return every name that some block of the document binds: its own, not the repository's."""
    return frozenset(
        name
        for source in python_sources(document)
        if source.tree is not None
        for name in bound_names(source.tree)
    )


@lru_cache(maxsize=16)
def written_names(document: Document) -> dict[str, frozenset[str]]:
    """Return the functions, classes and members that some block writes out, with what they take.

    They may be those of the repository as the reader is to change them.
    """
    taken: dict[str, frozenset[str]] = {}
    for source in python_sources(document):
        for node in source.tree.body if source.tree is not None else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                taken[node.name] = _parameters(node)
            elif isinstance(node, ast.ClassDef):
                taken |= _members(node)
    return taken


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    return frozenset(each.name for each in read_signature(node).parameters)


def _members(node: ast.ClassDef) -> dict[str, frozenset[str]]:
    members: dict[str, frozenset[str]] = {}
    for each in node.body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            members[f"{node.name}.{each.name}"] = _parameters(each)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            members[f"{node.name}.{each.target.id}"] = frozenset()
    fields = frozenset(name.partition(".")[2] for name, taken in members.items() if not taken)
    return members | {node.name: members.get(f"{node.name}.__init__", fields)}


class _Finder:
    """Finds the calls of one block."""

    def __init__(self, source: Source, tree: ast.Module, shared: dict[str, str]) -> None:
        self._source = source
        self._tree = tree
        own: dict[str, set[str]] = {}
        for name, dotted in imported(tree):
            own.setdefault(name, set()).add(dotted)
        bound = Counter(bound_names(tree))
        # A name that is imported and bound again means either; one imported twice, too.
        meant = shared | {name: min(dotted) for name, dotted in own.items() if len(dotted) == 1}
        meant = {name: dotted for name, dotted in meant.items() if len(own.get(name, ())) < 2}
        self._names = {name: dotted for name, dotted in meant.items() if name not in bound}
        self._bound = bound.keys() | own.keys() | shared.keys()
        self._made = _made_once(tree, self._names, bound)
        self._set = _set_attributes(tree)
        self._is_whole = _is_complete(tree) and "#" not in source.block.text

    def references(self) -> Iterator[Reference]:
        called: set[int] = set()
        for node in nodes_of(self._tree):
            if isinstance(node, ast.Call):
                called.add(id(node.func))
                is_instance = isinstance(node.func, ast.Name) and node.func.id in self._made
                if dotted := self._dotted(node.func):
                    dotted += ".__call__" if is_instance else ""
                elif isinstance(node.func, ast.Name) and node.func.id not in self._bound:
                    # Nothing here defines it: it is what the repository alone calls so.
                    dotted = f"?.{node.func.id}"
                elif (free := _free_owner(node.func)) and free not in self._bound:
                    dotted = f"?{free}.{_callee(node.func)}"
                if dotted:
                    yield self._reference(node, dotted, node)
                    for each in node.keywords:
                        if each.arg is not None and each.lineno != node.lineno:
                            yield self._argument(node, dotted, each)
        for node in nodes_of(self._tree):
            if isinstance(node, ast.Attribute) and id(node) not in called:
                dotted = self._dotted(node)
                if dotted and isinstance(node.ctx, ast.Load):
                    yield self._reference(node, dotted, None)

    def _reference(self, node: ast.expr, dotted: str, call: ast.Call | None) -> Reference:
        text = " ".join(ast.unparse(node).split())
        data = Called(dotted, call, self._is_whole)
        line, column = self._source.line(node), node.col_offset + 1
        return Reference("call", text[:120], line, column, data, self._source.block)

    def _argument(self, node: ast.Call, dotted: str, keyword: ast.keyword) -> Reference:
        text = f"{_callee(node.func)}({' '.join(ast.unparse(keyword).split())})"
        data = Called(dotted, node, self._is_whole, keyword.arg or "")
        line, column = self._source.line(keyword), keyword.col_offset + 1
        return Reference("call", text[:120], line, column, data, self._source.block)

    def _dotted(self, node: ast.expr) -> str | None:
        """Return the full name of `a.b.c`, where a is imported or made from a class that is."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            if node.attr in self._set:
                return None
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            start = self._names.get(node.func.id) if node.func.id[:1].isupper() else None
        elif isinstance(node, ast.Name):
            start = self._made.get(node.id) or self._names.get(node.id)
        else:
            return None
        return ".".join([start, *reversed(parts)]) if start else None


def _made_once(tree: ast.Module, names: dict[str, str], bound: Counter[str]) -> dict[str, str]:
    """Return the class of each variable that is bound once, to a call of an imported class."""
    made: dict[str, str] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if (
                isinstance(target, ast.Name)
                and isinstance(value, ast.Call)
                and isinstance(value.func, ast.Name)
                and value.func.id[:1].isupper()
                and value.func.id in names
            ):
                made[target.id] = names[value.func.id]
    return {name: dotted for name, dotted in made.items() if bound[name] == 1}


def _set_attributes(tree: ast.AST) -> set[str]:
    """Return the attributes that the code sets on whatever it holds, `setattr` and mocks too."""
    found: set[str] = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and _callee(node.func) in _SETTERS:
            words = (each.value for each in node.args if isinstance(each, ast.Constant))
            found.update(each for each in words if isinstance(each, str))
    return found


def _free_owner(node: ast.expr) -> str:
    """Return the variable whose method is called, or nothing."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    return owner.id if isinstance(owner, ast.Name) else ""


def _callee(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_complete(tree: ast.Module) -> bool:
    """Return whether a block begins with its imports and leaves nothing out by an ellipsis."""
    has_gap = any(
        isinstance(node, ast.Constant) and node.value is Ellipsis for node in nodes_of(tree)
    )
    first = tree.body[0] if tree.body else None
    return isinstance(first, (ast.Import, ast.ImportFrom)) and not has_gap
