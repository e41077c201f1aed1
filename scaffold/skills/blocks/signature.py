"""Blocks of the kinds ``signature`` and ``registry``: what a symbol takes, what a table names.

Python is read as text: nothing is imported.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

from scaffold.analysis.python import sources as analysis
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source
from scaffold.skills.blocks.markers import Block, BlockError, fenced, table
from scaffold.syntax import parse

if TYPE_CHECKING:
    from scaffold.analysis.files.files import Files
    from scaffold.analysis.python.lookup_result import Found

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

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

Reading = Callable[[], tuple[Source, ast.stmt | ast.Module]]


class Sources:
    """The Python of a repository; what nobody asks for is never parsed."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._index = PythonIndex(files)
        self._sources = analysis.Sources(files)

    def node(self, dotted: str) -> tuple[Source, ast.stmt | ast.Module]:
        """Return the statement that a dotted name refers to, with its module.

        Args:
            dotted: The name; a colon may come before the last part.

        Raises:
            BlockError: It is not there, or only running the code would tell.
        """
        return self._defined(dotted, self._index.find(dotted.replace(":", ".")))

    def node_in(self, module: Source, name: str) -> tuple[Source, ast.stmt | ast.Module]:
        """Return the same for a name as a module's own code uses it."""
        return self._defined(name, self._index.find_in(module.path, name))

    def _defined(self, name: str, found: Found) -> tuple[Source, ast.stmt | ast.Module]:
        if not found.exists or found.path is None:
            near = f"; did you mean {found.near!r}?" if found.near else ""
            raise BlockError(f"{name}: {found.evidence}{near}")
        module = self._sources.get(found.path)
        if module is None:
            try:
                parse(self._files.text(found.path) or "")
            except SyntaxError as error:
                raise BlockError(f"{found.path} does not parse: {error}") from error
            raise BlockError(f"{found.path} cannot be read")
        if found.kind == "module":
            return module, module.tree
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
        for node in ast.walk(module.tree):
            if isinstance(node, kinds) and node.lineno == found.line:
                return module, node
        raise BlockError(f"{name} is not a definition: {found.evidence}")


def rows_of(module: Source) -> list[str]:
    """Return the lines of a module, whatever ends they have."""
    return module.text.replace("\r\n", "\n").split("\n")


def first_sentence(node: ast.AST) -> str:
    """Return the first line of a docstring, or ""."""
    if not isinstance(node, Definition | ast.Module):
        return ""
    return (ast.get_docstring(node) or "").partition("\n")[0]


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
        names = block.listed("members")
        own = {each.name for each in node.body if isinstance(each, Definition)}
        parts += _fields(module, node)
        for name in names or {"__init__"} & own:
            place, member = sources.node(f"{dotted}.{name}")
            if not isinstance(member, Definition):
                raise BlockError(f"{place.path} has a member here that is not a function")
            parts.append("\n" + textwrap.indent(_head(place, member, doc), "    "))
    return fenced("\n".join(parts), "python")


def _head(module: Source, node: Definition, doc: str) -> str:
    """Return a definition up to its docstring, as it is written, moved to the left margin."""
    first = node.body[0]
    # Above a decorated statement of the body are its decorators, which are not of the head.
    end = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", ()))]) - 1
    rows = [*_decorators(module, node), *rows_of(module)[node.lineno - 1 : end]]
    # Columns of the syntax tree count bytes of UTF-8.
    beside = rows_of(module)[end].encode()[: first.col_offset].decode().rstrip()
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


def _decorators(module: Source, node: Definition) -> list[str]:
    """Return the rows of the decorators without which a reader would call it in a wrong way."""
    rows: list[str] = []
    for each in node.decorator_list:
        name = ast.unparse(each.func if isinstance(each, ast.Call) else each)
        if name.rpartition(".")[2] in _CHANGES_THE_CALL:
            rows += rows_of(module)[each.lineno - 1 : each.end_lineno]
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


def _fields(module: Source, node: ast.ClassDef) -> list[str]:
    """Return the annotated fields of a class, as they are written."""
    found = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    rows = ("\n".join(rows_of(module)[each.lineno - 1 : each.end_lineno]) for each in found)
    texts = [textwrap.indent(textwrap.dedent(each), "    ") for each in rows]
    return ["", *texts] if texts else []


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
        path, summary = _place(entry, module, sources)
        rows.append([f"`{name}`", f"`{path}`" if path else "", summary])
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


def _place(entry: ast.expr, module: Source, sources: Sources) -> tuple[str, str]:
    """Return the file of an entry and its description of itself; "" for what is not known."""
    for look in _readings(entry, module, sources):
        try:
            found, node = look()
        except BlockError:
            continue
        return found.path, first_sentence(node) or first_sentence(found.tree)
    return "", ""


def _readings(entry: ast.expr, module: Source, sources: Sources) -> list[Reading]:
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
