"""The import statements of a block, and which of them have to do with an entry."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scaffold.edit.entry import Entry
from scaffold.edit.import_order import is_same_module, package
from scaffold.edit.layout import Brackets, Element, begins_line, skip_layout
from scaffold.edit.statements import Statements
from scaffold.errors import TemplateError


@dataclass(frozen=True)
class Import:
    """One import statement; ``module`` is empty for a plain one."""

    node: ast.Import | ast.ImportFrom
    module: str
    block: list[ast.stmt]

    @property
    def is_from(self) -> bool:
        return isinstance(self.node, ast.ImportFrom)

    @property
    def origin(self) -> str:
        """The module that the statement loads, the first one of a plain import."""
        return self.module if self.is_from else self.node.names[0].name

    @property
    def is_star(self) -> bool:
        return self.node.names[0].name == "*"

    def brackets(self, registry: Statements[Any]) -> Brackets:
        """Return the names with their places, between the parentheses where there are some."""
        raw = registry.raw
        names: list[Element] = []
        for alias in self.node.names:
            end = registry.file.end(alias)
            comma = skip_layout(raw, end)
            has_comma = raw[comma : comma + 1] == b","
            names.append(Element(registry.file.start(alias), end, comma if has_comma else None))
        inside = raw.find(b"(", registry.file.start(self.node), names[0].start) + 1
        # A last name that shares its line shows that names fill the lines.
        is_bare = not inside or not begins_line(raw, names[-1].start)
        return Brackets(
            raw, inside or names[0].start, registry.file.end(self.node) - 1, names, is_bare
        )


def find_blocks(registry: Statements[Any]) -> list[list[ast.stmt]]:
    """Return the statement lists that the entry's table can mean.

    Raises:
        RegistryError: The file has none.
        TemplateError: There is no such kind of block.
    """
    table, body = registry.entry.table, registry.tree.body
    if table == "":
        return [body]
    if table == "TYPE_CHECKING":
        checks = [each.body for each in body if isinstance(each, ast.If) and _is_checking(each)]
        blocks = [inner for block in checks for inner in (block, *_inner_blocks(block))]
    elif table == "try":
        # Imports of an optional package: `try: import x` with its fallback in the except clause.
        tries = [each for each in body if isinstance(each, ast.Try)]
        arms = [arm for each in tries for arm in (each.body, each.orelse)]
        blocks = [arm for arm in arms if any(statements_in(arm))]
    else:
        raise TemplateError(f"there is no block {table!r} of imports", code="template_invalid")
    if not blocks:
        what = "if TYPE_CHECKING" if table == "TYPE_CHECKING" else "try with imports"
        raise registry.refusal("registry_missing", 0, f"no top-level {what} was found")
    return blocks


def _inner_blocks(block: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield the blocks with imports in the conditions and tries of a block."""
    for node in block:
        if isinstance(node, ast.If | ast.Try):
            for arm in (node.body, node.orelse):
                if any(statements_in(arm)):
                    yield arm
                yield from _inner_blocks(arm)


def find_imports(registry: Statements[Any]) -> list[Import]:
    """Return the import statements of all blocks that the entry's table can mean."""
    return [each for block in find_blocks(registry) for each in statements_in(block)]


def chosen_block(registry: Statements[Any]) -> list[ast.stmt]:
    """Return the block that the entry goes into: the only one, or the one with its siblings."""
    blocks = find_blocks(registry)
    beside = [
        block
        for block in blocks
        if registry.entry.near
        and any(index_of(each, registry.entry.near) is not None for each in statements_in(block))
    ]
    if len(beside) == 1:
        return beside[0]
    alike = [
        block for block in blocks if any(is_near(registry, each) for each in statements_in(block))
    ]
    if len(blocks) > 1 and len(alike) != 1:
        line = blocks[1][0].lineno
        raise registry.refusal("registry_computed", line, "it could go into more than one block")
    return (alike or blocks)[0]


def statements_in(block: list[ast.stmt]) -> Iterator[Import]:
    """Return the imports among the statements of a block."""
    for node in block:
        if isinstance(node, ast.Import):
            yield Import(node, "", block)
        elif isinstance(node, ast.ImportFrom):
            # `from . import x` has no module, only its level.
            yield Import(node, "." * node.level + (node.module or ""), block)


def is_near(registry: Statements[Any], statement: Import) -> bool:
    """Return whether a statement is a sibling: of the same form, from the same package."""
    entry = registry.entry
    own = entry.value or entry.key
    same_form = statement.is_from == bool(entry.value)
    return same_form and package(statement.origin) == package(own)


def is_of_module(statement: Import, entry: Entry) -> bool:
    """Return whether a statement imports from the entry's module, or is plain as the entry is."""
    if statement.is_from != bool(entry.value):
        return False
    return is_same_module(statement.module, entry.value, entry.file)


def index_of(statement: Import, key: str) -> int | None:
    """Return which of a statement's names is spelled as the key."""
    names = [spelled(alias) for alias in statement.node.names]
    return names.index(key) if key in names else None


def spelled(alias: ast.alias) -> str:
    """Return a name as it is imported: ``x`` or ``x as y``."""
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _is_checking(node: ast.If) -> bool:
    # `typing.TYPE_CHECKING` and `t.TYPE_CHECKING` as well.
    return ast.unparse(node.test).split(".")[-1] == "TYPE_CHECKING"
