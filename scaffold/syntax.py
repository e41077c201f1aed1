"""The one reader of Python source: a repository may be written for a newer Python than this one.

The interpreter's own parser reads a source first: twenty times as fast as LibCST, whose import
alone costs more than a whole command. Where it fails and LibCST does not, what is newer is spelled
in older syntax, byte for byte at the same place, and parsed again, so that every position holds.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    import libcst as cst


class Parsed(NamedTuple):
    """A module as it was read.

    Args:
        tree: Its syntax tree.
        unread_line: The first line of a statement that is missing in the tree, or 0.
        residue: The code that the tree shows in part, or not at all; of two sources it has to be
            compared beside the trees.
    """

    tree: ast.Module
    unread_line: int = 0
    residue: tuple[str, ...] = ()


class NewerSyntaxError(SyntaxError):
    """A source is sound, and too new to be read."""


class TypeParameter(NamedTuple):
    """A type parameter in a tree that came through LibCST; ``name`` as in `ast.TypeVar`."""

    name: str


def parse(source: str | bytes, path: str = "<unknown>") -> ast.Module:
    """Return the syntax tree of a module.

    Args:
        source: Its text; bytes are decoded as Python does.
        path: What to call it in an error.

    Raises:
        SyntaxError: Neither this Python nor a newer one can read it.
        NewerSyntaxError: It may be sound, and cannot be read as a whole.
    """
    parsed = read(source, path)
    if parsed.unread_line:  # what is missing in the tree must not look as if nobody defined it
        raise NewerSyntaxError(f"line {parsed.unread_line} is newer than what can be read")
    return parsed.tree


def read(source: str | bytes, path: str = "<unknown>") -> Parsed:
    """Return the syntax tree of a module and what is missing in it, as `parse` does."""
    try:
        return Parsed(_parse(source, path))
    except SyntaxError as error:
        try:
            older = _respelled(source)
        except (RecursionError, MemoryError) as deep:
            raise NewerSyntaxError("it is nested too deeply") from deep
        if older is None:
            raise
        try:
            tree = _parse(older.text, path)
        except SyntaxError:
            raise NewerSyntaxError(str(error)) from error
        _restore(tree, older)
        return Parsed(tree, older.unread_line, older.residue)


def _parse(source: str | bytes, path: str = "<unknown>") -> ast.Module:
    with warnings.catch_warnings():  # of "\d" in other people's strings
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source, path)
        except (ValueError, RecursionError, MemoryError) as error:
            raise SyntaxError(str(error) or "it is nested too deeply") from error


class _Respelled(NamedTuple):
    text: str
    unread_line: int
    residue: tuple[str, ...]
    type_parameters: dict[tuple[int, str], list[str]]
    bare_handlers: frozenset[int]
    alias_names: dict[tuple[int, int], tuple[int, int]]


@lru_cache(maxsize=64)  # several passes of a command read the same source
def _respelled(source: str | bytes) -> _Respelled | None:
    """Return a source in older syntax; None where LibCST cannot read it either."""
    import libcst as cst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

    try:
        text = source if isinstance(source, str) else _decoded(source)
        if "\0" in text:  # which no Python reads
            return None
        if _is_deep(text):
            raise RecursionError
        module = cst.parse_module(text)
    except (cst.ParserSyntaxError, SyntaxError, UnicodeError):
        return None
    except cst.CSTLogicError as error:  # such as of template strings side by side
        raise NewerSyntaxError(str(error)) from error
    raw = text.encode("utf-8")
    if module.bytes != raw:
        return None
    spans = MetadataWrapper(module, unsafe_skip_copy=True).resolve(ByteSpanPositionProvider)
    ends = {node: (at.start, at.start + at.length) for node, at in spans.items()}
    older = _Older(raw, ends)
    for node in sorted(ends, key=lambda each: (ends[each][0], -ends[each][1])):
        older.rewrite(node)
    unread_line = older.blank_unread(module.body)
    text = older.text.decode("utf-8")
    handlers = frozenset(older.bare_handlers)
    residue, parameters = tuple(older.residue), older.type_parameters
    return _Respelled(text, unread_line, residue, parameters, handlers, older.alias_names)


def _restore(tree: ast.Module, older: _Respelled) -> None:
    """Give the tree what the older spelling has no place for."""
    for node in ast.walk(tree):
        newer: Any = node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = older.type_parameters.get((node.lineno, node.name), [])
            newer.type_params = [TypeParameter(name) for name in names]
        elif isinstance(node, ast.Assign) and (node.lineno, node.col_offset) in older.alias_names:
            name, (line, column) = node.targets[0], older.alias_names[node.lineno, node.col_offset]
            name.end_col_offset = column + (name.end_col_offset or 0) - name.col_offset
            name.lineno = name.end_lineno = line
            name.col_offset = column
        elif isinstance(node, ast.ExceptHandler) and node.lineno in older.bare_handlers:
            caught = _operands(node.type)
            if len(caught) > 1:
                first, last = caught[0], caught[-1]
                node.type = ast.copy_location(ast.Tuple(caught, ast.Load()), first)
                node.type.end_lineno = last.end_lineno
                node.type.end_col_offset = last.end_col_offset


def _operands(node: ast.expr | None) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_operands(node.left), *_operands(node.right)]
    return [] if node is None else [node]


_QUOTED = r"\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*|[ \t]+"
_MAX_DEPTH = 100
_MAX_ELIFS = 500
_MAX_OPERANDS_LENGTH = 6000


def _is_deep(text: str) -> bool:
    """Return whether a source is nested as no person writes; LibCST's parser crashes on it."""
    depth = length = 0
    code = re.sub(_QUOTED, "", text)
    for part in re.findall(r"[()\[\]{},;\n]|[^()\[\]{},;\n]+", code):
        if part in "([{":
            depth += 1
        elif part in ")]}":
            depth -= 1
        # Each operand of -----x, a.b().c() and a + b + c is a level too; in brackets they go on
        # over lines.
        length = 0 if part in ",;" or (part == "\n" and depth <= 0) else length + len(part)
        if depth > _MAX_DEPTH or length > _MAX_OPERANDS_LENGTH:
            return True
    return len(re.findall(r"\belif\b", code)) > _MAX_ELIFS


def _decoded(source: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return source.decode(encoding)


class _Older:
    """Spells newer syntax in older one, each byte at its place.

    Args:
        raw: The source in UTF-8.
        spans: The first byte of each node, and the one behind it.
    """

    def __init__(self, raw: bytes, spans: dict[cst.CSTNode, tuple[int, int]]) -> None:
        self.raw = raw
        self.text = bytearray(raw)
        self.residue: list[str] = []
        self._spans = spans
        self.type_parameters: dict[tuple[int, str], list[str]] = {}
        self.bare_handlers: set[int] = set()
        self.alias_names: dict[tuple[int, int], tuple[int, int]] = {}
        """The place of an alias in the older spelling, and where its name is in the source."""

    def rewrite(self, node: cst.CSTNode) -> None:
        kind = type(node).__name__
        if kind in ("FunctionDef", "ClassDef", "TypeAlias"):
            self._drop_type_parameters(node)
        if kind == "TypeAlias":
            alias: Any = node
            self._move_to_start(node, alias.name, alias.type_parameters)
        elif kind in ("LazyImport", "LazyImportFrom"):
            self._blank_word(node, b"lazy")
        elif kind in ("ExceptHandler", "ExceptStarHandler"):
            self._join_exceptions(node)
        elif kind in ("FormattedString", "TemplatedString", "ConcatenatedString"):
            self._open_string(node)

    def blank_unread(self, body: Iterable[cst.CSTNode]) -> int:
        """Blank the statements of a module that are too new all the same; return the first line."""
        first = 0
        for statement in body:
            start, end = self._spans[statement]
            decorators = getattr(statement, "decorators", ())
            start = self._spans[decorators[0]][0] if decorators else start
            try:
                _parse(self.text[start:end].decode("utf-8"))
            except SyntaxError:
                first = first or self._line(start)
                self._keep(start, end)
                self._blank(start, end)
        return first

    # --- one kind of syntax each ----------------------------------------------------------------

    def _drop_type_parameters(self, node: cst.CSTNode) -> None:
        parameters = getattr(node, "type_parameters", None)
        if parameters is None:
            return
        definition: Any = node
        name: Any = definition.name
        rows: Any = parameters.params
        self.type_parameters[self._line(self._spans[name][0]), name.value] = [
            each.param.name.value for each in rows
        ]
        start, end = self._spans[parameters]
        self._keep(start, end)
        if self.raw[end:].lstrip(b" \t").startswith(b"(") and b"\n" in self.raw[start:end]:
            end = self.raw.index(b"(", end) + 1  # brackets keep the lines of one statement together
            self._blank(start, end)
            self.text[start : start + 1] = b"("
        elif type(node).__name__ == "ClassDef" and b"\n" in self.raw[start:end]:
            self._blank(start, end)
            self.text[start : start + 1], self.text[end - 1 : end] = b"(", b")"
        else:
            self._blank(start, end)

    def _move_to_start(self, statement: cst.CSTNode, name: cst.CSTNode, parameters: Any) -> None:
        """``type X = int`` becomes ``X      = int``."""
        start, (first, end) = self._spans[statement][0], self._spans[name]
        self.alias_names[self._place(start)] = self._place(first)
        self._keep(start, end)
        self._blank(start, end)
        self.text[start : start + end - first] = self.raw[first:end]
        equals = self.raw.index(b"=", max(end, self._spans.get(parameters, (0, 0))[1]))
        for at in range(end, equals):  # brackets that are gone held the lines together
            if self.raw[at : at + 1] == b"\n":
                self.text[at - 1 : at] = b"\\"

    def _blank_word(self, node: cst.CSTNode, word: bytes) -> None:
        """``lazy import x`` becomes ``import x`` where its line begins."""
        start, end = self._spans[node]
        self._keep(start, end)
        rest = self.raw[start + len(word) : end].lstrip(b" ")
        self.text[start:end] = rest + b" " * (end - start - len(rest))

    def _join_exceptions(self, handler: cst.CSTNode) -> None:
        """``except A, B:`` becomes ``except A| B:``."""
        caught: Any = getattr(handler, "type", None)
        if type(caught).__name__ != "Tuple" or caught.lpar:
            return
        self.bare_handlers.add(self._line(self._spans[handler][0]))
        for element in caught.elements:
            if element.comma is not None and element.comma in self._spans:
                at = self._spans[element.value][1]
                at = self.raw.index(b",", at)
                self._keep(at, at + 1)
                self.text[at : at + 1] = b" " if element is caught.elements[-1] else b"|"

    def _open_string(self, node: cst.CSTNode) -> None:
        """Make a string with expressions that is too new a tuple of them, each at its place."""
        start, end = self._spans[node]
        if bytes(self.text[start:end]) != self.raw[start:end]:
            return  # the string around it is open already
        parts = self._parts(node)
        is_template = any(type(each).__name__ == "TemplatedString" for each in parts)
        if not is_template:
            try:
                _parse(f"({self.raw[start:end].decode()})")
            except SyntaxError:
                pass
            else:
                return
        self._keep(start, end)
        expressions = [each for part in parts for each in self._expressions(part)]
        self._blank(start, end)
        self.text[start : start + 1] = b"("
        self.text[end - 1 : end] = b")"
        for each in expressions:
            first, behind = self._spans[each]
            self.text[first:behind] = self.raw[first:behind]
            if self.raw[first:behind].endswith(b","):
                continue
            while self.raw[behind : behind + 1] in (b"\r", b"\n"):  # a line must keep its end
                behind += 1
            self.text[behind : behind + 1] = b","
        for each in expressions:  # strings within: they are newer too, or sound as they are
            for inner in self._nested(each):
                self._open_string(inner)

    def _parts(self, node: Any) -> list[cst.CSTNode]:
        if type(node).__name__ != "ConcatenatedString":
            return [node]
        return [*self._parts(node.left), *self._parts(node.right)]

    def _expressions(self, part: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the expressions of a string, with those of their format specifications."""
        found: list[cst.CSTNode] = []
        for each in getattr(part, "parts", ()):
            if hasattr(each, "expression"):
                found.append(each.expression)
                spec = getattr(each, "format_spec", None) or ()
                found += [inner.expression for inner in spec if hasattr(inner, "expression")]
        return found

    def _nested(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        names = ("FormattedString", "TemplatedString", "ConcatenatedString")
        if type(node).__name__ in names:
            return [node]
        return [found for child in node.children for found in self._nested(child)]

    # --- bytes ----------------------------------------------------------------------------------

    def _blank(self, start: int, end: int) -> None:
        self.text[start:end] = re.sub(rb"[^\r\n]", b" ", bytes(self.text[start:end]))

    def _keep(self, start: int, end: int) -> None:
        self.residue.append(self.raw[start:end].decode("utf-8"))

    def _line(self, offset: int) -> int:
        return self.raw.count(b"\n", 0, offset) + 1

    def _place(self, offset: int) -> tuple[int, int]:
        return self._line(offset), offset - self.raw.rfind(b"\n", 0, offset) - 1
