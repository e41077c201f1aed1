"""The members of the types that TypeScript declares, where they are written out in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import NamedTuple

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.history import is_test

MAX_BYTES = 400_000
_ENDS = (".ts", ".tsx", ".mts")
# Each kind of declaration, with the field that has its members and the form that field must have:
# a type that is a union or the result of another one has no members of its own.
_DECLARATIONS = {
    "interface_declaration": ("body", "interface_body"),
    "class_declaration": ("body", "class_body"),
    "abstract_class_declaration": ("body", "class_body"),
    "type_alias_declaration": ("value", "object_type"),
}
_AROUND = frozenset(
    {"program", "export_statement", "ambient_declaration", "expression_statement"}
    | {"internal_module", "module", "statement_block"}
)
_BASES = frozenset({"extends_type_clause", "class_heritage"})
_NAMES = frozenset({"property_identifier", "private_property_identifier"})
# Members whose names cannot be listed: `[key: string]: T`, `[KEY]: T`.
_OPEN = frozenset({"index_signature", "computed_property_name"})


class Declaration(NamedTuple):
    """One declaration of a type.

    Args:
        name: The type.
        members: Its members, each with its line in the text, from 1.
        is_whole: Whether it has no others: nothing is added to it from elsewhere, and all of it
            could be parsed.
    """

    name: str
    members: Mapping[str, int]
    is_whole: bool


def read_declarations(text: str, *, is_tsx: bool = False) -> Iterator[Declaration]:
    """Yield the interfaces, object types and classes that a text declares outside of functions."""
    open_nodes = [_parser(is_tsx).parse(text.encode("utf-8", "replace")).root_node]
    while open_nodes:
        node = open_nodes.pop()
        if node.type in _AROUND:
            open_nodes += reversed(node.named_children)
        field, form = _DECLARATIONS.get(node.type, ("", ""))
        name, body = node.child_by_field_name("name"), node.child_by_field_name(field or "body")
        if field and name is not None and body is not None and body.type == form:
            yield _declaration(node, _text(name), body)


class TypeScript:
    """The declarations of a repository's sources, by their names.

    Args:
        files: Its files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    @cached_property
    def declared(self) -> dict[str, list[tuple[str, Declaration]]]:
        """Each type with the sources that declare it; tests are left out."""
        found: dict[str, list[tuple[str, Declaration]]] = {}
        for path in self._files.sorted_paths:
            data = (self._files.data(path) or b"") if path.endswith(_ENDS) else b""
            if not 0 < len(data) <= MAX_BYTES or is_test(path):
                continue
            text = data.decode("utf-8", "replace")
            for each in read_declarations(text, is_tsx=path.endswith(".tsx")):
                found.setdefault(each.name, []).append((path, each))
        return found


@cache
def _parser(is_tsx: bool) -> Parser:
    grammar = tree_sitter_typescript
    return Parser(Language(grammar.language_tsx() if is_tsx else grammar.language_typescript()))


def _declaration(node: Node, name: str, body: Node) -> Declaration:
    members: dict[str, int] = {}
    is_open = node.has_error or any(each.type in _BASES for each in node.named_children)
    for each in body.named_children:
        called = each.child_by_field_name("name")
        if each.type in _OPEN or (called is not None and called.type in _OPEN):
            is_open = True
        elif called is not None and called.type in _NAMES:
            members.setdefault(_text(called), called.start_point.row + 1)
        elif called is not None and called.type == "string":
            members.setdefault(_text(called).strip("'\""), called.start_point.row + 1)
        given = each.child_by_field_name("parameters")
        if given is not None and called is not None and _text(called) == "constructor":
            # `constructor(private readonly page: Page)` declares a member, too.
            marks = (one.type for row in given.named_children for one in row.children)
            is_open |= not {"accessibility_modifier", "readonly"}.isdisjoint(marks)
    return Declaration(name, members, not is_open)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
