"""Registration by decorator: ``@register("key")`` above a function or a class.

The entry's value is the source of what is decorated, without that decorator. It goes to its sorted
place among the decorated siblings of the module's top level, or behind the last one, two blank
lines below what is there.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.layout import line_start
from scaffold.edit.rows import (
    attached_comments,
    blank_lines_above,
    delete_lines,
    insert_lines,
    last_line_end,
)
from scaffold.edit.statements import Statements, bindings, literal, parse_block, parse_expression
from scaffold.errors import TemplateError

# PEP 8: two blank lines between the definitions of a module.
_GAP = 2

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class _Item:
    """One decorated definition; ``quoted`` is its key, None where the decorator has none."""

    key: str | None
    # The entry's own for the same code, else None.
    value: str | None
    node: Definition
    # The registering decorator without its `@`, one of several the definition may have.
    mark: ast.expr
    quoted: ast.expr | None
    keyword: str | None


class Decorators(Statements[_Item]):
    """The definitions of a module that one decorator registers."""

    @staticmethod
    def text(entry: Entry) -> str:
        return f"{_mark(entry, [])}\n{entry.value.rstrip()}"

    def find(self) -> list[_Item]:
        table = ast.dump(parse_expression(self.entry.table, "the registry's name"))
        items: list[_Item] = []
        for node in self.tree.body:
            for mark in node.decorator_list if isinstance(node, Definition) else ():
                # Both `@register` and `@register("key")` register.
                called = mark.func if isinstance(mark, ast.Call) else mark
                if isinstance(node, Definition) and ast.dump(called) == table:
                    quoted, keyword = _first_argument(mark)
                    # Without an argument a decorator has only the definition's name to register.
                    key = node.name if quoted is None else self.known_as(quoted, "key")
                    value = self.entry.value if self._is_same(node, mark) else None
                    items.append(_Item(key, value, node, mark, quoted, keyword))
        return items

    def _is_same(self, node: Definition, mark: ast.expr) -> bool:
        """Return whether a definition is the entry's value but for the registering decorator."""
        if not self.entry.value:
            return False
        marks = node.decorator_list
        # The value is stored without the decorator, so the trees are compared without it, and put
        # back: later reads of the same tree need it.
        node.decorator_list = [each for each in marks if each is not mark]
        try:
            return ast.dump(node) == ast.dump(_definition(self.entry))
        finally:
            node.decorator_list = marks

    def line(self, item: _Item) -> int:
        return item.mark.lineno

    def differs(self, item: _Item) -> str:
        return f"{item.key!r} already means other code"

    def with_entry(self) -> bytes:
        entry, known = self.entry, bindings(self.tree)
        name = _definition(entry).name
        # A second definition of a name would take the place of the first one in the module.
        if name in known:
            raise self.refusal("registry_differs", known[name], f"{name} already means other code")
        quoted = [item.quoted for item in self.items if item.quoted is not None]
        quote = "'" if quoted and self.file.text(quoted[-1]).startswith("'") else '"'
        mark = _mark(entry, self.items, quote)
        # Siblings without a key register under their own names, and so would this one.
        if mark.rstrip("()") == f"@{entry.table}" and name != entry.key:
            reason = f"{entry.table} registers by the definition's own name, not {entry.key!r}"
            raise self.refusal("registry_differs", self.items[-1].mark.lineno, reason)
        lines = f"{mark}\n".encode() + self.reindented(entry.value, b"")
        return self.with_splices(insert_lines(self.raw, self._place(), b"\n" * _GAP + lines))

    def _place(self) -> int:
        """Return the end of the line that the new definition goes below."""
        if not self.items:
            self.check_bound()
            return last_line_end(self.raw)
        index = self.sorted_index()
        if index == 0:
            # The first definition keeps the comments above it: the new one goes above those.
            start = attached_comments(self.raw, self.row(self.items[0].node).start)
            above = last_line_end(self.raw[:start])
            # Nothing but comments above the first definition: the new one goes below it after all.
            if above:
                return above
        near = self.items[max(index - 1, 0)].node
        # Rows are cut at line ends, and `def f(): ...; x = 1` has more on one than the definition.
        if line_start(self.raw, self.file.start(near)):
            self.check_lines(near)
        return self.row(near).end

    def without(self, hits: list[_Item]) -> bytes:
        row = self.row(hits[0].node)
        start = blank_lines_above(self.raw, row.start, _GAP)
        return self.with_splices(delete_lines(self.raw, start, row.end))


def _first_argument(mark: ast.expr) -> tuple[ast.expr | None, str | None]:
    if isinstance(mark, ast.Call) and mark.args:
        return mark.args[0], None
    if isinstance(mark, ast.Call) and mark.keywords:
        return mark.keywords[0].value, mark.keywords[0].arg
    return None, None


def _definition(entry: Entry) -> Definition:
    body = parse_block(entry.value, "what is registered")
    if len(body) != 1 or not isinstance(body[0], Definition):
        reason = f"what is registered is not a function or class: {entry.value!r}"
        raise TemplateError(reason, code="template_invalid")
    return body[0]


def _mark(entry: Entry, items: Sequence[_Item], quote: str = '"') -> str:
    """Return the decorator in the form that the siblings use."""
    if items and all(item.quoted is None for item in items):
        # All siblings register by name, `@register` or `@register()`, and so does the new one.
        return f"@{entry.table}" + ("()" if isinstance(items[-1].mark, ast.Call) else "")
    keyed = [item for item in items if item.quoted is not None]
    keyword = f"{keyed[-1].keyword}=" if keyed and keyed[-1].keyword else ""
    key = entry.key if "key" in entry.code else literal(entry.key, quote)
    return f"@{entry.table}({keyword}{key})"
