"""What blocks of other languages than Python name: words, files, types and calls of TypeScript."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tree_sitter import Node

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.typescript import (
    Member,
    parse,
    read_bound,
    read_declarations,
    text_of,
)
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.read.markdown import Block
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.named import Symbol

_CODE = frozenset(
    {"c", "c++", "cc", "cpp", "cs", "csharp", "cu", "cuda", "go", "golang", "h", "hpp", "java"}
    | {"javascript", "js", "jsx", "kotlin", "kt", "lua", "php", "rb", "rs", "ruby", "rust", "scala"}
    | {"swift", "ts", "tsx", "typescript"}
)
_GO = frozenset({"go", "golang"})
_SCRIPTS = frozenset({"ts", "tsx", "typescript", "js", "jsx", "javascript"})
# From a file beside it, or from the root, `@/`; a package is not of here.
_SCRIPT = lazy_re(
    r"(?:^import\s+(?:type\s+)?(?:\w+\s*,\s*)?\{(?P<names>[^{}]*)\}\s*from|\bfrom|\bimport"
    r"|\brequire\(|\bmock\()\s*\(?[\"'](?P<path>(?:\.{1,2}/|@/)[^\"'\n]+)[\"']",
    re.MULTILINE,
)
_INCLUDE = lazy_re(
    r"^[ \t]*#[ \t]*include\s*[\"<](?P<path>[\w./-]+/[\w.-]+)[\">](?P<names>)", re.MULTILINE
)
_STEM = lazy_re(r"^(?:\.{1,2}/|@/)+|\.[mc]?[jt]sx?$")
_ENDS = tuple(
    f"{lead}.{end}" for lead in ("", "/index") for end in ["ts", "tsx", "js", "jsx", "mjs", "cjs"]
)
_C = frozenset({"c", "c++", "cc", "cpp", "cu", "cuda", "h", "hpp"})
_NAME = lazy_re(r"(?:^|,)\s*(?:type\s+)?([A-Za-z_$][\w$]*)")
_IDENTIFIERS = frozenset({"identifier", "property_identifier", "private_property_identifier"})
_FIELD = lazy_re(r"[?!]?\s*[:(]")
# `package.Name` of Go, and any other word.
_TAKEN_OF = lazy_re(r"(?<![\w.])[a-z]\w+\.[A-Z]\w*")
_WORD = lazy_re(r"[A-Za-z_]\w*")
# Of two parts at least, and so no word of prose and nobody's by chance.
TELLING = lazy_re(
    r"_*[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+"
    r"|_*(?:[A-Za-z][a-z0-9]+|[A-Z]{2,}[a-z]{2}[a-z0-9]*)(?:[A-Z][A-Za-z0-9]*)+"
)


class ShownType(NamedTuple):
    """A member of a type that a block writes out.

    Args:
        owner: The type.
        name: The member.
        member: What the block has of it.
        every: All members that the block has of the type.
    """

    owner: str
    name: str
    member: Member
    every: tuple[str, ...]


class Invoked(NamedTuple):
    """A call of TypeScript.

    Args:
        owner: What is in front of the name: a type or a variable; "" where nothing is.
        name: The function or the method; the type where `new` makes one.
        arguments: What is given, a name where it is nothing else and "" for anything else; None
            where the call leaves something out, as empty parentheses do.
        is_new: Whether `new` makes it.
    """

    owner: str
    name: str
    arguments: tuple[str, ...] | None
    is_new: bool


class Taken(NamedTuple):
    """A name that a block takes from a file, with the ends of paths that may be meant."""

    name: str
    ends: tuple[str, ...]


def find_code(document: Document) -> Iterator[Reference]:
    """Yield the words of code, what it takes from elsewhere, and the members of its types."""
    for fence in document.markdown.fences:
        language = next(iter(fence.info.lower().split()), "")
        if language in _CODE:
            yield from _words(fence, is_go=language in _GO)
        if language in _SCRIPTS:
            yield from _taken(fence, _SCRIPT)
            yield from _code(fence, is_tsx=language in ("tsx", "jsx"))
        elif language in _C:
            yield from _taken(fence, _INCLUDE)


def _taken(fence: Block, form: re.Pattern[str]) -> Iterator[Reference]:
    """Yield the files that code takes in by their paths, and the names that it takes from them."""
    for found in form.finditer(fence.text):
        path, ends = found["path"], (found["path"],)
        if form is _SCRIPT:
            ends = tuple(f"{_STEM.sub('', path)}{end}" for end in _ENDS)
        yield Reference.in_block(fence, found.start("path"), "source", path, ends)
        for name in _NAME.finditer(found["names"] or ""):
            at, data = found.start("names") + name.start(1), Taken(name[1], ends)
            yield Reference.in_block(fence, at, "import", f"{name[1]} from {path}", data)


def _code(fence: Block, *, is_tsx: bool) -> Iterator[Reference]:
    """Yield the members of types that a block of TypeScript shows, and its calls."""
    root, rows = parse(fence.text, is_tsx=is_tsx), fence.text.split("\n")
    for each in read_declarations(root):
        for name, member in each.members.items():
            row = rows[member.line - 1]
            at = row.find(name)
            if at >= 0 and _FIELD.match(row, at + len(name)):
                data = ShownType(each.name, name, member, tuple(each.members))
                place = fence.line + member.line - 1, at + 1
                yield Reference("definition", f"{each.name}.{name}", *place, data, fence)
    imported, bound = read_bound(root)
    for node, called in read_calls(root):
        # A variable is called as its type is, whatever gives it.
        others = imported if called.owner else imported | bound
        if (called.owner or called.name) not in others:
            row, column = node.start_point
            text = text_of(node).partition("\n")[0]
            yield Reference("call", text, fence.line + row, column + 1, called, fence)


def read_calls(root: Node) -> Iterator[tuple[Node, Invoked]]:
    """Yield the calls of a syntax tree whose callee is a name, or a member of one."""
    open_nodes = [root]
    while open_nodes:
        node = open_nodes.pop()
        open_nodes += reversed(node.named_children)
        is_new = node.type == "new_expression"
        if (node.type != "call_expression" and not is_new) or node.has_error:
            continue
        callee = node.child_by_field_name("constructor" if is_new else "function")
        given = node.child_by_field_name("arguments")
        if callee is None or given is None:
            continue
        owner, name = callee.child_by_field_name("object"), callee
        if owner is not None:
            name = callee.child_by_field_name("property") or callee
            # `this._frame.goto()`: the last name is that of the variable.
            owner = owner.child_by_field_name("property") or owner
        if name.type in _IDENTIFIERS and (owner is None or owner.type in _IDENTIFIERS):
            before = text_of(owner) if owner is not None else ""
            yield node, Invoked(before, text_of(name), _arguments(given), is_new)


def _arguments(given: Node) -> tuple[str, ...] | None:
    rows = given.named_children
    if not rows or any(each.type in ("spread_element", "comment") for each in rows):
        return None
    return tuple(text_of(each) if each.type == "identifier" else "" for each in rows)


def _words(fence: Block, *, is_go: bool) -> Iterator[Reference]:
    for number, row in enumerate(fence.text.split("\n"), fence.line):
        for found in _TAKEN_OF.finditer(row.partition("//")[0]) if is_go else ():
            data = Symbol(found.group())
            yield Reference("name", found.group(), number, found.start() + 1, data, fence)
        for found in _WORD.finditer(row):
            if TELLING.fullmatch(found.group()):
                place = number, found.start() + 1
                yield Reference("word", found.group(), *place, found.group(), fence)
