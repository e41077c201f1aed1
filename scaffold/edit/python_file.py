"""A Python file as syntax tree with byte offsets, or a refusal that names the line.

What is newer than the running interpreter is read through LibCST; see `scaffold.syntax`.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

from scaffold.edit.layout import NEWLINE, line_at, line_starts
from scaffold.edit.refusal import Context
from scaffold.edit.source import Source, read_source
from scaffold.syntax import read

_GENERATED = re.compile(
    rb"(?i)^#.*(@generated\b|\bdo not (edit|modify)\b|\b(auto[- ]?)?generated (by|from)\b"
    rb"|\bauto(matically)?[- ]?generated\b)"
)
_MARKER = re.compile(rb"^(?:<{7}|>{7}) ", re.MULTILINE)
_COMMENT_OR_BLANK = re.compile(rb"[ \t\f]*(#.*)?$")
_HEAD_LINES = 5
"""So far down a mark of generated files counts where code stands above it."""


@dataclass(frozen=True)
class PythonFile:
    """A file that was parsed; offsets count in the bytes of ``source.raw``.

    Args:
        source: The text and how it is stored.
        tree: The syntax tree; statements of ``unread_line`` and below may be missing in it.
        starts: The offset at which each line begins.
        unread_line: The first line that is newer than the interpreter, or 0.
    """

    source: Source
    tree: ast.Module
    starts: list[int]
    unread_line: int = 0

    @property
    def raw(self) -> bytes:
        return self.source.raw

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return the offset at which a node begins, without parentheses around it."""
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Return the offset behind a node, without parentheses around it."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        """Return the source text of an expression, without parentheses around it."""
        return self.raw[self.start(node) : self.end(node)].decode("utf-8")


def read_python(data: bytes, context: Context) -> PythonFile:
    """Parse a file's bytes.

    Raises:
        RegistryError: The file is generated, holds conflict markers, or cannot be parsed.
    """
    if b"\0" in data:
        line = line_at(data, data.index(b"\0"))
        raise context.refusal("registry_syntax", line, "the file holds NUL bytes")
    try:
        source = read_source(data)
        tree, unread_line, _ = read(source.raw.decode("utf-8"))
        file = PythonFile(source, tree, line_starts(source.raw), unread_line)
    except SyntaxError as error:
        raise _unparsable(data, context, error) from error
    except (RecursionError, MemoryError) as error:
        reason = "the file is nested too deeply to be read"
        raise context.refusal("registry_syntax", 0, reason) from error
    generated = _generated_line(source.raw)
    if generated:
        raise context.refusal("registry_generated", generated, "the file is generated")
    return file


def parse_expression(text: str) -> ast.expr:
    """Parse source text as one expression.

    Raises:
        SyntaxError: It is none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text.strip(), mode="eval").body
        except (ValueError, RecursionError, MemoryError) as error:
            raise SyntaxError(str(error)) from error


def same_expression(one: ast.expr, other: ast.expr) -> bool:
    """Return whether two expressions are the same but for quotes, line breaks and parentheses."""
    return ast.dump(one) == ast.dump(other)


def text_of(node: ast.expr | None) -> str:
    """Return the content of a string, or the source text of another expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ast.unparse(node) if node is not None else ""


def _generated_line(raw: bytes) -> int:
    in_head = True
    for number, row in enumerate(NEWLINE.split(raw), 1):
        in_head = in_head and _COMMENT_OR_BLANK.match(row) is not None
        if not in_head and number > _HEAD_LINES:
            return 0
        if _GENERATED.match(row):
            return number
    return 0


def _unparsable(data: bytes, context: Context, error: SyntaxError) -> Exception:
    marker = _MARKER.search(data)
    if marker:
        line = line_at(data, marker.start())
        return context.refusal("registry_syntax", line, "the file holds merge conflict markers")
    reason = f"the file is no valid Python: {error.msg}"
    return context.refusal("registry_syntax", error.lineno or 0, reason)
