"""Registration by an import: ``from .gsm8k import gsm8k_reward_fn``, or ``import pkg.spec``.

The entry's key is the name as it is imported (``x`` or ``x as y``, ``*`` for all of a module), its
value the module, empty for a plain ``import key``. The table is the block: empty for the module's
top level, "TYPE_CHECKING" for the block under that condition with the conditions and tries in it,
"try" for the branch of the try statement that holds siblings. Siblings import from the same
package, or by as many dots.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from scaffold.edit import splicing
from scaffold.edit.entry import Entry
from scaffold.edit.import_blocks import (
    Import,
    chosen_block,
    find_imports,
    is_near,
    is_of_module,
    spelled,
)
from scaffold.edit.import_order import module_rank, section, sorted_place
from scaffold.edit.layout import Splice, indent_at
from scaffold.edit.ordering import natural
from scaffold.edit.placing import Slot
from scaffold.edit.rows import (
    Row,
    attached_comments,
    blank_lines_above,
    blank_lines_below,
    delete_lines,
    insert_lines,
    insert_row,
    line_after,
)
from scaffold.edit.statements import Statements, bindings, plain_text, sorted_index
from scaffold.errors import TemplateError

# Comments that linters read: isort's skip, noqa with or without the codes of imports, pylint's
# `disable=unused-import`; a shebang or an encoding cookie has to stay on top of the file.
_SKIPPED = re.compile(rb"#\s*isort:\s*skip")
_COMMENT = re.compile(rb"#[^\r\n]*")
_REMARK = re.compile(
    rb"#\s*noqa(\s*$|:.*\b(F401|F403|E402)\b)|#\s*pylint:\s*disable=.*(unused|wrong)-import"
)
_FIXED_LINE = re.compile(rb"#!|#.*?coding[:=]")
# Module and name with a colon between them: `.gsm8k:reward_fn as gsm8k`, `:pkg.spec`.
_ENTRY = re.compile(r"(\.*[\w.]*):([\w.]+)( as \w+)?|(\.*[\w.]+):\*", re.ASCII)


@dataclass(frozen=True)
class _Place:
    """Where a new statement goes: among rows, or at an offset with blank lines around it."""

    offset: int
    indent: bytes = b""
    rows: tuple[Row, ...] = ()
    index: int = 0
    blank_above: int = 0
    blank_below: int = 0
    near: tuple[Import, ...] = ()


@dataclass(frozen=True)
class _Item:
    """One name of an import; its value is the module, as the entry spells that."""

    key: str
    value: str
    statement: Import
    index: int


class Imports(Statements[_Item]):
    """The imported names of a block."""

    @staticmethod
    def text(entry: Entry) -> str:
        return f"from {entry.value} import {entry.key}" if entry.value else f"import {entry.key}"

    def find(self) -> list[_Item]:
        self.imports = find_imports(self)
        return [
            _Item(spelled(alias), value, each, index)
            for each in self.imports
            for value in [self.entry.value if is_of_module(each, self.entry) else each.module]
            for index, alias in enumerate(each.node.names)
        ]

    def matches(self, item: _Item) -> bool:
        key = self.entry.key
        # A star brings no private name, and none under another one.
        is_brought = item.key == "*" and not key.startswith("_") and " as " not in key
        return is_of_module(item.statement, self.entry) and (item.key == key or is_brought)

    def hit(self) -> _Item | None:
        return next((item for item in self.items if self.matches(item)), None)

    def hits(self) -> list[_Item]:
        """Return the names that removal may mean; a star brings others as well, and stays."""
        return [
            item
            for item in super().hits()
            if item.statement.is_from == bool(self.entry.value)
            # Every module may have a star of its own.
            and (item.key != "*" or self.matches(item))
        ]

    def entries(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {e.key: e.value for e in self.items if e.key != "*"}
        return found if self.hit() is None else {**found, self.entry.key: self.entry.value}

    def line(self, item: _Item) -> int:
        return item.statement.node.names[item.index].lineno

    def check_entry(self) -> None:
        if not _ENTRY.fullmatch(f"{self.entry.value}:{self.entry.key}"):
            text = self.text(self.entry)
            raise TemplateError(f"{text!r} is not an import statement", code="template_invalid")

    def with_entry(self) -> bytes:
        self._refuse_other()
        block = chosen_block(self)
        imports = [each for each in self.imports if each.block is block]
        # A statement that imports from the module takes the name; else the name gets a statement.
        host = self._host(imports)
        if host is None:
            return self.with_splices(self._insertion(self._place(block, imports)))
        index = sorted_index([spelled(alias) for alias in host.node.names], self.entry.key)
        # Comments above the first name head all of them.
        slot = Slot(index, is_below_comments=not index)
        splices = splicing.insertion(host.brackets(self), slot, self.entry.key.encode())
        return self.with_splices(*splices)

    def without(self, hits: list[_Item]) -> bytes:
        own, index = hits[0].statement, hits[0].index
        if len(own.node.names) > 1:
            return self.with_splices(*splicing.removal(own.brackets(self), index))
        self.check_lines(own.node)
        return self.with_splices(self._removal(own))

    def _refuse_other(self) -> None:
        """Refuse a name that another import binds; two plain imports may share their package."""
        entry = self.entry
        if entry.key == "*":
            return
        bound = entry.key.split(" as ")[-1]
        for statement in self.imports:
            for alias in statement.node.names:
                other = alias.asname or alias.name
                # `import a.b` and `import a.c` both bind a, to the same package.
                if not entry.value and not statement.is_from and "." in bound + other:
                    continue
                if other.split(".")[0] == bound.split(".")[0]:
                    reason = f"{other!r} is imported from {statement.module or alias.name!r} here"
                    raise self.refusal("registry_differs", alias.lineno, reason)
        if entry.table:
            return
        # What a branch defines may be the fallback for this very import.
        code = [each for each in self.tree.body if not isinstance(each, ast.If | ast.Try)]
        code = [each for each in code if not isinstance(each, ast.Import | ast.ImportFrom)]
        line = bindings(ast.Module(code, [])).get(bound.split(".")[0], 0)
        if line:
            raise self.refusal("registry_differs", line, f"{bound!r} is defined here")

    def _host(self, imports: Sequence[Import]) -> Import | None:
        """Return the statement that the name is added to, None where it gets one of its own."""
        entry = self.entry
        if not entry.value or entry.key == "*" or _is_one_name_a_line(imports):
            return None
        # The last statement of a module, since further names went there before.
        for statement in reversed(imports):
            row = self.row(statement.node)
            # isort leaves a statement with that comment alone, and so does this.
            is_open = not statement.is_star and not _SKIPPED.search(self.raw, row.start, row.end)
            if is_open and statement.module == entry.value and _mixes(statement, entry.key):
                return statement
        return None

    def _place(self, block: list[ast.stmt], imports: Sequence[Import], own_end: int = 0) -> _Place:
        """Return where a statement goes among the imports of a block.

        One that is there is left out of them; it ends at ``own_end``.
        """
        entry, raw = self.entry, self.raw
        own = entry.value or entry.key
        # Siblings above the first definition come first, siblings anywhere second, others of the
        # same section third.
        head = _head(block, imports)
        kept = [each for each in head if each.module != "__future__"]
        near = [each for each in kept if is_near(self, each)]
        near = near or [each for each in imports if is_near(self, each)]
        own_section = section(own, entry.file)
        same = near or [each for each in kept if section(each.origin, entry.file) == own_section]
        if same:
            # Sorted as isort sorts: plain imports before `from` ones, then modules, then names.
            ranks = [
                (module_rank(each.origin, each.is_from), natural(spelled(each.node.names[0])))
                for each in same
            ]
            index = sorted_place(ranks, (module_rank(own, bool(entry.value)), natural(entry.key)))
            rows = tuple(self.row(each.node) for each in same)
            indent = indent_at(raw, rows[0].start)
            anchor = same[max(index - 1, 0)].node
            self.check_lines(anchor)
            return _Place(rows[0].start, indent, rows, index, near=tuple(near))
        # The first import of its section: below the sections before it, with a blank line between.
        lower = [each for each in head if section(each.origin, entry.file) < own_section]
        if lower:
            row = self.row(lower[-1].node)
            return _Place(row.end, indent_at(raw, row.start), blank_above=1)
        if kept:
            # Every other import is of a later section.
            start = self.row(kept[0].node).start
            indent = indent_at(raw, start)
            return _Place(attached_comments(raw, start), indent, blank_below=1)
        return self._first_place(block, own_end)

    def _first_place(self, block: list[ast.stmt], own_end: int) -> _Place:
        """Return the place of a block's first import: behind the docstring or the file's header."""
        raw = self.raw
        if self.entry.table:
            # A block under a condition has at least one statement, and gets the import at its end.
            row = self.row(block[-1])
            return _Place(row.end, indent_at(raw, self.file.start(block[-1])))
        first = block[0] if block else None
        if isinstance(first, ast.Expr) and plain_text(first.value) is not None:
            return _below(raw, line_after(raw, self.file.end(first)), own_end)
        return _below(raw, _header_end(raw), own_end)

    def _insertion(self, place: _Place) -> Splice:
        remark = self._remark(_alike(self.entry.key, place.near))
        line = place.indent + self.text(self.entry).encode() + remark + b"\n"
        if place.rows:
            return insert_row(self.raw, place.rows, place.index, line, 0)
        lines = b"\n" * place.blank_above + line + b"\n" * place.blank_below
        return insert_lines(self.raw, place.offset, lines)

    def _remark(self, near: Sequence[Import]) -> bytes:
        """Return the comment that every sibling carries against linters, as `# noqa: F401`."""
        remarks: set[bytes] = set()
        for statement in near:
            row = self.row(statement.node)
            found = _COMMENT.search(self.raw, row.start, row.end)
            remarks.add(found[0].rstrip() if found else b"")
        # One sibling without the remark is enough to leave it out.
        if len(remarks) != 1:
            return b""
        remark = remarks.pop()
        return b"  " + remark if _REMARK.match(remark) else b""

    def _removal(self, own: Import) -> Splice:
        """Take a statement away with the blank lines that were added with it."""
        raw, row = self.raw, self.row(own.node)
        # A block without a statement is no Python; one at the top of a file may be empty.
        if len(own.block) == 1 and self.entry.table:
            return Splice(self.file.start(own.node), self.file.end(own.node), b"pass")
        others = [each for each in self.imports if each.block is own.block and each is not own]
        block = [each for each in own.block if each is not own.node]
        place = self._place(block, others, row.end)
        start = blank_lines_above(raw, row.start, place.blank_above)
        end = blank_lines_below(raw, row.end, place.blank_below)
        return delete_lines(raw, start, end)


def _mixes(statement: Import, key: str) -> bool:
    """Return whether a name may share a statement; renamed ones only where others do already."""
    renamed = [bool(alias.asname) for alias in statement.node.names]
    if " as " in key:
        # isort and ruff write `from m import x as y` as a statement of its own by default.
        return len(renamed) > 1 and any(renamed)
    return not all(renamed) or len(renamed) > 1


def _is_one_name_a_line(imports: Sequence[Import]) -> bool:
    """Return whether a block imports a module's names by a statement each."""
    lone = [
        each.module
        for each in imports
        if each.is_from and len(each.node.names) == 1 and not each.node.names[0].asname
    ]
    # Two statements for one module show that this is the block's habit (force-single-line of
    # isort).
    return len(set(lone)) < len(lone)


def _head(block: list[ast.stmt], imports: Sequence[Import]) -> list[Import]:
    """Return the imports above the first definition, or all of them where none is there."""
    lines = [each.lineno for each in block if hasattr(each, "decorator_list")]
    first = min(lines, default=0)
    return [each for each in imports if not first or each.node.lineno < first] or list(imports)


def _below(raw: bytes, offset: int, own_end: int) -> _Place:
    """Return the place below a header, set apart from it, or from code that follows at once."""
    if offset and not raw[offset : line_after(raw, offset)].strip():
        return _Place(offset, blank_above=1)
    # On removal the import's own lines are no code that follows.
    rest = raw[max(offset, own_end) :].lstrip()
    is_definition = re.match(rb"(async )?def |class |@", rest) is not None
    return _Place(offset, blank_below=2 if is_definition else 1 if rest else 0)


def _header_end(raw: bytes) -> int:
    """Return the end of the comments that the file begins with and that belong to no code."""
    offset = fixed = 0
    while raw[offset : offset + 1] == b"#":
        after = line_after(raw, offset)
        if offset == fixed and _FIXED_LINE.match(raw, offset, after):
            fixed = after
        offset = after
    # A comment that touches code belongs to it; only shebang and cookie are passed then.
    return offset if not raw[offset : line_after(raw, offset)].strip() else fixed


def _alike(key: str, near: Sequence[Import]) -> Sequence[Import]:
    """Return the siblings that import the same name under another, where the key does so."""
    name, _, renamed = key.partition(" as ")
    rows = [each for each in near if any(a.asname and a.name == name for a in each.node.names)]
    return rows if renamed and rows else near
