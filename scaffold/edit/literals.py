"""Registries that are literals: ``NAME = {"key": "module:attr", ...}``, ``__all__ = [...]``.

Shape "dict" is a table of keys and values, shape "list" a collection of keys alone; the forms of
both are in `scaffold.edit.forms`, the addresses in `scaffold.edit.address`, the place that an entry
takes in `scaffold.edit.placing`. Key and value are the contents of strings, or source text where
the entry's `code` names it. A file changes by splices into one literal; all else stays as bytes.

A list with several parts (``__all__ += [...]``, ``__all__.extend([...])``) gains the entry in the
part with the entry that it resembles most, or in the first; parts in blocks that may not run come
into question only where there is no other. Removal finds it in whichever part it is.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scaffold.edit.address import Part, find_parts, is_dead
from scaffold.edit.entry import Entry
from scaffold.edit.forms import Item, Literal, read_literal
from scaffold.edit.layout import spliced
from scaffold.edit.placing import find_slot, similarity_of
from scaffold.edit.python_file import parse_expression, read_python, same_expression
from scaffold.edit.splicing import LayoutError, insertion, removal
from scaffold.edit.table import Table
from scaffold.errors import RegistryError

_SHAPES = {"dict": "dictionary literal", "list": "list, tuple or set literal"}


@dataclass(frozen=True)
class _Item:
    """One entry: in a literal at an index, or added by a call, which is in none."""

    key: str | None
    value: str | None
    part: Part
    literal: Literal | None = None
    index: int = 0

    @property
    def item(self) -> Item | None:
        """The entry in its literal."""
        return None if self.literal is None else self.literal.items[self.index]


class Literals(Table[_Item]):
    """The entries in all literals that make up a registry, and those that calls add to it."""

    # Of two equal keys Python keeps the last.
    last_decides = True

    @staticmethod
    def text(entry: Entry) -> str:
        # No file is at hand here, so the quotation marks are those of most code.
        key, value = _source(entry, "key", '"'), _source(entry, "value", '"')
        return f"{key}," if entry.shape == "list" else f"{key}: {value},"

    def read(self) -> list[_Item]:
        entry = self.entry
        self.file = read_python(self.data, self.context)
        try:
            parts = find_parts(self.file.tree, entry.table)
        except SyntaxError as error:
            reason = f"{entry.table!r} is not an address"
            raise self.refusal("registry_missing", 0, reason) from error
        self._check_parts(parts)
        values = [(p, p.value) for p in parts if p.value and p.how in ("assigned", "grown")]
        found = [(part, read_literal(self.file, value, entry.shape)) for part, value in values]
        self.literals = [(part, self._with_keys(each)) for part, each in found if each is not None]
        if not self.literals:
            reason = f"{entry.table} is not a {_SHAPES[entry.shape]}"
            raise self.refusal("registry_computed", parts[0].line, reason)
        return [*self._in_literals(), *self._in_calls(parts)]

    def _in_literals(self) -> Iterator[_Item]:
        for part, literal in self.literals:
            for index, item in enumerate(literal.items):
                value = "" if self.entry.shape == "list" else _text(item.value_node)
                yield _Item(item.key, value, part, literal, index)

    def _in_calls(self, parts: Sequence[Part]) -> Iterator[_Item]:
        for part in parts:
            if part.how == "extended":
                yield _Item(_key(part.value, self.entry), "", part)

    def _check_parts(self, parts: Sequence[Part]) -> None:
        file, table = self.file, self.entry.table
        bound = [part for part in parts if part.how in ("assigned", "unpacked")]
        imported = [part for part in parts if part.how == "imported"]
        if not parts and file.unread_line:
            reason = f"{table} was not found; this statement is newer than the running Python reads"
            raise self.refusal("registry_syntax", file.unread_line, reason)
        if not bound and imported:
            reason = f"{table} is imported here; name the file that assigns it"
            raise self.refusal("registry_missing", imported[0].line, reason)
        if not parts:
            raise self.refusal("registry_missing", 0, f"no assignment to {table} was found")
        dead = [part for part in bound if is_dead(file.tree, part.line)]
        if dead:
            reason = (
                f"{table} is under a condition that is never true: an entry would have no effect"
            )
            raise self.refusal("registry_computed", dead[0].line, reason)
        if len(bound) > 1:
            raise self.refusal("registry_computed", bound[-1].line, f"{table} is assigned twice")
        # `TABLE |= OTHER` may replace what the literal holds.
        grown = [part for part in parts if part.how == "grown" and self.entry.shape == "dict"]
        if grown:
            raise self.refusal("registry_computed", grown[-1].line, f"{table} grows here")

    def _with_keys(self, literal: Literal) -> Literal:
        entry = self.entry
        items: list[Item] = []
        for item in literal.items:
            key = _key(item.key_node, entry)
            # A computed key may be the one that is to be added, so that its entry would be hidden.
            if key is None and entry.shape == "dict" and not _is_apart(item.key_node):
                line = self.file.line(item.start)
                reason = f"{entry.table} has a key that is not a plain string"
                raise self.refusal("registry_computed", line, reason)
            items.append(replace(item, key=key))
        return replace(literal, items=tuple(items))

    def line(self, item: _Item) -> int:
        return item.part.line if item.item is None else self.file.line(item.item.start)

    def hit(self) -> _Item | None:
        hits = self.hits()
        # What a call adds is there, whatever the literals hold.
        return next((each for each in hits if each.literal is None), super().hit())

    def matches(self, item: _Item) -> bool:
        node = item.item.value_node if item.item is not None else None
        if "value" not in self.entry.code or self.entry.shape == "list" or node is None:
            return item.value == ("" if self.entry.shape == "list" else self.entry.value)
        return same_expression(node, _parsed(self.entry, "value"))

    def differs(self, item: _Item) -> str:
        assert item.literal is not None
        node = item.literal.items[item.index].value_node
        assert node is not None
        # What would be added by hand is written as its neighbours are.
        self.context = replace(self.context, entry=f"{self._entry_text(item.literal)},")
        return f"{self.entry.key!r} already means {self.file.text(node)}"

    def with_entry(self) -> bytes:
        # Among several parts first the part, then the place in it; text and quotes are its own.
        literal = self._best_literal()
        text, slot = self._entry_text(literal), find_slot(literal, self.entry)
        source = self.file.source
        try:
            splices = insertion(literal, slot, text.encode("utf-8"))
            return source.with_raw(spliced(literal.raw, splices))
        except (LayoutError, UnicodeEncodeError) as error:
            encoding = f"the file's encoding, {source.encoding}, cannot hold the entry"
            reason = str(error) if isinstance(error, LayoutError) else encoding
            line = self.file.line(literal.inside)
            raise self.refusal("registry_computed", line, reason) from error

    def _best_literal(self) -> Literal:
        key, value, near = self.entry.key, self.entry.value, self.entry.near
        for _, literal in self.literals:
            if near and any(item.key == near for item in literal.items):
                return literal
        plain = [literal for part, literal in self.literals if not part.is_conditional]
        # `max` keeps the first of equals, as a rule the part that is assigned.
        literals = plain or [literal for _, literal in self.literals]
        return max(literals, key=lambda each: similarity_of(each.items, key, value))

    def _entry_text(self, literal: Literal) -> str:
        """Return the entry's text in the form of a literal, without comma."""
        entry = self.entry
        quote = _quote(literal)
        key, value = _source(entry, "key", quote), _source(entry, "value", quote)
        if literal.kind == "keywords":
            name = ast.literal_eval(key) if _is_string(key) else ""
            # dict(a=1) takes names alone for keys; the others would be a syntax error.
            if not name.isidentifier() or keyword.iskeyword(name):
                reason = f"{entry.table} has keywords for keys, and {entry.key!r} can be none"
                context = replace(self.context, entry=f"**{{{key}: {value}}},")
                raise context.refusal("registry_computed", self.file.line(literal.inside), reason)
            return f"{name}={value}"
        if literal.kind == "pairs":
            first = literal.items[0].start if literal.items else 0
            opening, closing = "[]" if literal.raw[first : first + 1] == b"[" else "()"
            return f"{opening}{key}, {value}{closing}"
        return key if entry.shape == "list" else f"{key}: {value}"

    def said(self, without: _Item | None = None) -> object:
        """Return the other entries, compared as syntax, in their order."""
        own = self.entry.key if without is not None else None
        items = (item for _, literal in self.literals for item in literal.items)
        return [
            [ast.dump(node) for node in (item.key_node, item.value_node) if node is not None]
            for item in items
            if own is None or item.key != own
        ]

    def unsound(self) -> tuple[int, str]:
        reason = f"the layout of {self.entry.table} leaves no safe place for a line"
        return self.literals[0][0].line, reason

    def without(self, hits: list[_Item]) -> bytes:
        for item in hits:
            if item.literal is None:
                reason = f"a call adds {self.entry.key!r}; remove the statement yourself"
                raise self.refusal("registry_computed", item.part.line, reason)
        literal, index = hits[0].literal, hits[0].index
        assert literal is not None
        try:
            splices = removal(literal, index)
        except LayoutError as error:
            reason = f"{self.entry.key!r} cannot be taken out: {error}"
            raise self.refusal("registry_computed", self.line(hits[0]), reason) from error
        data = self.file.source.with_raw(spliced(literal.raw, splices))
        # A key may be in a list several times, and each removal moves the places of the others.
        return type(self)(data, self.entry, self.by_hand).removed()


def _is_apart(key: ast.expr | None) -> bool:
    """Return whether something in a key's place is never equal to a string."""
    if isinstance(key, ast.Constant):
        return not isinstance(key.value, bytes)  # a table of bytes wants bytes
    # None is the key of `**OTHER`.
    return key is None or isinstance(key, ast.Tuple)


def _key(node: ast.expr | None, entry: Entry) -> str | None:
    """Return an expression as a key, spelled as the entry's own where it is the same."""
    if node is None:
        return None
    if "key" not in entry.code:
        return _text(node)
    return entry.key if same_expression(node, _parsed(entry, "key")) else ast.unparse(node)


def _text(node: ast.expr | None) -> str | None:
    """Return the content of a string, None for anything else."""
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(node.value) if isinstance(node, ast.Constant) and is_text else None


def _parsed(entry: Entry, part: str) -> ast.expr:
    text = entry.key if part == "key" else entry.value
    try:
        return parse_expression(text)
    except SyntaxError as error:
        raise RegistryError(
            f"{entry.file}: the {part} {text!r} of an entry is not a Python expression",
            code="registry_syntax",
            hint=f"change what registers in {entry.table}",
        ) from error


def _source(entry: Entry, part: str, quote: str) -> str:
    """Return the key or value as source text on one line."""
    text = entry.key if part == "key" else entry.value
    if part not in entry.code:
        return _quoted(text, quote)
    if entry.shape == "list" and part == "value":
        return ""
    node = _parsed(entry, part)
    # A tuple without brackets would become several entries.
    is_safe = not re.search(r"[\r\n#]", text) and not isinstance(node, ast.Tuple)
    return text.strip() if is_safe or text.strip().startswith("(") else ast.unparse(node)


def _is_string(source: str) -> bool:
    return _text(parse_expression(source)) is not None


def _quoted(text: str, quote: str) -> str:
    # repr escapes what has to be escaped, and its own marks are only exchanged where nothing was.
    source = repr(text)
    if source[0] == quote or quote in source or "\\" in source:
        return source
    return f"{quote}{source[1:-1]}{quote}"


def _quote(literal: Literal) -> str:
    """Return the quotation mark of the literal's first string, else of most in the file."""
    nodes = [node for item in literal.items for node in (item.key_node, item.value_node)]
    for node in nodes:
        mark = _mark(literal, node)
        if mark:
            return mark
    marks = Counter(_mark(literal, node) for node in ast.walk(literal.file.tree))
    return "'" if marks["'"] > marks['"'] else '"'


def _mark(literal: Literal, node: ast.AST | None) -> str:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return ""
    line = getattr(node, "lineno", 0)  # a keyword's name has none, a part of an f-string may be off
    if not 0 < line <= len(literal.file.starts):
        return ""
    start = literal.file.start(node)
    # A prefix such as `r` or `rb` comes before the mark.
    found = re.compile(rb"[a-zA-Z]*(\"\"\"|'''|\"|')").match(literal.raw, start)
    return found[1].decode() if found else ""
