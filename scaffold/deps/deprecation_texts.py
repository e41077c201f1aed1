"""Deprecations in the text of a definition, and the names that it sends its reader to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from packaging.version import Version

from scaffold.analysis.python.literal_tables import read_literal_tables
from scaffold.analysis.python.sources import Source
from scaffold.analysis.python.statements import dotted_name

Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef

_WARNING = re.compile(r"(Pending)?Deprecat\w*|FutureWarning")
# `.. deprecated:: 2.0` with its indented lines, or a line that begins with `Deprecated:`; what is
# said of an argument is indented further.
_DIRECTIVE = re.compile(
    r"^(?:\.\. deprecated::[ \t]*(?P<version>[\d.]*\d)?[ \t]*\**(?P<first>\w*)[^\n]*"
    r"(?:\n[ \t]+\S[^\n]*)*|DEPRECATED\b[^\n]*|Deprecated[:. ][^\n]*)",
    re.MULTILINE,
)
_CHANGED = re.compile(r"^\.\. version(?:added|changed)::[ \t]*([\d.]*\d)", re.MULTILINE)
# "use `x` instead", "renamed to :func:`~pkg.x`", "in favour of the `x` argument".
_SENDS = re.compile(
    r"(?:\b[Uu]se|[Ii]n favou?r of|[Rr]eplaced (?:by|with)|[Rr]enamed to|[Mm]oved to|[Rr]eplace "
    r"\S+ with|switch to)\s+(?:the\s+|your\s+|a\s+|keyword\s+|argument\s+)*"
    r"[`'\"]*(?::\w+:)?[`'\"~]*([A-Za-z_][\w.]*\w)"
)
_MIGRATES = re.compile(r"[Mm]igrate to [^`'\"]{0,40}[`'\"]@?([A-Za-z_][\w.]*\w)")
# Words that these patterns would take for a name.
_NO_NAMES = frozenset(
    {"the", "instead", "it", "this", "that", "an", "your", "of", "in", "for", "literal"}
)


def deprecation_of(node: Defined) -> str:
    """Return the words with which a definition deprecates itself; "" where it does not."""
    for each in node.decorator_list:
        name = ast.unparse(each.func if isinstance(each, ast.Call) else each)
        # `@deprecate_kwarg("x")` deprecates a parameter and not the function.
        is_of_parameter = "kwarg" in name or "param" in name or "arg" in name.rpartition("_")[2]
        if "deprecat" in name.lower() and not is_of_parameter:
            return _texts(each) or f"@{name}"
    text = ast.get_docstring(node) or ""
    for written in _DIRECTIVE.finditer(text):
        if not _is_of_part(node, written, text):
            return " ".join(written[0].split())
    body: list[ast.stmt] = node.body
    if isinstance(node, ast.ClassDef):
        # A class warns when it is instantiated, that is in its __init__.
        makers = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        body = [row for each in makers if each.name == "__init__" for row in each.body]
        # "The class `X` is deprecated" may be what any of its methods warns of.
        told = (has_warning(each.body) for each in makers)
        own = re.compile(rf"\W*(?:[Tt]he )?class `{node.name}`")
        if text := next(filter(own.match, told), ""):
            return text
    for row in body:
        warned = _warning(row.value) if isinstance(row, ast.Expr) else ""
        if warned:
            return warned
    return ""


def _is_of_part(node: Defined, written: re.Match[str], text: str) -> bool:
    """Return whether a directive is about a parameter, or a way of use, of what went on since."""
    arguments = ast.walk(node.args) if not isinstance(node, ast.ClassDef) else ()
    if written["first"] in {each.arg for each in arguments if isinstance(each, ast.arg)}:
        return True
    since = Version(written["version"]) if written["version"] else None
    return since is not None and any(since < Version(each) for each in _CHANGED.findall(text))


def parameter_deprecation(node: Function, name: str) -> str:
    """Return the warning that giving a parameter brings; "" where there is none."""
    mark = deprecated_parameters(node).get(name)
    if mark is not None:
        return f"@{ast.unparse(mark)}"
    for each in ast.walk(node):
        if isinstance(each, ast.If) and _asks_for(each.test, name):
            warned = (_warning(row.value) for row in each.body if isinstance(row, ast.Expr))
            if text := next(filter(None, warned), ""):
                return text
    return ""


def renamed_parameter(node: Function, name: str) -> str:
    """Return the new name that a decorator of deprecated parameters gives one, or ""."""
    mark = deprecated_parameters(node).get(name)
    words = {each.arg: each.value for each in mark.keywords} if mark is not None else {}
    # `@deprecate_kwarg("old", new_name="new")`.
    new = words.get("new_name")
    return str(new.value) if isinstance(new, ast.Constant) else ""


def deprecated_parameters(node: Function | None) -> dict[str, ast.Call]:
    """Return the parameters that decorators deprecate, and so take, each with its decorator."""
    found: dict[str, ast.Call] = {}
    for each in node.decorator_list if node is not None else ():
        if isinstance(each, ast.Call) and "deprecat" in ast.unparse(each.func).lower():
            first = each.args[0] if each.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.setdefault(first.value, each)
    return found


def names_in(text: str) -> Iterator[str]:
    """Yield the names that a text sends its reader to ("use `x` instead")."""
    for found in [*_SENDS.finditer(text), *_MIGRATES.finditer(text)]:
        name = found[1].strip(".")
        if name.lower() not in _NO_NAMES:
            yield name


def folded(name: str) -> str:
    """Return a name without what another style of writing changes."""
    return name.replace("_", "").lower()


def has_warning(body: list[ast.stmt]) -> str:
    """Return the text of the first warning of deprecation in statements, or ""."""
    for row in body:
        for each in ast.walk(row):
            if isinstance(each, ast.Call):
                warned = _warning(each)
                if warned:
                    return warned
    return ""


def raised_text(body: list[ast.stmt]) -> str | None:
    """Return the words of the ``raise`` that ends statements; None where they do not end so."""
    last = body[-1] if body else None
    if not isinstance(last, ast.Raise) or last.exc is None:
        return None
    return _texts(last.exc) or ast.unparse(last.exc)


def _warning(node: ast.expr) -> str:
    """Return the words of a call that warns of a deprecation; "" for any other expression."""
    if not isinstance(node, ast.Call):
        return ""
    name = ast.unparse(node.func).lower()
    if not re.search(r"warn|deprecat", name):
        return ""
    told = ast.unparse(node)
    if not _WARNING.search(told) and "deprecat" not in told.lower():
        return ""
    return _texts(node) or told[:200]


def _texts(node: ast.AST) -> str:
    words = [
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    # Shorter strings are keys and separators of the message, and no words of it.
    words = [each for each in words if len(each) > 3]
    return " ".join(" ".join(words).split())[:300]


def _asks_for(test: ast.expr, name: str) -> bool:
    """Return whether a condition is about a parameter having been given."""
    first = test.values[0] if isinstance(test, ast.BoolOp) else test
    names = [each.id for each in ast.walk(first) if isinstance(each, ast.Name)]
    words = [each.value for each in ast.walk(first) if isinstance(each, ast.Constant)]
    if name in words:
        return True
    return bool(names) and names[0] == name and not isinstance(first, ast.Call)


def stub_of(source: Source, name: str) -> tuple[str, int] | None:
    """Return what the use of a name raises that is bound to a stub, and the line that binds it.

    Such a name is bound by ``for x in TABLE: globals()[x] = Stub(x)``.
    """
    tables = read_literal_tables(source.tree)
    for loop in source.tree.body:
        table = tables.get(dotted_name(loop.iter) or "") if isinstance(loop, ast.For) else None
        if table is None or name not in {key for key, _ in table.entries}:
            continue
        for each in ast.walk(loop):
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Subscript):
                stub = each.value.func if isinstance(each.value, ast.Call) else each.value
                text = _raises(source.tree, dotted_name(stub) or "")
                if text is not None:
                    return text, each.lineno
    return None


def _raises(tree: ast.Module, name: str) -> str | None:
    """Return what a method of a class raises, whatever it is called with."""
    for each in tree.body:
        if isinstance(each, ast.ClassDef) and each.name == name:
            methods = [row for row in each.body if isinstance(row, ast.FunctionDef)]
            found = (raised_text(row.body) for row in methods if len(row.body) == 1)
            return next((text for text in found if text is not None), None)
    return None
