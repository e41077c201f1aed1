"""The registry lines in which a unit occurs: every shape that a file can hold is looked for."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, cast

from scaffold.analysis.python.statements import statements
from scaffold.edit import shapes
from scaffold.edit.entry import Entry
from scaffold.edit.lines import context_of, read_text
from scaffold.edit.markdown_text import read_page
from scaffold.edit.python_file import PythonFile, read_python
from scaffold.edit.yaml_tree import Item, Node, YamlError, read_yaml
from scaffold.errors import ScaffoldError
from scaffold.units.init.spellings import Name, masked

Wanted = Callable[[str], bool]
"""A test whether a text holds the unit's name."""

_TITLES = ("caption", "title", "name", "file", "id")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LISTS = (".txt", ".rst", ".in", ".cfg", ".lst", "")


@lru_cache(maxsize=2048)
def find_entries(path: str, data: bytes, name: Name) -> tuple[Entry, ...]:
    """Return what may be registry lines that name a unit, in every shape that they may have.

    Args:
        path: The file, relative to the root.
        data: Its bytes.
        name: The unit's name.
    """
    return tuple(dict.fromkeys(_candidates(path, data, name.occurs_in, name)))


@lru_cache(maxsize=8192)
def proven_line(data: bytes, entry: Entry) -> int | None:
    """Return the line of an entry that is there, so that adding it changes nothing."""
    try:
        if not shapes.has_entry(data, entry):
            return None
        edit = shapes.add_entry(data, entry)
    except ScaffoldError:
        return None
    return edit.line if edit.data == data else None


def without_entry(data: bytes, entry: Entry) -> bytes:
    """Return a file without an entry; as it is where the entry has gone with another one."""
    try:
        return shapes.remove_entry(data, entry) if shapes.has_entry(data, entry) else data
    except ScaffoldError:
        return data


def _candidates(path: str, data: bytes, wanted: Wanted, unit: Name) -> Iterator[Entry]:
    name = PurePosixPath(path)
    try:
        text = data.decode("utf-8-sig")
        if name.name == "CODEOWNERS":
            for table in ("", *re.findall(r"(?m)^[ \t]*\^?\[([^\]]+)\]", text)):
                yield from _rows(path, data, table, "owners", wanted)
        elif name.suffix in (".py", ".pyi"):
            yield from _Python(path, data, wanted, unit).entries()
        elif name.suffix in (".yml", ".yaml"):
            root = read_yaml(read_text(data, context_of(_entry(path, "", "yaml"))).lines)
            yield from _yaml(path, root, "", wanted)
        elif name.suffix == ".toml":
            yield from _toml(path, tomllib.loads(text), "", wanted)
        elif name.suffix in (".md", ".markdown"):
            yield from _markdown(path, data, wanted)
        elif name.suffix in _LISTS:
            yield from _lists(path, text, wanted)
    except (ScaffoldError, YamlError, SyntaxError, ValueError, RecursionError):
        return  # what cannot be read is no registry; its lines are left to a person


def _entry(
    file: str, table: str, shape: str, key: str = "", value: str = "", code: Sequence[str] = ()
) -> Entry:
    return Entry(file, table, shape, key, value, tuple(code))


@lru_cache(maxsize=4)
def _python_file(path: str, data: bytes) -> PythonFile:
    """Return a file that was parsed; one file is read for one unit after the other."""
    return read_python(data, context_of(_entry(path, "", "list")))


# ---- Python --------------------------------------------------------------------------------------


class _Python:
    """Looks for entries of every Python shape in one file."""

    def __init__(self, path: str, data: bytes, wanted: Wanted, name: Name) -> None:
        self.path = path
        self.wanted = wanted
        self.name = name
        self.file = _python_file(path, data)
        self.tree, self.source, raw = self.file.tree, self.file.text, self.file.raw
        spans = pairwise([*self.file.starts, len(raw)])
        self.lines = [raw[start:end].decode() for start, end in spans]

    def entries(self) -> Iterator[Entry]:
        yield from self._scope(self.tree.body, "")
        yield from self._assignments(self.tree.body, "")
        yield from self._imports(self.tree.body, "")
        for node in self.tree.body:
            yield from self._statement(node)
        yield from self._branches(self.tree, "")

    def names(self, node: ast.expr | ast.pattern) -> bool:
        return self.wanted(self.source(node))

    def _scope(self, body: Sequence[ast.stmt], prefix: str) -> Iterator[Entry]:
        # Registries under `if X:` or `try: import x` belong to the scope around them.
        for node, _ in statements(body):
            match node:
                case ast.ClassDef():
                    yield from self._scope(node.body, f"{prefix}{node.name}.")
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    yield from self._literal(value, prefix + name)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    yield from self._literal(value, prefix + name)
                case ast.AugAssign(target=ast.Name(id=name), value=value):
                    yield from self._literal(value, prefix + name)
                case ast.Expr(
                    value=ast.Call(
                        func=ast.Attribute(
                            value=ast.Name() | ast.Subscript() as owner, attr="extend" | "update"
                        ),
                        args=[given],
                    )
                ):
                    yield from self._literal(given, prefix + self.source(owner))
                case _:
                    pass

    def _assignments(self, body: Sequence[ast.stmt], prefix: str) -> Iterator[Entry]:
        """Look for members of enumerations, and constants that are called alike."""
        for node in body:
            match node:
                case ast.ClassDef():
                    yield from self._assignments(node.body, f"{prefix}{node.name}.")
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    if spans := self.name.spans(name):
                        table = "*" if prefix else masked(name, spans, "*")
                        text, code = self._part(value, "value")
                        yield _entry(self.path, prefix + table, "assignment", name, text, code)
                case _:
                    pass

    def _literal(self, value: ast.expr, address: str) -> Iterator[Entry]:
        if not self.names(value):
            return
        match value:
            case ast.Dict():
                for key, item in zip(value.keys, value.values, strict=True):
                    # `**others` has no key.
                    if key is not None:
                        yield from self._pair(key, item, address)
            case ast.List() | ast.Tuple() | ast.Set():
                for item in value.elts:
                    if self.names(item):
                        text, code = self._part(item, "key")
                        yield _entry(self.path, address, "list", text, "", code)
            case ast.Call(args=args, keywords=keywords):
                for word in keywords:
                    if word.arg and self.wanted(f"{word.arg} {self.source(word.value)}"):
                        text, code = self._part(word.value, "value")
                        yield _entry(self.path, address, "dict", word.arg, text, code)
                for item in args:
                    yield from self._literal(item, address)
            # `NAMES = BASE + ["x"]`, `TABLE = BASE | {"x": X}`.
            case ast.BinOp(left=left, right=right):
                yield from self._literal(left, address)
                yield from self._literal(right, address)
            case _:
                pass

    def _pair(self, key: ast.expr, value: ast.expr, address: str) -> Iterator[Entry]:
        is_inner = isinstance(value, ast.Dict | ast.List | ast.Tuple | ast.Set | ast.Call)
        if self.names(key) or (self.names(value) and not is_inner):
            known, code = self._part(key, "key")
            text, more = self._part(value, "value")
            yield _entry(self.path, address, "dict", known, text, (*code, *more))
        elif is_inner:
            yield from self._literal(value, f"{address}[{self.source(key)}]")

    def _part(self, node: ast.expr, part: str) -> tuple[str, tuple[str, ...]]:
        """Return a key or value as an entry has it, and whether it is source text."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value, ()
        return self.source(node), (part,)

    def _imports(self, body: Sequence[ast.stmt], table: str) -> Iterator[Entry]:
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = ""
                if isinstance(node, ast.ImportFrom):
                    module = "." * node.level + (node.module or "")
                for alias in node.names:
                    key = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
                    if self.wanted(f"{module} {key}"):
                        yield _entry(self.path, table, "import", key, module)
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                yield from self._imports(node.body, "TYPE_CHECKING")
            elif isinstance(node, ast.If | ast.Try) and (table or isinstance(node, ast.Try)):
                for arm in (node.body, node.orelse):
                    yield from self._imports(arm, table or "try")

    def _statement(self, node: ast.stmt) -> Iterator[Entry]:
        match node:
            case ast.Expr(value=ast.Call(func=func, args=args, keywords=keywords)):
                given = [*args, *(word.value for word in keywords)]
                # A call with more arguments than key and value cannot be written by the shape.
                if given and any(map(self.names, given[:2])) and len(given) <= 2:
                    yield from self._call("call", func, given)
            case ast.Assign(targets=[ast.Subscript(value=owner, slice=key)], value=value):
                if self.names(key) or self.names(value):
                    yield from self._call("subscript", owner, [key, value])
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and mark.args and self.names(mark.args[0]):
                        yield from self._decorated(node, mark)
            case _:
                pass

    def _call(self, shape: str, func: ast.expr, given: Sequence[ast.expr]) -> Iterator[Entry]:
        key, code = self._part(given[0], "key")
        value, more = self._part(given[1], "value") if given[1:] else ("", ())
        yield _entry(self.path, self.source(func), shape, key, value, (*code, *more))

    def _decorated(
        self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, mark: ast.Call
    ) -> Iterator[Entry]:
        # The entry's value is the definition without the registering decorator.
        skipped = range(mark.lineno - 1, mark.end_lineno or mark.lineno)
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1
        rows = range(first, node.end_lineno or node.lineno)
        value = "".join(self.lines[n] for n in rows if n not in skipped)
        key, code = self._part(mark.args[0], "key")
        yield _entry(self.path, self.source(mark.func), "decorator", key, value, code)

    def _branches(self, node: ast.AST, prefix: str) -> Iterator[Entry]:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.ClassDef):
                yield from self._branches(inner, f"{prefix}{inner.name}.")
            elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                table = prefix + inner.name
                for each in ast.walk(inner):
                    if isinstance(each, ast.If) and self.names(each.test):
                        yield self._branch(table, self.source(each.test), each.body)
                    elif isinstance(each, ast.match_case) and self.names(each.pattern):
                        yield self._branch(table, self.source(each.pattern), each.body)

    def _branch(self, table: str, test: str, body: Sequence[ast.stmt]) -> Entry:
        rows = "".join(self.lines[body[0].lineno - 1 : body[-1].end_lineno])
        own = textwrap.dedent(rows.replace("\r\n", "\n")).strip("\n")
        # `if a: return 1`: the body shares its line with the condition, and is written again.
        is_below = not self.lines[body[0].lineno - 1].encode()[: body[0].col_offset].strip()
        value = own if is_below else "\n".join(map(ast.unparse, body))
        return _entry(self.path, table, "branch", test, value)


# ---- other files ---------------------------------------------------------------------------------


def _yaml(path: str, node: Node, table: str, wanted: Wanted) -> Iterator[Entry]:
    if node.kind == "mapping":
        for item in node.items:
            yield from _yaml_pair(path, item, table, wanted)
    for item in node.items if node.kind == "list" else ():
        inner = item.node
        if inner.text is not None and wanted(inner.text):
            yield _entry(path, table, "yaml", inner.text)
        elif inner.kind == "mapping" and len(inner.items) == 1:
            (pair,) = inner.items
            text = pair.node.text or ""
            if wanted(text) and not wanted(pair.key or ""):
                # Items may all be known by the same key: ``- file: x``.
                yield _entry(path, f"{table}[{pair.key}]", "yaml", text)
            yield from _yaml_pair(path, pair, table, wanted)
        elif inner.kind == "mapping":
            names = [each for each in inner.items if each.key in _TITLES and each.node.text]
            for name in names[:1]:
                yield from _yaml(path, inner, _step(table, str(name.node.text)), wanted)


def _yaml_pair(path: str, item: Item, table: str, wanted: Wanted) -> Iterator[Entry]:
    if item.key is None:
        return
    if item.node.text is not None:
        if wanted(f"{item.key} {item.node.text}"):
            yield _entry(path, table, "yaml", item.key, item.node.text)
    else:
        yield from _yaml(path, item.node, _step(table, item.key), wanted)


def _step(table: str, name: str) -> str:
    escaped = name.replace("/", "\\/")
    return f"{table}/{escaped}" if table else escaped


def _toml(path: str, content: dict[str, Any], table: str, wanted: Wanted) -> Iterator[Entry]:
    for key, value in content.items():
        step = key if _BARE_KEY.fullmatch(key) else f'"{key}"'
        inner = f"{table}.{step}" if table else step
        if isinstance(value, dict):
            yield from _toml(path, cast("dict[str, Any]", value), inner, wanted)
        elif isinstance(value, list):
            for each in cast("list[Any]", value):
                if isinstance(each, str) and wanted(each):
                    yield _entry(path, inner, "toml", each)
        elif isinstance(value, str) and wanted(f"{key} {value}"):
            yield _entry(path, table, "toml", key, value)


def _markdown(path: str, data: bytes, wanted: Wanted) -> Iterator[Entry]:
    headings = read_page(read_text(data, context_of(_entry(path, "", "markdown")))).headings
    for shape in ("markdown", "markdown-list"):
        for table in dict.fromkeys([*(each.title for each in headings), ""]):
            yield from _rows(path, data, table, shape, wanted)


def _rows(path: str, data: bytes, table: str, shape: str, wanted: Wanted) -> Iterator[Entry]:
    for key, value in _read(path, data, table, shape).items():
        if wanted(f"{key} {value or ''}"):
            yield _entry(path, table, shape, key, value or "")


@lru_cache(maxsize=512)
def _read(path: str, data: bytes, table: str, shape: str) -> dict[str, str | None]:
    """Return what a table holds; one file is read for one unit after the other."""
    try:
        return shapes.read_entries(data, _entry(path, table, shape))
    except ScaffoldError:
        return {}


def _lists(path: str, text: str, wanted: Wanted) -> Iterator[Entry]:
    """Look below the nearest directive, option or comment, then at a file that is one list."""
    rows = text.splitlines()
    for number, row in enumerate(rows):
        if not wanted(row) or row.lstrip().startswith("#"):
            continue
        # Any of the last three markers may be what the list is known by; `proven_line` finds out.
        above = [each for each in rows[:number] if re.match(r"\s*(#|\.\. |:[\w-]+:)", each)]
        for marker in reversed(above[-3:]):
            yield _entry(path, " ".join(marker.split()), "text", " ".join(row.split()))
        items = [each for each in rows if each.strip() and not each.lstrip().startswith("#")]
        # Names or `name value` pairs: a file of sentences is no list.
        if all(len(each.split()) <= 2 for each in items):
            yield _entry(path, "", "text", " ".join(row.split()))
