"""Names that a complete block of Python uses without importing them."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from typing import NamedTuple, cast

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.builtins_table import standard_name
from scaffold.analysis.python.scopes import imported
from scaffold.analysis.python.statements import nodes_of
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.python_source import (
    defined_names,
    imported_names,
    python_sources,
)
from scaffold.skills.check.context import lead_silence
from scaffold.skills.check.documents import Document

# Above it, two names differ by a slip of the fingers.
_CLOSE = 0.8
_GAP = lazy_re(r"#\s*(?:\.\.\.|…|(?:the )?rest\b|your\b|etc\b|assum|given\b)|…", re.IGNORECASE)
_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "self", "cls"}


class Free(NamedTuple):
    """A name that a block uses and that no block of the document binds.

    Args:
        member: What is taken from it first, or empty.
        unused: What the block imports and never uses.
    """

    member: str
    unused: tuple[str, ...]


def find_names(document: Document) -> Iterator[Claim]:
    """Yield the names that blocks use and that no block of the document binds.

    Only a block with imports of its own claims to be complete; one that leaves something out by an
    ellipsis does not.
    """
    bound = _BUILTINS | defined_names(document) | imported_names(document).keys()
    for source in python_sources(document):
        tree = source.tree
        # What is an example, or to be written, is seldom meant to be whole.
        is_part = source.silent or lead_silence(source.block) or _GAP.search(source.block.text)
        if tree is None or is_part or not is_complete(tree):
            continue
        own = {name for name, _ in imported(tree)}
        nodes = nodes_of(tree)
        members = {id(each.value): each.attr for each in nodes if isinstance(each, ast.Attribute)}
        used = {each.id: each for each in reversed(nodes) if isinstance(each, ast.Name)}
        unused = tuple(sorted(own - used.keys()))
        for name, node in sorted(used.items(), key=lambda each: source.line(each[1])):
            if name not in bound | own:
                data = Free(members.get(id(node), ""), unused)
                yield Claim("name", name, source.line(node), node.col_offset + 1, data)


def is_complete(tree: ast.Module) -> bool:
    """Return whether a block begins with its imports and leaves nothing out by an ellipsis."""
    imports = [node for node in nodes_of(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    has_star = any(each.name == "*" for node in imports for each in node.names)
    has_gap = any(
        isinstance(node, ast.Constant) and node.value is Ellipsis for node in nodes_of(tree)
    )
    first = tree.body[0] if tree.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        first = tree.body[1] if len(tree.body) > 1 else None
    return isinstance(first, (ast.Import, ast.ImportFrom)) and not has_star and not has_gap


def judge_name(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge an unbound name: it is refuted where it is plain what import is missing."""
    name, free = claim.text, cast("Free", claim.data)
    if free.member and name in sys.stdlib_module_names:
        # `os.path` can be nothing else; `queue.put` may be a variable of the reader's.
        is_sure = standard_name(f"{name}.{free.member}").real is not None
        return _undefined(name, f"import {name}", "it is a module of Python's own library", is_sure)
    if near := get_close_matches(name, free.unused, n=1, cutoff=_CLOSE):
        evidence = f"it imports {near[0]} and never uses it"
        return _undefined(name, "", evidence, True, f"there is {near[0]}")
    if not (name[:1].isupper() or "_" in name) or not document.is_about_here:
        return Verdict.open("it may be a variable of the reader's")
    index = repository.python
    homes = {
        dotted
        for path, _ in index.defined(name)
        if not path.startswith("tests/")
        for dotted in index.dotted_names(path)[:1]
        if index.find(f"{dotted}.{name}").kind in ("class", "function")
    }
    if len(homes) != 1:
        return Verdict.open("no one module of this repository defines it")
    home = homes.pop()
    return _undefined(name, f"from {home} import {name}", f"{home} defines it", False)


def _undefined(name: str, line: str, evidence: str, is_sure: bool, now: str = "") -> Verdict:
    return Verdict.fails(
        "name-undefined",
        f"the block uses {name!r} and neither defines nor imports it",
        evidence,
        now=now or f"the line is missing: {line}",
        confidence="high" if is_sure else "low",
    )


NAMES = Kind("name", find_names, judge_name)
