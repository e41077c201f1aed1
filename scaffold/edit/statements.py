"""Statements as registry entries: found by the syntax tree, spliced in as whole lines of bytes.

What the shapes import, call, subscript, decorator and branch have in common. The interpreter's own
parser finds the statements; the text between them stays as bytes.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from scaffold.edit import ordering
from scaffold.edit.entry import Entry
from scaffold.edit.layout import Splice, line_start, spliced
from scaffold.edit.layout import indent_at as indent
from scaffold.edit.python_file import PythonFile, indent_unit, read_python
from scaffold.edit.refusal import Context
from scaffold.edit.rows import Row, line_after, with_inner_comments
from scaffold.edit.shapes import Edit
from scaffold.errors import RegistryError, TemplateError
from scaffold.syntax import parse

SHARED_LINE = "a statement shares its line with another one"

# As `layout.TAIL`, but the file may also end here.
_TAIL = re.compile(rb"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\n|\r|\Z)")


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


Located = ast.stmt | ast.expr | ast.alias | ast.pattern


@dataclass(frozen=True)
class Script:
    """A parsed file and the entry that is looked for in it."""

    file: PythonFile
    entry: Entry
    context: Context

    @property
    def raw(self) -> bytes:
        return self.file.raw

    @property
    def tree(self) -> ast.Module:
        return self.file.tree

    def line(self, offset: int) -> int:
        """Return the number of the line that an offset is on, from 1."""
        return bisect_right(self.file.starts, offset)

    def line_start(self, line: int) -> int:
        """Return the offset at which a line begins."""
        return self.file.starts[line - 1]

    def start(self, node: Located) -> int:
        return self.file.starts[node.lineno - 1] + node.col_offset

    def end(self, node: Located) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.file.starts[node.end_lineno - 1] + node.end_col_offset

    def segment(self, node: ast.expr) -> str:
        """Return an expression as it is written."""
        return self.raw[self.start(node) : self.end(node)].decode("utf-8")

    def known_as(self, node: ast.expr, part: Literal["key", "value"]) -> str | None:
        """Return an expression in the entry's own terms; code is compared by its tree."""
        if part not in self.entry.code:
            return plain_text(node)
        own = self.entry.key if part == "key" else self.entry.value
        if own and ast.dump(node) == ast.dump(parse_expression(own, f"the {part}")):
            return own
        return self.segment(node)

    def row(self, node: ast.stmt) -> Row:
        """Return the lines of a statement with its decorators and its body's last comments."""
        first = node.lineno
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([first, *(each.lineno for each in node.decorator_list)])
        start = self.line_start(first)
        end = line_after(self.raw, self.end(node))
        # A deeper comment behind the last statement of a body belongs to the body.
        if hasattr(node, "body"):
            end = with_inner_comments(self.raw, end, indent(self.raw, start))
        return Row(start, end)

    def owns_lines(self, node: ast.stmt) -> bool:
        """Return whether no other statement shares a line with this one."""
        before = self.raw[line_start(self.raw, self.start(node)) : self.start(node)]
        return not before.strip() and _TAIL.match(self.raw, self.end(node)) is not None

    def refusal(self, code: str, line: int, reason: str) -> RegistryError:
        """Return the error for a reason and the line that shows it; 0 names no line."""
        if code == "registry_missing" and self.file.unread_line:
            # What is missing may be among the statements that were blanked for this Python
            # (decision 016).
            code, line = "registry_syntax", self.file.unread_line
            reason += ", and from here on the file is newer than this Python"
        return self.context.refusal(code, line, reason)

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


def read_script(data: bytes, entry: Entry, text: str = "") -> Script:
    """Parse the file that an entry is in.

    Args:
        data: The file's bytes.
        entry: What refusals name.
        text: What a person would add by hand, for the hint of refusals.

    Raises:
        RegistryError: The file cannot be parsed, or is generated.
    """
    context = _Context(entry.file, entry.table, text)
    return Script(read_python(data, context), entry, context)


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


class Keyed(Protocol):
    """An entry of a registry that is known by its key."""

    @property
    def key(self) -> str | None:
        """What it is known by, None where that is computed."""
        ...


def position_of(items: Sequence[Keyed], key: str) -> int | None:
    """Return where the entry of a key stands, None where there is none."""
    return next((n for n, item in enumerate(items) if item.key == key), None)


def plain_text(node: ast.expr) -> str | None:
    """Return the content of a string literal, None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def settled(
    script: Script,
    data: bytes,
    edited: bytes,
    has_entry: Callable[[bytes, Entry], bool],
    remove_entry: Callable[[bytes, Entry], bytes],
) -> bytes:
    """Return the edited bytes once it is proven that they hold the entry and can be taken back.

    Raises:
        RegistryError: They do not, because of a layout that no rule foresees.
    """
    try:
        # The proof goes through the public functions: what they promise is what a person relies on.
        sound = has_entry(edited, script.entry) and remove_entry(edited, script.entry) == data
    except RegistryError:
        sound = False
    if not sound:
        raise script.refusal("registry_computed", 0, "its layout allows no edit that is safe")
    return edited


def there(script: Script, data: bytes, offset: int) -> Edit:
    """Return the outcome of an edit that has nothing to do."""
    return Edit(data, script.line(offset))


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


def reindented(script: Script, text: str, outer: bytes, unit: bytes = b"") -> bytes:
    """Return source text as lines for a place in the file.

    Args:
        script: The file.
        text: Statements without indentation of their own.
        outer: The indentation of the place.
        unit: One step of indentation; by default the file's own.
    """
    unit = unit or indent_unit(script.file)
    rows = text.strip("\n").split("\n")
    # The content of a string may not move with the code around it.
    inside = _rows_inside_strings(text.strip("\n"))
    code = [_width(row) for number, row in enumerate(rows, 1) if number not in inside]
    # The smallest indentation of the template's text is its step; each becomes one of the file's.
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
