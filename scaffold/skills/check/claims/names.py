"""Names that a complete block of Python uses without importing them."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator

from scaffold.repository.statements import all_nodes
from scaffold.repository.whole import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.python_source import (
    defined_names,
    imported_names,
    python_sources,
)
from scaffold.skills.check.context import lead_silence
from scaffold.skills.check.documents import Document

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "self", "cls"}


def find_names(document: Document) -> Iterator[Claim]:
    """Yields the names that blocks use and that no block of the document binds.

    Only a block with imports of its own claims to be complete; one that leaves something out by an
    ellipsis does not.
    """
    bound = _BUILTINS | defined_names(document) | imported_names(document).keys()
    for source in python_sources(document):
        tree = source.tree
        # What is an example, or to be written, is seldom meant to be whole.
        is_part = source.silent or lead_silence(source.block)
        if tree is None or is_part or not _is_complete(tree):
            continue
        own = bound | _also_bound(tree)
        attributes = {
            id(node.value): node.attr for node in all_nodes(tree) if isinstance(node, ast.Attribute)
        }
        seen: set[str] = set()
        for node in all_nodes(tree):
            if isinstance(node, ast.Name) and node.id not in own and node.id not in seen:
                seen.add(node.id)
                is_module = id(node) in attributes
                column = node.col_offset + 1
                yield Claim("name", node.id, source.line(node), column, is_module)


def _is_complete(tree: ast.Module) -> bool:
    imports = [node for node in all_nodes(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    has_star = any(each.name == "*" for node in imports for each in node.names)
    has_gap = any(
        isinstance(node, ast.Constant) and node.value is Ellipsis for node in all_nodes(tree)
    )
    first = tree.body[0] if tree.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        first = tree.body[1] if len(tree.body) > 1 else None
    return isinstance(first, ast.Import | ast.ImportFrom) and not has_star and not has_gap


def _also_bound(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in all_nodes(tree):
        if isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            found.update(node.names)
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.update(each.asname or each.name for each in node.names)
    return found


def judge_name(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judges an unbound name: it is refuted where it is plain what import is missing."""
    name, is_module = claim.text, bool(claim.data)
    if is_module and name in sys.stdlib_module_names:
        return _undefined(name, f"import {name}", "it is a module of Python's own library")
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
    return _undefined(name, f"from {home} import {name}", f"{home} defines it")


def _undefined(name: str, line: str, evidence: str) -> Verdict:
    return Verdict.fails(
        "name-undefined",
        f"the block uses {name!r} and neither defines nor imports it",
        evidence,
        now=f"the line is missing: {line}",
        confidence="medium",
    )


NAMES = Kind("name", find_names, judge_name)
