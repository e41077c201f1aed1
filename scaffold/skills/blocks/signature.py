"""Blocks of the kind ``signature``: what a symbol takes and what its docstring says."""

from __future__ import annotations

import ast
import textwrap

from scaffold.skills.blocks.markers import Block, fenced
from scaffold.skills.blocks.sources import BlockError, Definition, Module, Sources

_CHANGES_THE_CALL = frozenset(
    {
        "property",
        "cached_property",
        "staticmethod",
        "classmethod",
        "abstractmethod",
        "dataclass",
        "contextmanager",
        "asynccontextmanager",
    }
)
"""The decorators of the standard library after which something is called, or made, otherwise."""


def signature_text(block: Block, sources: Sources) -> str:
    """Return ``signature DOTTED [doc=all|first|none] [members=a,b]`` as a fenced block.

    Raises:
        BlockError: The symbol is not there, or is nothing with a signature.
    """
    dotted = block.words[0]
    module, node = sources.node(dotted)
    if not isinstance(node, Definition):
        raise BlockError(f"{dotted} is not a function or class, but is in {module.path}")
    doc = block.options.get("doc", "all")
    parts = [_head(module, node, doc)]
    if isinstance(node, ast.ClassDef):
        names = [name for name in block.options.get("members", "").split(",") if name]
        members = [sources.node(f"{dotted}.{name}") for name in names or _constructor(node)]
        parts += [*_fields(module, node), *(_member(*each, doc) for each in members)]
    return fenced("\n".join(parts), "python")


def _head(module: Module, node: Definition, doc: str) -> str:
    """Return a definition up to its docstring, as it is written, moved to the left margin."""
    first = node.body[0]
    # Above a decorated statement of the body stand its decorators, which are not of the head.
    end = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", ()))]) - 1
    rows = [*_decorators(module, node), *module.rows[node.lineno - 1 : end]]
    # Columns of the syntax tree count bytes of UTF-8.
    beside = module.rows[end].encode()[: first.col_offset].decode().rstrip()
    if beside and end == first.lineno - 1:  # def f(): ...
        rows.append(beside)
    # Blank rows and comments below the head belong to the body.
    while rows and (not rows[-1].strip() or rows[-1].strip().startswith("#")):
        rows.pop()
    text = _docstring(node, doc)
    shown = [textwrap.dedent("\n".join(rows))]
    if text:
        shown.append(textwrap.indent(text, "    "))
    elif not isinstance(node, ast.ClassDef):
        shown[-1] += " ..."
    return "\n".join(shown)


def _decorators(module: Module, node: Definition) -> list[str]:
    """Return the rows of the decorators without which a reader would call it in a wrong way."""
    rows: list[str] = []
    for each in node.decorator_list:
        name = ast.unparse(each.func if isinstance(each, ast.Call) else each)
        if name.rpartition(".")[2] in _CHANGES_THE_CALL:
            rows += module.rows[each.lineno - 1 : each.end_lineno]
    return rows


def _docstring(node: Definition, doc: str) -> str:
    text = ast.get_docstring(node) or ""
    if not text or doc == "none":
        return ""
    if doc == "first":
        text = text.partition("\n\n")[0]
    # The parsed docstring has no escapes any more; shown as source it needs them again.
    text = text.replace("\\", "\\\\").replace('"""', '\\"""')
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'


def _fields(module: Module, node: ast.ClassDef) -> list[str]:
    """Return the annotated fields of a class, as they are written."""
    found = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    texts = [textwrap.dedent(_lines(module, each)) for each in found]
    return ["", *(textwrap.indent(text, "    ") for text in texts)] if texts else []


def _lines(module: Module, node: ast.stmt) -> str:
    return "\n".join(module.rows[node.lineno - 1 : node.end_lineno])


def _constructor(node: ast.ClassDef) -> list[str]:
    own = [each.name for each in node.body if isinstance(each, Definition)]
    return ["__init__"] if "__init__" in own else []


def _member(module: Module, node: ast.stmt | ast.Module, doc: str) -> str:
    if not isinstance(node, Definition):
        raise BlockError(f"{module.path} has a member here that is not a function")
    return "\n" + textwrap.indent(_head(module, node, doc), "    ")
