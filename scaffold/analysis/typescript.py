"""The types that TypeScript declares, with their members, and the functions beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import NamedTuple

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.history import is_test
from scaffold.analysis.lazy_re import lazy_re

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
    | {"internal_module", "module", "statement_block", "lexical_declaration"}
)
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "function_type"})
_PARAMETERS = frozenset({"required_parameter", "optional_parameter"})
_BASES = frozenset({"extends_type_clause", "class_heritage"})
_NAMES = frozenset({"property_identifier", "private_property_identifier"})
_BINDERS = {
    "arrow_function": ("parameter",),
    "class_declaration": ("name",),
    "function_declaration": ("name",),
    "optional_parameter": ("pattern",),
    "required_parameter": ("pattern",),
    "variable_declarator": ("name",),
}
_NAME = lazy_re(r"[A-Za-z_$][\w$]*")
# Members whose names cannot be listed: `[key: string]: T`, `[KEY]: T`.
_OPEN = frozenset({"index_signature", "computed_property_name"})


class Parameter(NamedTuple):
    """A parameter of a function.

    Args:
        name: Its name; "" where it is taken apart.
        is_needed: Whether a call has to give it.
        is_rest: Whether it takes all that are left.
    """

    name: str
    is_needed: bool
    is_rest: bool


Signature = tuple[Parameter, ...]


class Member(NamedTuple):
    """A member of a type, or a function.

    Args:
        line: Where it is in the text, from 1.
        signatures: What it takes, once for each overload; none where it is no function.
    """

    line: int
    signatures: tuple[Signature, ...] = ()


class Declaration(NamedTuple):
    """One declaration of a type.

    Args:
        name: The type.
        members: Its members by their names; a constructor is one.
        is_whole: Whether it has no others: nothing is added to it from elsewhere, and all of it
            could be parsed.
    """

    name: str
    members: Mapping[str, Member]
    is_whole: bool


def parse(text: str, *, is_tsx: bool = False) -> Node:
    """Return the syntax tree of a text; what cannot be parsed is a node of its own in it."""
    return _parser(is_tsx).parse(text.encode("utf-8", "replace")).root_node


def read_declarations(root: Node) -> Iterator[Declaration]:
    """Yield the interfaces, object types and classes that a text declares outside of functions."""
    for node in _outer(root):
        field, form = _DECLARATIONS.get(node.type, ("", ""))
        name, body = node.child_by_field_name("name"), node.child_by_field_name(field or "body")
        if field and name is not None and body is not None and body.type == form:
            yield _declaration(node, text_of(name), body)


def read_functions(root: Node) -> Iterator[tuple[str, Member]]:
    """Yield the functions that a text declares outside of functions, by their names."""
    for node in _outer(root):
        is_variable = node.type == "variable_declarator"
        name, made = node.child_by_field_name("name"), node.child_by_field_name("value")
        signature = _signature(made if is_variable else node)
        if name is not None and signature is not None and not node.has_error:
            yield text_of(name), Member(name.start_point.row + 1, (signature,))


def read_bound(root: Node) -> tuple[set[str], set[str]]:
    """Return the names that a text imports from packages, and those that it binds itself.

    What it imports from a file beside it is none of them.
    """
    imported, bound = set[str](), set[str]()
    open_nodes = [root]
    while open_nodes:
        node = open_nodes.pop()
        source = node.child_by_field_name("source")
        if node.type == "import_statement" and source is not None:
            is_file = text_of(source).strip("'\"").startswith((".", "@/", "~/"))
            imported |= set() if is_file else set(_NAME.findall(text_of(node)))
            continue
        open_nodes += node.named_children
        for field in _BINDERS.get(node.type, ()):
            named = node.child_by_field_name(field)
            bound |= set(_NAME.findall(text_of(named))) if named is not None else set()
    return imported, bound


class TypeScript:
    """The declarations of a repository's sources, by their names; tests are left out.

    Args:
        files: Its files.
    """

    def __init__(self, files: Files) -> None:
        self.declared: dict[str, list[tuple[str, Declaration]]] = {}
        """Each type with the sources that declare it."""
        self.functions: dict[str, list[tuple[str, Member]]] = {}
        """Each function with the sources that declare it."""
        self.texts: dict[str, str] = {}
        """Each source."""
        self.is_global = cache(self._is_global)
        for path in files.sorted_paths:
            data = (files.data(path) or b"") if path.endswith(_ENDS) else b""
            if not 0 < len(data) <= MAX_BYTES or is_test(path):
                continue
            self.texts[path] = text = data.decode("utf-8", "replace")
            root = parse(text, is_tsx=path.endswith(".tsx"))
            for each in read_declarations(root):
                self.declared.setdefault(each.name, []).append((path, each))
            for name, function in read_functions(root):
                self.functions.setdefault(name, []).append((path, function))

    def _is_global(self, name: str) -> bool:
        """Return whether a source calls a name that it neither declares nor imports."""
        called = re.compile(rf"(?<![\w$.]){re.escape(name)}\(")
        taken = re.compile(
            rf"\bimport\b[^;]*?\b{re.escape(name)}\b"
            rf"|\b(?:class|function|const|let|var)\s+{re.escape(name)}\b"
        )
        texts = (text for text in self.texts.values() if name in text)
        return any(called.search(text) and not taken.search(text) for text in texts)

    @cached_property
    def methods(self) -> dict[str, list[tuple[str, Member]]]:
        """Each member that is a function with the sources of the types that have it."""
        found: dict[str, list[tuple[str, Member]]] = {}
        for path, each in (row for rows in self.declared.values() for row in rows):
            for name, member in each.members.items():
                if member.signatures:
                    found.setdefault(name, []).append((path, member))
        return found


@cache
def _parser(is_tsx: bool) -> Parser:
    grammar = tree_sitter_typescript
    return Parser(Language(grammar.language_tsx() if is_tsx else grammar.language_typescript()))


def _outer(root: Node) -> Iterator[Node]:
    """Yield what a text has outside of functions and types."""
    open_nodes = [root]
    while open_nodes:
        node = open_nodes.pop()
        yield node
        if node.type in _AROUND:
            open_nodes += reversed(node.named_children)


def _declaration(node: Node, name: str, body: Node) -> Declaration:
    members: dict[str, Member] = {}
    is_open = node.has_error or any(each.type in _BASES for each in node.named_children)
    for each in body.named_children:
        called = each.child_by_field_name("name")
        if each.type in _OPEN or (called is not None and called.type in _OPEN):
            is_open = True
        elif called is not None and called.type in (*_NAMES, "string"):
            word, line = text_of(called).strip("'\""), called.start_point.row + 1
            known = members.setdefault(word, Member(line))
            if (signature := _signature(_function(each))) is not None:
                members[word] = known._replace(signatures=(*known.signatures, signature))
        given = each.child_by_field_name("parameters")
        if given is not None and called is not None and text_of(called) == "constructor":
            # `constructor(private readonly page: Page)` declares a member, too.
            marks = (one.type for row in given.named_children for one in row.children)
            is_open |= not {"accessibility_modifier", "readonly"}.isdisjoint(marks)
    return Declaration(name, members, not is_open)


def _function(member: Node) -> Node:
    """Return what a member is where that is a function: its value or its type, or itself."""
    kind = member.child_by_field_name("type")
    inner = member.child_by_field_name("value") or (kind.named_child(0) if kind else None)
    return inner if inner is not None and inner.type in _FUNCTIONS else member


def _signature(function: Node | None) -> Signature | None:
    """Return what a function takes, or None for anything else."""
    given = function.child_by_field_name("parameters") if function is not None else None
    if given is None or given.has_error:
        return None
    rows = (each for each in given.named_children if each.type in _PARAMETERS)
    taken: list[Parameter] = []
    for each in rows:
        pattern = each.child_by_field_name("pattern")
        kind = pattern.type if pattern is not None else ""
        if pattern is None or kind == "this":
            continue
        is_needed = each.type == "required_parameter" and not each.child_by_field_name("value")
        name = text_of(pattern) if kind == "identifier" else ""
        is_rest = kind == "rest_pattern"
        taken.append(Parameter(name, is_needed and not is_rest, is_rest))
    return tuple(taken)


def text_of(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode("utf-8", "replace")
