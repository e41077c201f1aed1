"""Registration by statements: ``register("key", value)`` and ``REGISTRY["key"] = value``.

Siblings are the statements of a module's top level that call the same function, or assign to items
of the same name. A new one goes to its sorted place among them, or behind the last one.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.layout import Splice
from scaffold.edit.rows import (
    blank_lines_above,
    common_gap,
    delete_lines,
    delete_row,
    insert_lines,
    insert_row,
    last_line_end,
)
from scaffold.edit.statements import Statements, bindings, literal, parse_expression

# A call whose last argument has a comma and is alone on its line: formatters keep it like that.
_SPREAD = re.compile(r"[\r\n]([ \t]+)[^\r\n]+,[ \t]*[\r\n]+\)\Z")

# The keywords of a call's first two arguments, None for a positional one, "**" for `**kwargs`.
_Names = tuple[str | None, ...]


@dataclass(frozen=True)
class _Item:
    """One registration; a key of None is computed.

    ``names`` are the keywords of its first two arguments, ``more`` the arguments behind them.
    """

    key: str | None
    value: str | None
    node: ast.stmt
    # The key's expression: where it is a string, its quotation marks are the habit to copy.
    quoted: ast.expr
    names: _Names
    more: tuple[str, ...] = ()


class Calls(Statements[_Item]):
    """The statements of a module that call one function, or assign items of one name."""

    @staticmethod
    def text(entry: Entry) -> str:
        return _statement(entry, '"', (None, None))

    def find(self) -> list[_Item]:
        # Names are compared as trees, so that `reg . add` and `reg.add` are one callee.
        self.callee = ast.dump(parse_expression(self.entry.table, "the registry's name"))
        items: list[_Item] = []
        for node in self.tree.body:
            found = _arguments(node, self.callee, self.entry.shape)
            if found:
                key, value, names = found
                is_open = "**" in names or isinstance(key, ast.Starred)
                items.append(
                    _Item(
                        None if is_open else self.known_as(key, "key"),
                        self.known_as(value, "value") if value else "",
                        node,
                        key,
                        names,
                        self._further(node),
                    )
                )
        return items

    def _further(self, node: ast.stmt) -> tuple[str, ...]:
        """Return the arguments of a call behind key and value, as they are written."""
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call):
            return ()
        texts = [self.file.text(each) for each in call.args]
        texts += [
            (f"{each.arg}=" if each.arg else "**") + self.file.text(each.value)
            for each in call.keywords
        ]
        return tuple(texts[2:])

    def line(self, item: _Item) -> int:
        return item.node.lineno

    def differs(self, item: _Item) -> str:
        return f"{item.key!r} is registered already"

    def with_entry(self) -> bytes:
        return self.with_splices(self._among_items() if self.items else self._first())

    def without(self, hits: list[_Item]) -> bytes:
        node = hits[0].node
        self.check_lines(node)
        rows = [self.row(item.node) for item in self.items]
        index = self.items.index(hits[0])
        if len(rows) == 1:
            # Adding the first one put these blank lines in; taking it out must give the bytes back.
            start = blank_lines_above(self.raw, rows[0].start, self._gap_behind(node))
            return self.with_splices(delete_lines(self.raw, start, rows[0].end))
        return self.with_splices(delete_row(self.raw, rows, index))

    def _among_items(self) -> Splice:
        index, items = self.sorted_index(), self.items
        # 0 where the module binds none of the names, as with builtins: any place will do then.
        bound = self._bound_line()
        near = items[max(index - 1, 0)].node
        # Sorted order gives way: the statement runs at import and needs the name.
        if bound > near.lineno:  # what it registers is defined further down
            index, near = len(items), items[-1].node
        if bound > near.lineno:
            reason = "what it registers is defined below every other registration"
            raise self.refusal("registry_computed", bound, reason)
        self.check_lines(near)
        rows = [self.row(item.node) for item in items]
        return insert_row(self.raw, rows, index, self._line(), common_gap(self.raw, rows))

    def _bound_line(self) -> int:
        """Return the line that defines the last of the names that the entry's code uses, or 0."""
        entry, bound = self.entry, bindings(self.tree)
        code = [getattr(entry, part) for part in entry.code if getattr(entry, part)]
        used = [node for text in code for node in ast.walk(parse_expression(text, "an entry"))]
        names = (node.id for node in used if isinstance(node, ast.Name))
        return max((bound.get(name, 0) for name in names), default=0)

    def _line(self) -> bytes:
        """Return the statement in the siblings' quotes and with their keywords."""
        items = self.items
        near = items[-1:]
        single = any(self.file.text(item.quoted).startswith("'") for item in near)
        names = near[0].names if near else (None, None)
        if any(len(item.names) > 1 for item in items) and len(names) == 1:
            names = next(item.names for item in items if len(item.names) > 1)
        # What every other registration has further, this one has too.
        further = near[0].more if near and names[1:] else ()
        further = tuple(each for each in further if all(each in item.more for item in items))
        # Where some calls have one line, so has this one.
        indents = [self._indent(item.node) for item in items]
        indent = indents[-1] if indents and None not in indents else None
        text = _statement(self.entry, "'" if single else '"', names, further, indent)
        return text.encode() + b"\n"

    def _indent(self, node: ast.stmt) -> str | None:
        """Return how far arguments are indented that each have a line, None where they have not."""
        call = node.value if isinstance(node, ast.Expr) else None
        found = _SPREAD.search(self.file.text(node)) if isinstance(call, ast.Call) else None
        if found is None or not isinstance(call, ast.Call):
            return None
        starts = [each.lineno for each in (*call.args, *(word.value for word in call.keywords))]
        return found[1] if len({*starts, call.lineno}) == len(starts) + 1 else None

    def _first(self) -> Splice:
        """Put the first registration of a module at its end, where that can be told to work."""
        # A registry that is filled in a loop or a function has a way of its own, and a statement at
        # the end of the module may run too late or twice.
        elsewhere = _used_elsewhere(self.tree, self.callee)
        if elsewhere:
            reason = f"{self.entry.table} is only used inside another statement"
            raise self.refusal("registry_computed", elsewhere, reason)
        self.check_bound()
        lines = b"\n" * self._gap_behind(None) + self._line()
        return insert_lines(self.raw, last_line_end(self.raw), lines)

    def _gap_behind(self, node: ast.stmt | None) -> int:
        """Return the blank lines before a statement: two behind a definition, else one."""
        body = self.tree.body
        index = body.index(node) if node else len(body)
        is_definition = index and hasattr(body[index - 1], "decorator_list")
        return 2 if is_definition else 1


def _arguments(
    node: ast.stmt, table: str, shape: str
) -> tuple[ast.expr, ast.expr | None, _Names] | None:
    """Return what a statement registers under which key, or None where it is no sibling."""
    if shape == "subscript":
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Subscript) and ast.dump(target.value) == table:
            # The type checker does not see that `target` exists for assignments only.
            assert isinstance(node, ast.Assign)
            return target.slice, node.value, (None, None)
        return None
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or ast.dump(call.func) != table:
        return None
    # The first argument is the key and the second the value, in whatever way they are passed.
    pairs = [(None, each) for each in call.args]
    pairs += [(each.arg or "**", each.value) for each in call.keywords]
    if not pairs:
        return None
    names = tuple(name for name, _ in pairs[:2])
    return pairs[0][1], (pairs[1][1] if len(pairs) > 1 else None), names


def _statement(
    entry: Entry,
    quote: str,
    names: _Names,
    more: tuple[str, ...] = (),
    indent: str | None = None,
) -> str:
    def shown(part: str, text: str) -> str:
        return text if part in entry.code else literal(text, quote)

    key, value = shown("key", entry.key), shown("value", entry.value)
    if entry.shape == "subscript":
        return f"{entry.table}[{key}] = {value}"
    arguments = [key, value] if entry.value else [key]
    # Siblings may give fewer arguments than the entry has; the others have no name.
    padded = (*names, None, None)
    named = [
        f"{name}={text}" if name else text for name, text in zip(padded, arguments, strict=False)
    ]
    if indent is not None:
        rows = "".join(f"{indent}{each},\n" for each in [*named, *more])
        return f"{entry.table}(\n{rows})"
    return f"{entry.table}({', '.join([*named, *more])})"


def _used_elsewhere(tree: ast.Module, table: str) -> int:
    """Return the line of a registration that is no statement of the top level, or 0."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            is_store = isinstance(node.ctx, ast.Store)
            # Reading TABLE[key] registers nothing.
            if is_store and ast.dump(node.value) == table:
                return node.lineno
            continue
        if isinstance(node, ast.Call) and ast.dump(node.func) == table:
            return node.lineno
    return 0
