"""Registration by assignments that are alike: members of an enumeration, constants of a module.

The table is the pattern of their names: ``Color.*`` for all of a class, ``MAX_*_SIZE`` for those of
a module. A new one goes to its sorted place among them, or behind the last one.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from scaffold.edit.address import class_bodies
from scaffold.edit.entry import Entry
from scaffold.edit.layout import indent_at
from scaffold.edit.python_file import parse_expression as parse_address
from scaffold.edit.rows import common_gap, delete_row, insert_row
from scaffold.edit.statements import Statements, literal


@dataclass(frozen=True)
class _Item:
    """One assignment of those that are alike."""

    key: str
    value: str | None
    node: ast.Assign | ast.AnnAssign


class Assignments(Statements[_Item]):
    """The assignments whose names have the table's pattern."""

    last_decides = True

    @staticmethod
    def text(entry: Entry) -> str:
        value = entry.value if "value" in entry.code else literal(entry.value, '"')
        return f"{entry.key} = {value}"

    def find(self) -> list[_Item]:
        owner, _, pattern = self.entry.table.rpartition(".")
        bodies: Sequence[Sequence[ast.stmt]] = [self.tree.body]
        if owner:
            bodies = list(class_bodies(self.tree.body, parse_address(owner)))
        found: list[_Item] = []
        for node in (node for body in bodies for node in body):
            if isinstance(node, ast.AnnAssign):
                target, value = node.target, node.value
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
            else:
                continue
            if isinstance(target, ast.Name) and value and fnmatch.fnmatchcase(target.id, pattern):
                found.append(_Item(target.id, self.known_as(value, "value"), node))
        return found

    def line(self, item: _Item) -> int:
        return item.node.lineno

    def differs(self, item: _Item) -> str:
        return f"{item.key} is assigned already"

    def with_entry(self) -> bytes:
        if not self.items:
            raise self.refusal("registry_missing", 0, f"there is nothing like {self.entry.table}")
        index = self.sorted_index()
        for near in (self.items[max(index - 1, 0)], self.items[0]):
            self.check_lines(near.node)
        rows = [self.row(item.node) for item in self.items]
        lines = self.reindented(self.text(self.entry), indent_at(self.raw, rows[0].start))
        gap = common_gap(self.raw, rows)
        return self.with_splices(insert_row(self.raw, rows, index, lines, gap))

    def without(self, hits: list[_Item]) -> bytes:
        if len(self.items) == 1:
            reason = "it is the only one of its sort"
            raise self.refusal("registry_computed", hits[0].node.lineno, reason)
        self.check_lines(hits[0].node)
        rows = [self.row(item.node) for item in self.items]
        index = self.items.index(hits[0])
        return self.with_splices(delete_row(self.raw, rows, index))
