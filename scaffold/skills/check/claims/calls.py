"""Calls in blocks of Python: do they fit what is called?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.repository.statements import all_nodes
from scaffold.repository.whole import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.imports import is_surely_ours
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.python_source import Source, imported_names, python_sources
from scaffold.skills.check.documents import Document

_RULES = {
    "missing": "argument-missing",
    "unknown": "argument-unknown",
    "too-many": "argument-surplus",
    "twice": "argument-unknown",
}


class Called(NamedTuple):
    """Is a call, or a member that is read.

    Args:
        dotted: The full name of what is called.
        call: The call; None where a member is only read.
        silent: Why it claims nothing, or empty.
    """

    dotted: str
    call: ast.Call | None
    silent: str


def find_calls(document: Document) -> Iterator[Claim]:
    """Yields the calls, and the members, of what a document imports."""
    names = imported_names(document)
    for source in python_sources(document):
        if source.tree is not None:
            yield from _Finder(source, names).claims(source.tree)


class _Finder:
    """Finds the calls of one block."""

    def __init__(self, source: Source, names: dict[str, str]) -> None:
        self._source = source
        self._names = dict(names)
        self._made = _made_once(source.tree, self._names) if source.tree is not None else {}

    def claims(self, tree: ast.Module) -> Iterator[Claim]:
        called: set[int] = set()
        for node in all_nodes(tree):
            if isinstance(node, ast.Call):
                called.add(id(node.func))
                if dotted := self._dotted(node.func):
                    yield self._claim(node, dotted, node)
        for node in all_nodes(tree):
            if isinstance(node, ast.Attribute) and id(node) not in called:
                dotted = self._dotted(node)
                if dotted and isinstance(node.ctx, ast.Load):
                    yield self._claim(node, dotted, None)

    def _claim(self, node: ast.expr, dotted: str, call: ast.Call | None) -> Claim:
        text = " ".join(ast.unparse(node).split())
        data = Called(dotted, call, self._source.silent or "")
        return Claim("call", text[:120], self._source.line(node), node.col_offset + 1, data)

    def _dotted(self, node: ast.expr) -> str | None:
        """Returns the full name of `a.b.c`, where a is imported or made from a class that is."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        start = self._made.get(node.id) or self._names.get(node.id)
        return ".".join([start, *reversed(parts)]) if start else None


def _made_once(tree: ast.Module, names: dict[str, str]) -> dict[str, str]:
    """Returns the class of each variable that is bound once, to a call of an imported class."""
    made: dict[str, str] = {}
    bound: list[str] = []
    for node in all_nodes(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.append(node.id)
        elif isinstance(node, ast.arg):
            bound.append(node.arg)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if (
                isinstance(target, ast.Name)
                and isinstance(value, ast.Call)
                and isinstance(value.func, ast.Name)
                and value.func.id[:1].isupper()
                and value.func.id in names
            ):
                made[target.id] = names[value.func.id]
    # A name that is imported and bound again means either; one bound twice, too.
    for name in bound:
        names.pop(name, None)
    return {name: dotted for name, dotted in made.items() if bound.count(name) == 1}


def judge_call(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judges a call: is there such a thing, and does it take these arguments?"""
    called: Called = claim.data
    index = repository.index_for(called.dotted)
    found = index.find(called.dotted)
    if found.kind == "third_party":
        return Verdict.open("it is not of this repository")
    if found.kind == "undecided":
        return Verdict.open(found.evidence or "the sources leave it open")
    if found.is_missing:
        return _judge_missing(claim, called, document, repository)
    if called.call is None:
        return Verdict.holds(found.evidence or f"it stands in {found.path}")
    signature = index.signature(called.dotted)
    if signature is None:
        return Verdict.open("what it takes is not certain")
    problem = index.bind(signature, called.call)
    if problem is None:
        return Verdict.holds(f"{signature.path}:{signature.line}: {signature}")
    if called.silent:
        return Verdict.open(called.silent)
    if problem.rule == "missing" and _leaves_out(called.call):
        return Verdict.open("the call leaves arguments out")
    return Verdict.fails(
        _RULES[problem.rule],
        f"{called.dotted.rpartition('.')[2]!r} cannot be called so: {problem.text}",
        f"{signature.path}:{signature.line}",
        now=f"it is {signature}",
    )


def _judge_missing(
    claim: Claim, called: Called, document: Document, repository: Repository
) -> Verdict:
    owner = called.dotted.rpartition(".")[0]
    index = repository.index_for(owner)
    holder = index.find(owner)
    if not holder.exists:
        return Verdict.open("what it is taken from is missing, which is reported already")
    if called.dotted in imported_names(document).values():
        return Verdict.open("its import is reported already")
    if called.silent:
        return Verdict.open(called.silent)
    if holder.kind not in ("class", "module") or not is_surely_ours(owner, repository):
        return Verdict.open("its owner may hold more than is seen")
    found = index.find(called.dotted)
    rule = "method-missing" if holder.kind == "class" else "symbol-missing"
    return Verdict.fails(
        rule,
        f"{owner.rpartition('.')[2]!r} has no {called.dotted.rpartition('.')[2]!r}",
        found.evidence,
        now=f"there is {found.near}" if found.near else "",
    )


def _leaves_out(call: ast.Call) -> bool:
    """Tells whether a call shows that it is not complete: by an ellipsis, or by nothing at all."""
    values = [*call.args, *(each.value for each in call.keywords)]
    return not values or any(
        isinstance(each, ast.Constant) and each.value is Ellipsis for each in values
    )


CALLS = Kind("call", find_calls, judge_call)
