"""Blocks of the kind ``registry``: what a literal table names, and the file of each entry."""

from __future__ import annotations

import ast
from collections.abc import Callable

from scaffold.skills.blocks.markers import Block, table
from scaffold.skills.blocks.sources import BlockError, Module, Sources, first_sentence

Reading = Callable[[], tuple[Module, ast.stmt | ast.Module]]


def registry_text(block: Block, sources: Sources) -> str:
    """Return ``registry DOTTED`` as a table: name, file and the first sentence of its docstring.

    Raises:
        BlockError: The table is not there, or is no literal.
    """
    dotted = block.words[0]
    module, node = sources.node(dotted)
    value = getattr(node, "value", None)
    rows: list[list[str]] = []
    for name, entry in _entries(dotted, value):
        path, says = _place(entry, module, sources)
        rows.append([f"`{name}`", f"`{path}`" if path else "", says])
    return table(["name", "file", "what it is"], rows)


def _entries(dotted: str, value: ast.expr | None) -> list[tuple[str, ast.expr]]:
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        # `{**others}` has no key, and its entries are not written here.
        rows = [(_name(key), each) for key, each in pairs if key is not None]
        if len(rows) == len(value.keys):
            return rows
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return [(_name(each), each) for each in value.elts]
    raise BlockError(f"{dotted} is not a literal table: its entries follow from running the code")


def _name(key: ast.expr) -> str:
    return str(key.value) if isinstance(key, ast.Constant) else ast.unparse(key)


def _place(entry: ast.expr, module: Module, sources: Sources) -> tuple[str, str]:
    """Return the file of an entry and what it says of itself; "" for what is not known."""
    for look in _readings(entry, module, sources):
        try:
            found, node = look()
        except BlockError:
            continue
        return found.path, first_sentence(node) or first_sentence(found.tree)
    return "", ""


def _readings(entry: ast.expr, module: Module, sources: Sources) -> list[Reading]:
    """Return the ways to read the value of an entry, the likeliest first."""
    if isinstance(entry, ast.Tuple | ast.List) and entry.elts:
        # A pair such as ("my_rl.reward.exact", "ExactReward").
        parts = [each.value for each in entry.elts if isinstance(each, ast.Constant)]
        dotted = ".".join(map(str, parts))
        return [lambda: sources.node(dotted)] if len(parts) == len(entry.elts) else []
    if isinstance(entry, ast.Constant) and isinstance(entry.value, str):
        # The whole dotted name, or a name of the table's own module.
        text = entry.value
        return [lambda: sources.node(text), lambda: sources.node_in(module, text)]
    if isinstance(entry, ast.Name | ast.Attribute):
        return [lambda: sources.node_in(module, ast.unparse(entry))]
    return []
