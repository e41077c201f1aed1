"""What statements are known by, what they bind and what they read."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from scaffold.units.init.python_source import Source

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

# What may be an annotation, or the name of something in `__all__`.
_TYPE = re.compile(r"[\w.\[\], |]{1,200}")


def identity(source: Source, node: ast.stmt) -> str:
    """Return what a statement is known by among those of its block."""
    match node:
        case ast.ClassDef(name=name):
            return f"class {source.canon(name)}"
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return f"def {source.canon(name)}"
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target):
            return f"= {source.canon(target)}"
        case ast.Expr(value=ast.Call(func=func)):
            return f"call {source.canon(func)}"
        case ast.Expr(value=ast.Constant()):
            return "text"
        case ast.If(test=test):
            return f"if {source.canon(test)}"
        case _:
            return source.canon(node)


def named_class(source: Source, body: Sequence[ast.stmt]) -> ast.ClassDef | None:
    """Return the class that alone in its block bears the unit's name, None where several do."""
    found = [
        node for node in body if isinstance(node, ast.ClassDef) and source.name.occurs_in(node.name)
    ]
    return found[0] if len(found) == 1 else None


def is_enclosed(source: Source, node: ast.AST) -> bool:
    """Return whether a value has brackets of its own, which stay where nothing is left in them."""
    start, end = source.span(node)
    return source.text[start] in "([{" and source.text[end - 1] in ")]}"


def parts(node: ast.AST, name: str) -> Any:
    """Return a field of a node whose class was looked at before."""
    return getattr(node, name)


def sort_of(node: ast.AST) -> tuple[type[object], type[object]]:
    """Return what values that stand for each other have in common."""
    value: object = getattr(node, "value", None)
    return type(node), type(value)


def named_first(mark: ast.expr) -> set[str]:
    """Return the names in the texts of a call's first argument: ``parametrize("a, b", [])``."""
    if not isinstance(mark, ast.Call):
        return set()
    given = [*mark.args, *(word.value for word in mark.keywords)]
    texts = [n.value for each in given[:1] for n in ast.walk(each) if isinstance(n, ast.Constant)]
    return {name for text in texts for name in re.findall(r"[^\W\d]\w*", str(text))}


def is_docstring(node: ast.stmt, body: Sequence[ast.stmt]) -> bool:
    return (
        node is body[0]
        and isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def bound(node: ast.AST) -> set[str]:
    """Return the names that a statement binds in the scope that it is in."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {each.asname or each.name.partition(".")[0] for each in names}
        case ast.Name(id=name, ctx=ast.Store()):
            return {name}
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return set()
        case _:
            return set[str]().union(*map(bound, ast.iter_child_nodes(node)))


def stored(node: ast.AST) -> set[str]:
    found = {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    if isinstance(node, Function):
        found |= {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        found |= set[str]().union(*map(bound, node.body))
    elif isinstance(node, Definition):
        found.add(node.name)
    found |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    return found | {n.name for n in ast.walk(node) if isinstance(n, ast.ExceptHandler) and n.name}


def loaded(node: ast.AST) -> set[str]:
    """Return the names that code reads, those in annotations that are texts too."""
    found: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            found.add(each.id)
        elif isinstance(each, ast.Constant) and _TYPE.fullmatch(str(each.value)):
            found |= set(re.findall(r"[A-Za-z_]\w*", str(each.value)))
    return found


def needed(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that statements read before they bind them."""
    known: set[str] = set()
    found: set[str] = set()
    for node in body:
        found |= _needed_by(node) - known
        known |= bound(node)
    return found


def _needed_by(node: ast.stmt) -> set[str]:
    blocks = [
        *(getattr(node, name, []) for name in ("body", "orelse", "finalbody")),
        *(each.body for each in getattr(node, "handlers", [])),
        *(each.body for each in getattr(node, "cases", [])),
    ]
    if isinstance(node, Definition) or not any(blocks):
        # What a comprehension, a lambda or a function binds is its own.
        own = set[str]() if not isinstance(node, Definition) else stored(node)
        inner = (ast.comprehension, ast.arg, ast.NamedExpr)
        own = own.union(*(stored(each) for each in ast.walk(node) if isinstance(each, inner)))
        return loaded(node) - own
    within = {id(each) for block in blocks for row in block for each in ast.walk(row)}
    head = [each for each in ast.walk(node) if id(each) not in within]
    read = {n.id for n in head if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    bound = {n.id for n in head if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.name for n in head if isinstance(n, ast.ExceptHandler) and n.name}
    return (read - bound).union(*(needed(block) - bound for block in blocks))


def is_import_block(node: ast.stmt) -> bool:
    """Return whether a statement imports under a condition."""
    return isinstance(node, ast.If | ast.Try) and any(
        isinstance(each, ast.Import | ast.ImportFrom) for each in node.body
    )


def prune(args: ast.arguments, is_shared: Callable[[ast.arg | None], bool]) -> None:
    """Take the parameters out that not most units have; the first one stays."""
    plain = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(args.defaults))
    pairs = list(zip(plain, [*defaults, *args.defaults], strict=True))
    kept = [(arg, value) for place, (arg, value) in enumerate(pairs)
            if (not place and arg.arg in ("self", "cls")) or is_shared(arg)]  # fmt: skip
    args.posonlyargs = [arg for arg, _ in kept if arg in args.posonlyargs]
    args.args = [arg for arg, _ in kept if arg not in args.posonlyargs]
    args.defaults = [value for _, value in kept if value is not None]
    words = [
        (arg, value)
        for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        if is_shared(arg)
    ]
    args.kwonlyargs = [arg for arg, _ in words]
    args.kw_defaults = [value for _, value in words]
    args.vararg = args.vararg if is_shared(args.vararg) else None
    args.kwarg = args.kwarg if is_shared(args.kwarg) else None


def copy_of(args: ast.arguments) -> ast.arguments:
    text = f"def f({ast.unparse(args)}): ..."
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    return node.args


def without_headings(rows: Sequence[str], stays: Sequence[bool]) -> list[str]:
    """Return the lines of a docstring that stay, without titles whose sections are all gone."""
    found: list[str] = []
    for place, row in enumerate(rows):
        depth = len(row) - len(row.lstrip())
        inside = [n for n in range(place + 1, len(rows)) if rows[n].strip()]
        within = [
            n
            for n in inside
            if all(len(rows[k]) - len(rows[k].lstrip()) > depth for k in inside if k <= n)
        ]
        is_empty = bool(within) and not any(stays[n] for n in within)
        is_blank = not row.strip() and (not found or not found[-1].strip())
        if (
            stays[place]
            and not is_blank
            and not (place and row.rstrip().endswith(":") and is_empty)
        ):
            found.append(row)
    return found
