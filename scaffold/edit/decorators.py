"""Registration by decorator: ``@register("key")`` above a function or a class.

The entry's value is the source of what is decorated, without that decorator. It goes to its sorted
place among the decorated siblings of the module's top level, or behind the last one, two blank
lines below what stands there.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from scaffold.edit.entry import Entry
from scaffold.edit.layout import Splice, line_start
from scaffold.edit.rows import (
    attached_comments,
    blank_lines_above,
    delete_lines,
    insert_lines,
    last_line_end,
)
from scaffold.edit.shapes import Edit
from scaffold.edit.statements import (
    SHARED_LINE,
    Script,
    bindings,
    literal,
    parse_block,
    parse_expression,
    read_script,
    reindented,
    settled,
    sorted_index,
    there,
)
from scaffold.errors import TemplateError

# PEP 8: two blank lines between the definitions of a module.
_GAP = 2

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class _Item:
    """One decorated definition; ``quoted`` is its key, None where the decorator has none."""

    key: str | None
    node: Definition
    # The registering decorator without its `@`, one of several the definition may have.
    mark: ast.expr
    quoted: ast.expr | None
    keyword: str | None


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return the registered keys; the value is the entry's own for the same code, else None.

    Raises:
        RegistryError: The file cannot be parsed, or a key is computed.
    """
    script = read_script(data, entry)
    return {
        key: entry.value if _matches(entry, item) else None
        for key, item in _by_key(script, _items(script)).items()
    }


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the key is registered for this very code, whatever its layout.

    Raises:
        RegistryError: The file cannot be parsed.
    """
    items = _items(read_script(data, entry))
    return any(item.key == entry.key and _matches(entry, item) for item in items)


def text_to_add(entry: Entry) -> str:
    """Return the decorated definition that a person would add by hand."""
    return f"{_mark(entry, [])}\n{entry.value.rstrip()}"


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add the decorated definition behind a sibling, or at the end of a module without any.

    Raises:
        RegistryError: The edit is not safe; the hint holds the text to add by hand.
        TemplateError: The value is no definition.
    """
    script = read_script(data, entry, text_to_add(entry))
    items = _items(script)
    same = _by_key(script, items).get(entry.key)
    if same and _matches(entry, same):
        return there(script, data, script.start(same.mark))
    name = _definition(entry).name
    # A second definition of a name would take the place of the first one in the module.
    if same or name in bindings(script.tree):
        line = same.mark.lineno if same else bindings(script.tree)[name]
        taken = repr(entry.key) if same else name
        raise script.refusal("registry_differs", line, f"{taken} already means other code")
    edited = script.with_splices(_insertion(script, items))
    settled(script, data, edited, has_entry, remove_entry)
    after = next(each for each in _items(read_script(edited, entry)) if each.key == entry.key)
    return Edit(edited, after.mark.lineno)


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take the decorated definition back by its key, with the blank lines above it.

    Raises:
        RegistryError: The file cannot be parsed.
    """
    script = read_script(data, entry)
    found = next((item for item in _items(script) if item.key == entry.key), None)
    if found is None:
        return data
    row = script.row(found.node)
    start = blank_lines_above(script.raw, row.start, _GAP)
    return script.with_splices(delete_lines(script.raw, start, row.end))


# ---- reading -------------------------------------------------------------------------------------


def _items(script: Script) -> list[_Item]:
    entry = script.entry
    table = ast.dump(parse_expression(entry.table, "the registry's name"))
    items: list[_Item] = []
    for node in script.tree.body:
        if not isinstance(node, Definition):
            continue
        for mark in node.decorator_list:
            # Both `@register` and `@register("key")` register.
            called = mark.func if isinstance(mark, ast.Call) else mark
            if ast.dump(called) == table:
                quoted, keyword = _first_argument(mark)
                # Without an argument a decorator has nothing but the definition's name to register.
                key = node.name if quoted is None else script.known_as(quoted, "key")
                items.append(_Item(key, node, mark, quoted, keyword))
    return items


def _first_argument(mark: ast.expr) -> tuple[ast.expr | None, str | None]:
    if isinstance(mark, ast.Call) and mark.args:
        return mark.args[0], None
    if isinstance(mark, ast.Call) and mark.keywords:
        return mark.keywords[0].value, mark.keywords[0].arg
    return None, None


def _by_key(script: Script, items: list[_Item]) -> dict[str, _Item]:
    for item in items:
        if item.key is None:
            reason = f"{script.entry.table} has a key here that is not a plain string"
            raise script.refusal("registry_computed", item.mark.lineno, reason)
    return {str(item.key): item for item in items}


def _matches(entry: Entry, item: _Item) -> bool:
    """Return whether a definition is the entry's value but for the registering decorator."""
    if not entry.value:
        return False
    marks = item.node.decorator_list
    # The value is stored without the decorator, so the trees are compared without it, and put
    # back: later reads of the same tree need it.
    others = [each for each in marks if each is not item.mark]
    item.node.decorator_list = others
    try:
        return ast.dump(item.node) == ast.dump(_definition(entry))
    finally:
        item.node.decorator_list = marks


def _definition(entry: Entry) -> Definition:
    body = parse_block(entry.value, "what is registered")
    if len(body) != 1 or not isinstance(body[0], Definition):
        reason = f"what is registered is not a function or class: {entry.value!r}"
        raise TemplateError(reason, code="template_invalid")
    return body[0]


# ---- writing -------------------------------------------------------------------------------------


def _mark(entry: Entry, items: list[_Item], quote: str = '"') -> str:
    """Return the decorator in the form that the siblings use."""
    if items and all(item.quoted is None for item in items):
        # All siblings register by name, `@register` or `@register()`, and so does the new one.
        return f"@{entry.table}" + ("()" if isinstance(items[-1].mark, ast.Call) else "")
    keyed = [item for item in items if item.quoted is not None]
    keyword = f"{keyed[-1].keyword}=" if keyed and keyed[-1].keyword else ""
    key = entry.key if "key" in entry.code else literal(entry.key, quote)
    return f"@{entry.table}({keyword}{key})"


def _insertion(script: Script, items: list[_Item]) -> Splice:
    entry, raw = script.entry, script.raw
    quoted = [item.quoted for item in items if item.quoted is not None]
    quote = "'" if quoted and script.segment(quoted[-1]).startswith("'") else '"'
    mark = _mark(entry, items, quote)
    # Siblings without a key register under their own names, and so would this one.
    if mark.rstrip("()") == f"@{entry.table}" and _definition(entry).name != entry.key:
        reason = f"{entry.table} registers by the definition's own name, not {entry.key!r}"
        raise script.refusal("registry_differs", items[-1].mark.lineno, reason)
    lines = f"{mark}\n".encode() + reindented(script, entry.value, b"")
    return insert_lines(raw, _place(script, items), b"\n" * _GAP + lines)


def _place(script: Script, items: list[_Item]) -> int:
    """Return the end of the line that the new definition goes below."""
    raw = script.raw
    if not items:
        root, known = script.entry.table.split(".")[0], bindings(script.tree)
        # A star import may bring the name; what it brings is not followed here.
        if root not in known and "*" not in known:
            reason = f"{root} is neither defined nor imported"
            raise script.refusal("registry_missing", 0, reason)
        return last_line_end(raw)
    index = sorted_index([str(item.key) for item in items], script.entry.key)
    if index == 0:
        # The first definition keeps the comments above it: the new one goes above those.
        start = attached_comments(raw, script.row(items[0].node).start)
        above = last_line_end(raw[:start])
        # Nothing but comments above the first definition: the new one goes below it after all.
        if above:
            return above
    near = items[max(index - 1, 0)].node
    # The row is cut at line ends, and `def f(): ...; x = 1` has more than the definition on one.
    if line_start(raw, script.start(near)) and not script.owns_lines(near):
        raise script.refusal("registry_computed", near.lineno, SHARED_LINE)
    return script.row(near).end
