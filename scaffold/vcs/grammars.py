"""What files of other languages define, read with tree-sitter and each grammar's own tags query.

The grammars come with the extra `languages`; without them these files are named as not read.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query

EXTRA = "areal-scaffold[languages]"


class Definition(NamedTuple):
    """One definition: its dotted name, what kind, its head, its lines and its digest."""

    name: str
    kind: str
    head: str
    start: int
    end: int
    is_public: bool
    digest: str


class _Grammar(NamedTuple):
    """A grammar: its package, what gives its language there, and whose tags count too."""

    package: str
    entry: str = "language"
    with_tags_of: str = ""


_JAVASCRIPT = _Grammar("tree_sitter_javascript")
_TYPESCRIPT = _Grammar("tree_sitter_typescript", "language_typescript", "tree_sitter_javascript")
_TSX = _Grammar("tree_sitter_typescript", "language_tsx", "tree_sitter_javascript")
_C, _CPP = _Grammar("tree_sitter_c"), _Grammar("tree_sitter_cpp")

GRAMMARS: dict[str, _Grammar] = {
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), _JAVASCRIPT),
    **dict.fromkeys(("ts", "mts", "cts"), _TYPESCRIPT),
    "tsx": _TSX,
    "go": _Grammar("tree_sitter_go"),
    "rs": _Grammar("tree_sitter_rust"),
    "java": _Grammar("tree_sitter_java"),
    "c": _C,
    **dict.fromkeys(("h", "cc", "cpp", "cxx", "hpp", "hh"), _CPP),
    "rb": _Grammar("tree_sitter_ruby"),
}
"""Which grammar reads which suffix; a header may be of C, which C++'s grammar reads too."""

_KINDS = {"method": "method", "function": "function", "macro": "function", "constant": "constant",
          "type": "type", "module": "type"}  # fmt: skip
# Types of nodes in which definitions are local.
_FUNCTIONS = frozenset(
    {"function_declaration", "function_definition", "function_expression", "arrow_function"}
    | {"function_item", "method_definition", "method_declaration", "method", "func_literal"}
    | {"generator_function_declaration", "closure_expression", "lambda_expression"}
)
# Types of nodes that a head ends before.
_BODIES = frozenset(
    {"block", "statement_block", "class_body", "compound_statement", "declaration_list"}
    | {"field_declaration_list", "enum_variant_list", "interface_body", "enum_body", "object_type"}
    | {"struct_type", "interface_type", "body_statement", "enumerator_list"}
)
_ACCESS = ("private", "protected", "public")


def is_known(suffix: str) -> bool:
    """Return whether there is a grammar for a suffix, be it installed or not."""
    return suffix in GRAMMARS


def is_installed(suffix: str) -> bool:
    """Return whether the grammar for a suffix is installed."""
    return _load(GRAMMARS[suffix]) is not None


def read_definitions(suffix: str, text: str) -> list[Definition] | None:
    """Return what a file defines, in order; None where its grammar is missing, or it is broken.

    Args:
        suffix: The suffix of its name, one of GRAMMARS.
        text: The file.
    """
    loaded = _load(GRAMMARS[suffix])
    if loaded is None:
        return None
    from tree_sitter import Parser, QueryCursor

    language, query = loaded
    root = Parser(language).parse(text.encode()).root_node
    if root.has_error:
        return None
    # By the node of the name: several patterns of a query may tag one definition.
    found: dict[int, tuple[Node, Node, str]] = {}
    for _, captures in QueryCursor(query).matches(root):
        for label, nodes in captures.items():
            if label.startswith("definition.") and captures.get("name"):
                found[captures["name"][0].id] = nodes[0], captures["name"][0], label[11:]
    exported = _exported(root) if suffix in _SCRIPTS else frozenset[str]()
    # In the order of the text, what is around before what is inside.
    rows = sorted(found.values(), key=lambda row: (row[0].start_byte, -row[0].end_byte))
    return [_definition(*row, suffix, exported) for row in rows]


_SCRIPTS = frozenset({"js", "jsx", "mjs", "cjs", "ts", "mts", "cts", "tsx"})


@cache
def _load(grammar: _Grammar) -> tuple[Language, Query] | None:
    try:
        from tree_sitter import Language, Query

        module = importlib.import_module(grammar.package)
        others = [grammar.with_tags_of] if grammar.with_tags_of else []
        modules = [module, *map(importlib.import_module, others)]
    except ImportError:
        return None
    give = cast("Callable[[], object]", getattr(module, grammar.entry))
    language = Language(give())
    tags = "\n".join(cast("str", each.TAGS_QUERY) for each in modules)
    return language, Query(language, tags)


def _definition(
    node: Node, name: Node, label: str, suffix: str, exported: frozenset[str]
) -> Definition:
    whole = _whole(node)
    owners = list(_owners(whole))
    dotted = ".".join([*owners, *_scope(name), _text(name)])
    kind = _KINDS.get(label, "class")
    if kind == "function" and owners:
        kind = "method"
    return Definition(
        dotted,
        kind,
        _head(whole),
        whole.start_point.row + 1,
        whole.end_point.row + 1,
        # What is defined outside of its class is declared inside, where callers see it.
        not _scope(name) and _is_public(whole, _text(name), suffix, exported),
        hashlib.sha256("\0".join(_leaves(whole)).encode()).hexdigest(),
    )


def _whole(node: Node) -> Node:
    """Return the node with its body, where the tag is on a part of it."""
    # C tags the declarator, and Go the inner part of a type, both without the body.
    wider = {"function_definition", "declaration", "field_declaration", "type_declaration"}
    while node.parent is not None and node.parent.type in (wider | {"pointer_declarator"}):
        node = node.parent
    return node


def _scope(name: Node) -> list[str]:
    """Return the class in ``Class::method``, as C++ writes it outside of the class."""
    parent = name.parent
    scope = parent.child_by_field_name("scope") if parent is not None else None
    return [_text(scope)] if scope is not None else []


def _owners(node: Node) -> Iterator[str]:
    """Yield the names of what is around a definition, the outermost first."""
    names: list[str] = []
    around = node.parent
    while around is not None:
        field = around.child_by_field_name("type" if around.type == "impl_item" else "name")
        is_owner = around.type.endswith(
            ("class", "class_declaration", "class_specifier", "struct_specifier", "_item", "module")
        ) or around.type in ("interface_declaration", "namespace_definition", "internal_module")
        if field is not None and is_owner and around.type != "function_item":
            names.append(_text(field))
        around = around.parent
    receiver = node.child_by_field_name("receiver")
    if receiver is not None:  # Go: the type of which it is a method
        words = re.findall(r"\w+", _text(receiver))
        names.insert(0, words[-1] if words else "")
    yield from reversed(names)


def _head(node: Node) -> str:
    """Return a definition without its body, in one line."""
    body = next((each for each in _below(node) if each.type in _BODIES), None)
    end = body.start_byte if body is not None else node.end_byte
    text = (node.text or b"")[: end - node.start_byte].decode("utf-8", "replace")
    return " ".join(text.split()).rstrip(" {=;:")


def _below(node: Node) -> Iterator[Node]:
    """Yield the nodes below one, breadth first, down to two levels."""
    yield from node.children
    for child in node.children:
        yield from child.children


def _leaves(node: Node) -> Iterator[str]:
    # A digest covers what runs, in whatever layout.
    if "comment" in node.type:
        return
    if not node.children:
        yield _text(node)
    for child in node.children:
        yield from _leaves(child)


def _is_public(node: Node, name: str, suffix: str, exported: frozenset[str]) -> bool:
    if any(each.type in _FUNCTIONS for each in _around(node)):
        return False
    if suffix == "go":
        return name[:1].isupper()
    if suffix == "rs":
        return _is_public_rust(node)
    if suffix == "java":
        return _is_public_java(node)
    if suffix == "rb":
        return not name.startswith("_") and _ruby_access(node) == "public"
    if suffix in _SCRIPTS:
        return _is_public_script(node, name, exported)
    return _is_public_c(node)


def _is_public_rust(node: Node) -> bool:
    own = [_text(child) for child in node.children if child.type == "visibility_modifier"]
    holders = [each for each in _around(node) if each.type in ("trait_item", "impl_item")]
    if holders:
        holder = holders[0]
        if holder.type == "trait_item":
            return _is_public_rust(holder)
        if holder.child_by_field_name("trait") is not None:
            return False  # callers see the trait
    return own == ["pub"]


def _is_public_java(node: Node) -> bool:
    words = {word for child in node.children if child.type == "modifiers"
             for word in _text(child).split()}  # fmt: skip
    if words & {"public", "protected"}:
        return True
    around = next((each for each in _around(node) if each.type == "interface_declaration"), None)
    return around is not None and "private" not in words and _is_public_java(around)


def _is_public_script(node: Node, name: str, exported: frozenset[str]) -> bool:
    words = {_text(child) for child in node.children if child.type == "accessibility_modifier"}
    if words & {"private", "protected"} or name.startswith(("#", "_")):
        return False
    if any(each.type == "export_statement" for each in _around(node)) or name in exported:
        return True
    owners = [each for each in _around(node) if each.type.startswith(("class_decl", "class"))]
    names = [each.child_by_field_name("name") for each in owners]
    return any(each is not None and _text(each) in exported for each in names)


def _exported(root: Node) -> frozenset[str]:
    """Return the names that a script exports in a clause, or by ``module.exports``."""
    found: set[str] = set()
    for node in root.children:
        text = _text(node)
        # `export { a, b as c }` and `module.exports = { a }` name what is defined elsewhere.
        is_clause = node.type == "export_statement" and not node.child_by_field_name("declaration")
        if is_clause or re.match(r"(module\.)?exports\b", text):
            found |= set(re.findall(r"\w+", text))
    return frozenset(found - {"export", "default", "module", "exports"})


def _is_public_c(node: Node) -> bool:
    if any(_text(child) == "static" for child in node.children):
        return False
    around = node.parent
    if around is None or around.type != "field_declaration_list":
        return True
    holder, access = around.parent, ""
    for sibling in around.children:
        if sibling.id == node.id:
            break
        # `public:` holds for all members below it.
        if sibling.type == "access_specifier":
            access = _text(sibling).rstrip(":")
    is_class = holder is not None and holder.type == "class_specifier"
    return (access or ("private" if is_class else "public")) == "public"


def _ruby_access(node: Node) -> str:
    access = "public"
    for sibling in node.parent.children if node.parent is not None else []:
        if sibling.id == node.id:
            break
        # `private` alone on a line of Ruby holds for all methods below it.
        if sibling.type == "identifier" and _text(sibling) in _ACCESS:
            access = _text(sibling)
    return access


def _around(node: Node) -> Iterator[Node]:
    around = node.parent
    while around is not None:
        yield around
        around = around.parent


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
