"""Registration by statements: ``register("key", value)`` and ``REGISTRY["key"] = value``.

Siblings are the statements of a module's top level that call the same function, or assign to items
of the same name. A new one goes to its sorted place among them, or behind the last one.
"""

from __future__ import annotations

import ast
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
from scaffold.edit.shapes import Edit
from scaffold.edit.statements import (
    SHARED_LINE,
    Script,
    bindings,
    literal,
    parse_expression,
    position_of,
    read_script,
    settled,
    sorted_index,
    there,
)

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


def read_entries(data: bytes, entry: Entry) -> dict[str, str | None]:
    """Return the registered keys; a value that is not what the entry asks for is None.

    Raises:
        RegistryError: The file cannot be parsed, or a key is computed.
    """
    script = read_script(data, entry)
    return {key: item.value for key, item in _by_key(script, _items(script)).items()}


def has_entry(data: bytes, entry: Entry) -> bool:
    """Return whether the key is registered with this very value.

    Raises:
        RegistryError: The file cannot be parsed.
    """
    items = _items(read_script(data, entry))
    return any((item.key, item.value) == (entry.key, entry.value) for item in items)


def text_to_add(entry: Entry) -> str:
    """Return the statement that a person would add by hand."""
    return _statement(entry, '"', (None, None))


def add_entry(data: bytes, entry: Entry) -> Edit:
    """Add a statement at its sorted place among its siblings, or behind the last one.

    Raises:
        RegistryError: The edit is not safe; the hint holds the text to add by hand.
    """
    script = read_script(data, entry, text_to_add(entry))
    items = _items(script)
    same = _by_key(script, items).get(entry.key)
    if same and same.value == entry.value:
        return there(script, data, script.start(same.node))
    if same:
        line = same.node.lineno
        raise script.refusal("registry_differs", line, f"{entry.key!r} is registered already")
    splice = _insertion(script, items) if items else _first(script)
    edited = script.with_splices(splice)
    settled(script, data, edited, has_entry, remove_entry)
    after = read_script(edited, entry)
    item = next(each for each in _items(after) if each.key == entry.key)
    return Edit(edited, item.node.lineno)


def remove_entry(data: bytes, entry: Entry) -> bytes:
    """Take the statement back by its key.

    Raises:
        RegistryError: The file cannot be parsed, or the statement shares its line.
    """
    script = read_script(data, entry)
    items = _items(script)
    index = position_of(items, entry.key)
    if index is None:
        return data
    node = items[index].node
    if not script.owns_lines(node):
        raise script.refusal("registry_computed", node.lineno, SHARED_LINE)
    rows = [script.row(item.node) for item in items]
    if len(items) == 1:
        # Adding the first one put these blank lines in; taking it out must give the bytes back.
        start = blank_lines_above(script.raw, rows[0].start, _gap_behind(script, node))
        return script.with_splices(delete_lines(script.raw, start, rows[0].end))
    gap = common_gap(script.raw, rows[:index] + rows[index + 1 :])
    return script.with_splices(delete_row(script.raw, rows, index, gap))


# ---- reading -------------------------------------------------------------------------------------


def _items(script: Script) -> list[_Item]:
    table = ast.dump(parse_expression(script.entry.table, "the registry's name"))
    # Names are compared as trees, so that `reg . add` and `reg.add` are one callee.
    items: list[_Item] = []
    for node in script.tree.body:
        found = _arguments(node, table, script.entry.shape)
        if found:
            key, value, names = found
            items.append(
                _Item(
                    script.known_as(key, "key"),
                    script.known_as(value, "value") if value else "",
                    node,
                    key,
                    names,
                    _further(script, node),
                )
            )
    return items


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


def _further(script: Script, node: ast.stmt) -> tuple[str, ...]:
    """Return the arguments of a call behind key and value, as they are written."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return ()
    texts = [script.segment(each) for each in call.args]
    texts += [
        (f"{each.arg}=" if each.arg else "**") + script.segment(each.value)
        for each in call.keywords
    ]
    return tuple(texts[2:])


def _by_key(script: Script, items: list[_Item]) -> dict[str, _Item]:
    for item in items:
        if item.key is None or "**" in item.names or isinstance(item.quoted, ast.Starred):
            reason = f"{script.entry.table} has a key here that is not a plain string"
            raise script.refusal("registry_computed", item.node.lineno, reason)
    return {str(item.key): item for item in items}


# ---- writing -------------------------------------------------------------------------------------


def _statement(entry: Entry, quote: str, names: _Names, more: tuple[str, ...] = ()) -> str:
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
    return f"{entry.table}({', '.join([*named, *more])})"


def _insertion(script: Script, items: list[_Item]) -> Splice:
    index = sorted_index([str(item.key) for item in items], script.entry.key)
    # 0 where the module binds none of the names, as with builtins: any place will do then.
    bound = _bound_line(script)
    near = items[max(index - 1, 0)].node
    # Sorted order gives way: the statement runs at import and needs the name.
    if bound > near.lineno:  # what it registers is defined further down
        index, near = len(items), items[-1].node
    if bound > near.lineno:
        reason = "what it registers is defined below every other registration"
        raise script.refusal("registry_computed", bound, reason)
    if not script.owns_lines(near):
        raise script.refusal("registry_computed", near.lineno, SHARED_LINE)
    rows = [script.row(item.node) for item in items]
    gap = common_gap(script.raw, rows)
    return insert_row(script.raw, rows, index, _line(script, items), gap)


def _bound_line(script: Script) -> int:
    """Return the line that defines the last of the names that the entry's code uses, or 0."""
    entry, bound = script.entry, bindings(script.tree)
    code = [getattr(entry, part) for part in entry.code if getattr(entry, part)]
    used = [node for text in code for node in ast.walk(parse_expression(text, "an entry"))]
    return max((bound.get(node.id, 0) for node in used if isinstance(node, ast.Name)), default=0)


def _line(script: Script, items: list[_Item]) -> bytes:
    """Return the statement in the siblings' quotes and with their keywords."""
    near = items[-1:]
    single = any(script.segment(item.quoted).startswith("'") for item in near)
    names = near[0].names if near else (None, None)
    if any(len(item.names) > 1 for item in items) and len(names) == 1:
        names = next(item.names for item in items if len(item.names) > 1)
    # What every other registration says further, this one says too.
    further = near[0].more if near and names[1:] else ()
    further = tuple(each for each in further if all(each in item.more for item in items))
    text = _statement(script.entry, "'" if single else '"', names, further)
    return text.encode() + b"\n"


def _first(script: Script) -> Splice:
    """Put the first registration of a module at its end, where that can be told to work."""
    table = script.entry.table
    # A registry that is filled in a loop or a function has a way of its own, and a statement at
    # the end of the module may run too late or twice.
    elsewhere = _used_elsewhere(script)
    if elsewhere:
        reason = f"{table} is only used inside another statement"
        raise script.refusal("registry_computed", elsewhere, reason)
    root, known = table.split(".")[0], bindings(script.tree)
    if root not in known and "*" not in known:
        raise script.refusal("registry_missing", 0, f"{root} is neither defined nor imported")
    gap = _gap_behind(script, None)
    offset = last_line_end(script.raw)
    return insert_lines(script.raw, offset, b"\n" * gap + _line(script, []))


def _used_elsewhere(script: Script) -> int:
    """Return the line of a registration that is no statement of the top level, or 0."""
    table = ast.dump(parse_expression(script.entry.table, "the registry's name"))
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Subscript):
            is_store = isinstance(node.ctx, ast.Store)
            # Reading TABLE[key] registers nothing.
            if is_store and ast.dump(node.value) == table:
                return node.lineno
            continue
        if isinstance(node, ast.Call) and ast.dump(node.func) == table:
            return node.lineno
    return 0


def _gap_behind(script: Script, node: ast.stmt | None) -> int:
    """Return how many blank lines stand before a statement: two behind a definition, else one."""
    body = script.tree.body
    index = body.index(node) if node else len(body)
    is_definition = index and hasattr(body[index - 1], "decorator_list")
    return 2 if is_definition else 1
