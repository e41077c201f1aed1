"""Registries that are literals: ``NAME = {"key": "module:attr", ...}``, ``__all__ = [...]``.

Shape "dict" is a table of keys and values, shape "list" a collection of keys alone; the forms of
both are in `scaffold.edit.forms`, the addresses in `scaffold.edit.address`, the place that an entry
takes in `scaffold.edit.placing`. Key and value are the contents of strings, or source text where
the entry's `code` says so. A file changes by splices into one literal; all else stays as bytes.

A list with several parts (``__all__ += [...]``, ``__all__.extend([...])``) gains the entry in the
part with the entry that it resembles most, or in the first; parts in blocks that may not run come
into question only where there is no other. Removal finds it in whichever part it is.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scaffold.edit.address import Part, find_parts, is_dead
from scaffold.edit.entry import Entry
from scaffold.edit.forms import Item, Literal, read_literal
from scaffold.edit.layout import line_at, spliced
from scaffold.edit.placing import find_slot, similarity_of
from scaffold.edit.python_file import (
    PythonFile,
    parse_expression,
    read_python,
    same_expression,
)
from scaffold.edit.refusal import Context
from scaffold.edit.shapes import Edit
from scaffold.edit.splicing import LayoutError, insertion, removal
from scaffold.errors import RegistryError

_SHAPES = {"dict": "dictionary literal", "list": "list, tuple or set literal"}


@dataclass(frozen=True)
class _Registry:
    """What a file says about a registry.

    Args:
        literals: Its parts that are literals, each with the statement it stands in.
        loose: Single items that calls add to it.
    """

    file: PythonFile
    context: Context
    literals: tuple[tuple[Part, Literal], ...]
    loose: tuple[Part, ...]

    @property
    def items(self) -> list[Item]:
        return [item for _, literal in self.literals for item in literal.items]


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return the registry's keys with their values; a value that is no plain string is None.

    Keys are contents of strings, or source text where the entry's `code` names "key"; others are
    left out. The values of a shape that has keys only are empty.

    Raises:
        RegistryError: The registry is missing, or is no literal.
    """
    registry = _locate(data, entry, Context(entry.file, entry.table))
    entries = {item.key: _value(item, entry) for item in registry.items if item.key is not None}
    for part in registry.loose:
        key = _key(part.value, entry)
        if key is not None:
            entries[key] = ""
    return entries


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the entry is there, with this very value; code is compared as syntax.

    Raises:
        RegistryError: The registry is missing, or is no literal.
    """
    registry = _locate(data, entry, Context(entry.file, entry.table))
    found = _found(registry, entry)
    if not found:
        return any(_key(part.value, entry) == entry.key for part in registry.loose)
    # Of two equal keys Python keeps the last.
    return _matches(found[-1], entry)


def text_to_add(entry: Entry) -> str:
    """Return the line that a person would add by hand."""
    # No file is at hand here, so the quotation marks are those of most code.
    key, value = _source(entry, "key", '"'), _source(entry, "value", '"')
    return f"{key}," if entry.shape == "list" else f"{key}: {value},"


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add an entry in its place; see `scaffold.edit.placing`.

    Args:
        data: The file's bytes.
        entry: What to add.

    Returns:
        The new bytes; the same bytes where the entry is there already.

    Raises:
        RegistryError: The edit is not safe; the hint holds the line to add by hand.
    """
    context = Context(entry.file, entry.table, text_to_add(entry))
    registry = _locate(data, entry, context)
    present = _present_line(registry, entry)
    if present:
        return Edit(data, present)
    # Among several parts first the part, then the place in it; text and quotes are that part's own.
    literal = _best_literal(registry, entry)
    text = _entry_text(literal, entry, context)
    slot = find_slot(literal, entry)
    try:
        splices = insertion(literal, slot, text.encode("utf-8"))
        edited = registry.file.source.with_raw(spliced(literal.raw, splices))
    except (LayoutError, UnicodeEncodeError) as error:
        encoding = f"the file's encoding, {registry.file.source.encoding}, cannot hold the entry"
        reason = str(error) if isinstance(error, LayoutError) else encoding
        line = line_at(literal.raw, literal.inside)
        raise context.refusal("registry_computed", line, reason) from error
    return Edit(edited, _verified_line(registry, edited, entry))


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take an entry back, whatever its value; what `add_entry` made of a file is undone.

    Raises:
        RegistryError: The registry is missing, or is no literal, or the entry is no part of one.
    """
    context = Context(entry.file, entry.table)
    # A key may be in a list several times, and each removal moves the places of the others.
    while True:
        registry = _locate(data, entry, context)
        for part in registry.loose:
            if _key(part.value, entry) == entry.key:
                reason = f"a call adds {entry.key!r}; remove the statement yourself"
                raise context.refusal("registry_computed", part.line, reason)
        hit = _first_hit(registry, entry)
        if hit is None:
            return data
        literal, index = hit
        try:
            splices = removal(literal, index)
        except LayoutError as error:
            line = line_at(literal.raw, literal.items[index].start)
            reason = f"{entry.key!r} cannot be taken out: {error}"
            raise context.refusal("registry_computed", line, reason) from error
        data = registry.file.source.with_raw(spliced(literal.raw, splices))


# ---- finding the literals ------------------------------------------------------------------------


def _locate(data: bytes, entry: Entry, context: Context) -> _Registry:
    file = read_python(data, context)
    try:
        parts = find_parts(file.tree, entry.table)
    except SyntaxError as error:
        raise context.refusal(
            "registry_missing", 0, f"{entry.table!r} is not an address"
        ) from error
    _check_parts(parts, file, entry, context)
    literals: list[tuple[Part, Literal]] = []
    for part in parts:
        if part.value is not None and part.how in ("assigned", "grown"):
            literal = read_literal(file, part.value, entry.shape)
            if literal is not None:
                literals.append((part, _with_keys(literal, entry, context)))
    if not literals:
        line = parts[0].line
        reason = f"{context.table} is not a {_SHAPES[entry.shape]}"
        raise context.refusal("registry_computed", line, reason)
    loose = tuple(part for part in parts if part.how == "extended")
    return _Registry(file, context, tuple(literals), loose)


def _check_parts(parts: Sequence[Part], file: PythonFile, entry: Entry, context: Context) -> None:
    table = context.table
    bound = [part for part in parts if part.how in ("assigned", "unpacked")]
    imported = [part for part in parts if part.how == "imported"]
    if not parts and file.unread_line:
        reason = f"{table} was not found; this statement is newer than the running Python reads"
        raise context.refusal("registry_syntax", file.unread_line, reason)
    if not bound and imported:
        reason = f"{table} is imported here; name the file that assigns it"
        raise context.refusal("registry_missing", imported[0].line, reason)
    if not parts:
        raise context.refusal("registry_missing", 0, f"no assignment to {table} was found")
    dead = [part for part in bound if is_dead(file.tree, part.line)]
    if dead:
        reason = f"{table} is under a condition that is never true: an entry would have no effect"
        raise context.refusal("registry_computed", dead[0].line, reason)
    if len(bound) > 1:
        raise context.refusal("registry_computed", bound[-1].line, f"{table} is assigned twice")
    # `TABLE |= OTHER` may replace what the literal holds.
    grown = [part for part in parts if part.how == "grown" and entry.shape == "dict"]
    if grown:
        raise context.refusal("registry_computed", grown[-1].line, f"{table} grows here")


def _with_keys(literal: Literal, entry: Entry, context: Context) -> Literal:
    items: list[Item] = []
    for item in literal.items:
        key = _key(item.key_node, entry)
        # A computed key may be the one that is to be added, so that its entry would be hidden.
        if key is None and entry.shape == "dict" and not _is_apart(item.key_node):
            line = line_at(literal.raw, item.start)
            reason = f"{context.table} has a key that is not a plain string"
            raise context.refusal("registry_computed", line, reason)
        items.append(replace(item, key=key))
    return replace(literal, items=tuple(items))


def _is_apart(key: ast.expr | None) -> bool:
    """Return whether something in a key's place is never equal to a string."""
    if isinstance(key, ast.Constant):
        return not isinstance(key.value, bytes)  # a table of bytes wants bytes
    # None is the key of `**OTHER`.
    return key is None or isinstance(key, ast.Tuple)


# ---- keys and values -----------------------------------------------------------------------------


def _key(node: ast.expr | None, entry: Entry) -> str | None:
    """Return an expression as a key, spelled as the entry's own where it is the same."""
    if node is None:
        return None
    if "key" not in entry.code:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        return str(node.value) if isinstance(node, ast.Constant) and is_text else None
    return entry.key if same_expression(node, _parsed(entry, "key")) else ast.unparse(node)


def _value(item: Item, entry: Entry) -> str | None:
    if entry.shape == "list":
        return ""
    node = item.value_node
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(node.value) if isinstance(node, ast.Constant) and is_text else None


def _matches(item: Item, entry: Entry) -> bool:
    if "value" not in entry.code or entry.shape == "list":
        return _value(item, entry) == ("" if entry.shape == "list" else entry.value)
    assert item.value_node is not None
    return same_expression(item.value_node, _parsed(entry, "value"))


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


def _found(registry: _Registry, entry: Entry) -> list[Item]:
    return [item for item in registry.items if item.key == entry.key]


def _first_hit(registry: _Registry, entry: Entry) -> tuple[Literal, int] | None:
    for _, literal in registry.literals:
        for index, item in enumerate(literal.items):
            if item.key == entry.key:
                return literal, index
    return None


def _present_line(registry: _Registry, entry: Entry) -> int:
    """Return the line of an entry that is there, or 0; one of another value is refused."""
    for part in registry.loose:
        if _key(part.value, entry) == entry.key:
            return part.line
    found = [
        (literal, item)
        for _, literal in registry.literals
        for item in literal.items
        if item.key == entry.key
    ]
    if not found:
        return 0
    literal, item = found[-1]
    line = line_at(literal.raw, item.start)
    if _matches(item, entry):
        return line
    assert item.value_node is not None
    reason = f"{entry.key!r} already means {literal.file.text(item.value_node)}"
    text = _entry_text(literal, entry, registry.context)
    context = replace(registry.context, entry=f"{text},")
    raise context.refusal("registry_differs", line, reason)


# ---- the entry's text ----------------------------------------------------------------------------


def _entry_text(literal: Literal, entry: Entry, context: Context) -> str:
    quote = _quote(literal)
    key, value = _source(entry, "key", quote), _source(entry, "value", quote)
    if literal.kind == "keywords":
        name = ast.literal_eval(key) if _is_string(key) else ""
        # dict(a=1) takes names alone for keys; the others would be a syntax error.
        if not name.isidentifier() or keyword.iskeyword(name):
            line = line_at(literal.raw, literal.inside)
            reason = f"{context.table} has keywords for keys, and {entry.key!r} can be none"
            context = replace(context, entry=f"**{{{key}: {value}}},")
            raise context.refusal("registry_computed", line, reason)
        return f"{name}={value}"
    if literal.kind == "pairs":
        first = literal.items[0].start if literal.items else 0
        opening, closing = "[]" if literal.raw[first : first + 1] == b"[" else "()"
        return f"{opening}{key}, {value}{closing}"
    return key if entry.shape == "list" else f"{key}: {value}"


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
    node = parse_expression(source)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


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


# ---- choosing the part, and making sure ----------------------------------------------------------


def _best_literal(registry: _Registry, entry: Entry) -> Literal:
    for _, literal in registry.literals:
        if entry.near and any(item.key == entry.near for item in literal.items):
            return literal
    plain = [literal for part, literal in registry.literals if not part.is_conditional]
    literals = plain or [literal for _, literal in registry.literals]
    # `max` keeps the first of equals, as a rule the part that is assigned.
    return max(literals, key=lambda each: similarity_of(each.items, entry.key, entry.value))


def _verified_line(before: _Registry, edited: bytes, entry: Entry) -> int:
    """Return the line of the new entry, after a look whether it is all that changed.

    Raises:
        RegistryError: More changed, so that the literal is none to edit.
    """
    after = _locate(edited, entry, before.context)
    found = _found(after, entry)
    rest = [item for item in after.items if item.key != entry.key]
    # The other entries are compared as syntax, in their order, with those before the edit.
    is_sound = len(found) == 1 and _matches(found[0], entry)
    if not is_sound or list(map(_dumped, rest)) != list(map(_dumped, before.items)):
        line = before.literals[0][0].line
        reason = f"the layout of {entry.table} leaves no safe place for a line"
        raise before.context.refusal("registry_computed", line, reason)
    return line_at(after.file.raw, found[0].start)


def _dumped(item: Item) -> str:
    nodes = (item.key_node, item.value_node)
    return ": ".join(ast.dump(node) if node is not None else "" for node in nodes)
