"""Statements as registry entries: found by the syntax tree, spliced in as whole lines of bytes.

What the shapes import, assignment, call, subscript, decorator and branch have in common. The
interpreter's own parser finds the statements; the text between them stays as bytes.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal, TypeVar

from scaffold.edit import ordering
from scaffold.edit.layout import Splice, line_start, spliced
from scaffold.edit.layout import indent_at as indent
from scaffold.edit.python_file import indent_unit, read_python
from scaffold.edit.refusal import Context
from scaffold.edit.rows import Row, line_after, with_inner_comments
from scaffold.edit.table import Keyed, Table
from scaffold.errors import RegistryError, TemplateError
from scaffold.syntax import parse

# As `layout.TAIL`, but the file may also end here.
_TAIL = re.compile(rb"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\n|\r|\Z)")


K = TypeVar("K", bound=Keyed)


class _Context(Context):
    """A context whose refusals name the file; source of several lines keeps its own."""

    def refusal(self, code: str, line: int, reason: str) -> RegistryError:
        where = f"{self.file}:{line}" if line else self.file
        colon = ":\n" if "\n" in self.entry else ": "
        # A shadowed branch may still be right further up, so the hint offers that place.
        place = f"above line {line}" if code == "registry_shadowed" else f"to {self.file} by hand"
        other = "choose another name, or " if code == "registry_shadowed" else ""
        hint = f"{other}add this {place}{colon}{self.entry}" if self.entry else ""
        return RegistryError(f"{where}: {reason}", code=code, hint=hint)


class Statements(Table[K]):
    """A registry that statements of a Python file make up, edited as whole lines."""

    def make_context(self) -> Context:
        return _Context(self.entry.file, self.entry.table, self.by_hand)

    def read(self) -> Sequence[K]:
        self.file = read_python(self.data, self.context)
        self.raw, self.tree = self.file.raw, self.file.tree
        return self.find()

    @abstractmethod
    def find(self) -> Sequence[K]:
        """Return what the statements register, in the order of the file."""

    def known_as(self, node: ast.expr, part: Literal["key", "value"]) -> str | None:
        """Return an expression in the entry's own terms; code is compared by its tree."""
        if part not in self.entry.code:
            return plain_text(node)
        own = self.entry.key if part == "key" else self.entry.value
        if own and ast.dump(node) == ast.dump(parse_expression(own, f"the {part}")):
            return own
        return self.file.text(node)

    def row(self, node: ast.stmt) -> Row:
        """Return the lines of a statement with its decorators and its body's last comments."""
        first = node.lineno
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([first, *(each.lineno for each in node.decorator_list)])
        start = self.file.starts[first - 1]
        end = line_after(self.raw, self.file.end(node))
        # A deeper comment behind the last statement of a body belongs to the body.
        if hasattr(node, "body"):
            end = with_inner_comments(self.raw, end, indent(self.raw, start))
        return Row(start, end)

    def check_lines(self, node: ast.stmt) -> None:
        """Refuse to edit beside a statement that shares a line with another one."""
        start = self.file.start(node)
        before = self.raw[line_start(self.raw, start) : start]
        if before.strip() or not _TAIL.match(self.raw, self.file.end(node)):
            reason = "a statement shares its line with another one"
            raise self.refusal("registry_computed", node.lineno, reason)

    def entries(self) -> dict[str, str | None]:
        self.check_entry()
        return super().entries()

    def check_entry(self) -> None:
        # A key that is computed may be the entry's own.
        for item in self.items:
            if item.key is None:
                reason = f"{self.entry.table} has a key here that is not a plain string"
                raise self.refusal("registry_computed", self.line(item), reason)

    def check_bound(self) -> None:
        """Refuse a registry whose name the module does not have; a star import may bring it."""
        root, known = self.entry.table.split(".")[0], bindings(self.tree)
        if root not in known and "*" not in known:
            reason = f"{root} is neither defined nor imported"
            raise self.refusal("registry_missing", 0, reason)

    def sorted_index(self) -> int:
        """Return where the entry goes among the items."""
        return sorted_index([str(item.key) for item in self.items], self.entry.key)

    def refusal(self, code: str, line: int, reason: str) -> RegistryError:
        if code == "registry_missing" and self.file.unread_line:
            # What is missing may be among the statements that were blanked for this Python
            # (decision 016).
            code, line = "registry_syntax", self.file.unread_line
            reason += ", and from here on the file is newer than this Python"
        return super().refusal(code, line, reason)

    def unsound(self) -> tuple[int, str]:
        return 0, "its layout allows no edit that is safe"

    def with_splices(self, *splices: Splice) -> bytes:
        """Return the file's bytes with parts of the text replaced.

        Raises:
            RegistryError: The file's encoding cannot hold the new text.
        """
        source = self.file.source
        try:
            return source.with_raw(spliced(self.raw, splices))
        except UnicodeEncodeError as error:
            reason = f"what is to be added holds characters that {source.encoding} does not have"
            raise self.refusal("registry_computed", 0, reason) from error

    def reindented(self, text: str, outer: bytes, unit: bytes = b"") -> bytes:
        """Return source text as lines for a place in the file.

        Args:
            text: Statements without indentation of their own.
            outer: The indentation of the place.
            unit: One step of indentation; by default the file's own.
        """
        unit = unit or indent_unit(self.file)
        rows = text.strip("\n").split("\n")
        # The content of a string may not move with the code around it.
        inside = _rows_inside_strings(text.strip("\n"))
        code = [_width(row) for number, row in enumerate(rows, 1) if number not in inside]
        # The smallest indentation of the template's text is its step; each becomes one of the
        # file's.
        step = min(filter(None, code), default=1)
        lines: list[bytes] = []
        for number, row in enumerate(rows, 1):
            depth, rest = divmod(_width(row), step)
            if number in inside:
                lines.append(row.encode())
            elif row.strip():
                lines.append(outer + unit * depth + b" " * rest + row.lstrip().encode())
            else:
                lines.append(b"")
        return b"\n".join(lines) + b"\n"


def parse_expression(text: str, what: str) -> ast.expr:
    """Parse what a template or a target gives as source text.

    Raises:
        TemplateError: It is no expression.
    """
    try:
        # In brackets an expression may go over lines and end in a comment.
        tree = parse(f"(\n{text}\n)")
    except (SyntaxError, ValueError, RecursionError):
        tree = ast.Module([], [])
    # `x); (y` leaves the brackets: it is more than one statement.
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        raise TemplateError(f"{what} is not a Python expression: {text!r}", code="template_invalid")
    return tree.body[0].value


def parse_block(text: str, what: str) -> list[ast.stmt]:
    """Parse what a template gives as statements.

    Raises:
        TemplateError: It holds none, or is no Python.
    """
    try:
        body = parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        body = []
    if not body:
        raise TemplateError(f"{what} is not a Python statement: {text!r}", code="template_invalid")
    return body


def plain_text(node: ast.expr) -> str | None:
    """Return the content of a string literal, None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def bindings(tree: ast.Module) -> dict[str, int]:
    """Return the names that a module's top level binds, each with its first line."""
    names: dict[str, int] = {}
    for node in tree.body:
        # What a body binds is not the module's.
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.setdefault(node.name, node.lineno)
            continue
        for each in ast.walk(node):
            if isinstance(each, ast.alias):
                # `import a.b` binds `a`.
                names.setdefault(each.asname or each.name.split(".")[0], node.lineno)
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                names.setdefault(each.id, node.lineno)
            elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.setdefault(each.name, node.lineno)
    return names


# ---- order ---------------------------------------------------------------------------------------


def sorted_index(keys: Sequence[str], key: str) -> int:
    """Return where a key goes among others: its sorted place, or the end where none is sorted."""
    order = ordering.order_of([keys])
    return ordering.sorted_index(keys, key, order) if order else len(keys)


# ---- text ----------------------------------------------------------------------------------------


def literal(text: str, quote: str) -> str:
    """Return a string literal in the given quotes where it needs no escapes."""
    plain = text.isprintable() and quote not in text and "\\" not in text
    return f"{quote}{text}{quote}" if plain else repr(text)


def _width(row: str) -> int:
    return len(row) - len(row.lstrip(" \t")) if row.strip() else 0


def _rows_inside_strings(text: str) -> set[int]:
    """Return the lines that begin inside a string, whose indentation is content."""
    rows: set[int] = set()
    # `_MIDDLE` is the text of f-strings and template strings, whose tokens are split since Python
    # 3.12.
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if tokenize.tok_name[token.type].endswith(("STRING", "STRING_MIDDLE")):
            rows.update(range(token.start[0] + 1, token.end[0] + 1))
    return rows
