"""Calls in blocks of Python: do they fit what is called?"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.python.scopes import bound_names, imported
from scaffold.analysis.python.signatures import Signature
from scaffold.analysis.python.statements import nodes_of
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.imports import is_surely_ours
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.names import is_complete
from scaffold.skills.check.claims.python_source import (
    Source,
    defined_names,
    imported_names,
    python_sources,
    written_names,
)
from scaffold.skills.check.documents import Document

_RULES = {
    "missing": "argument-missing",
    "unknown": "argument-unknown",
    "too-many": "argument-surplus",
    "twice": "argument-unknown",
}

_SETTERS = frozenset({"setattr", "object", "setitem", "delattr"})


class Called(NamedTuple):
    """A call, or a member that is read.

    Args:
        dotted: The full name of what is called.
        call: The call; None where a member is only read.
        silent: Why it claims nothing, or empty.
        is_whole: Whether the block around it leaves nothing out.
    """

    dotted: str
    call: ast.Call | None
    silent: str
    is_whole: bool


def find_calls(document: Document) -> Iterator[Claim]:
    """Yield the calls, and the members, of what a document imports."""
    names, bound = imported_names(document), defined_names(document)
    # What another block imports counts only where no block means something else by the name.
    shared = {name: dotted for name, dotted in names.items() if name not in bound}
    for source in python_sources(document):
        if source.tree is not None:
            yield from _Finder(source, source.tree, shared).claims()


class _Finder:
    """Finds the calls of one block."""

    def __init__(self, source: Source, tree: ast.Module, shared: dict[str, str]) -> None:
        self._source = source
        self._tree = tree
        own: dict[str, set[str]] = {}
        for name, dotted in imported(tree):
            own.setdefault(name, set()).add(dotted)
        bound = Counter(bound_names(tree))
        # A name that is imported and bound again means either; one imported twice, too.
        meant = shared | {name: min(dotted) for name, dotted in own.items() if len(dotted) == 1}
        meant = {name: dotted for name, dotted in meant.items() if len(own.get(name, ())) < 2}
        self._names = {name: dotted for name, dotted in meant.items() if name not in bound}
        self._made = _made_once(tree, self._names, bound)
        self._set = _set_attributes(tree)
        self._is_whole = is_complete(tree) and "#" not in source.block.text

    def claims(self) -> Iterator[Claim]:
        called: set[int] = set()
        for node in nodes_of(self._tree):
            if isinstance(node, ast.Call):
                called.add(id(node.func))
                if dotted := self._dotted(node.func):
                    yield self._claim(node, dotted, node)
        for node in nodes_of(self._tree):
            if isinstance(node, ast.Attribute) and id(node) not in called:
                dotted = self._dotted(node)
                if dotted and isinstance(node.ctx, ast.Load):
                    yield self._claim(node, dotted, None)

    def _claim(self, node: ast.expr, dotted: str, call: ast.Call | None) -> Claim:
        text = " ".join(ast.unparse(node).split())
        data = Called(dotted, call, self._source.silent or "", self._is_whole)
        return Claim("call", text[:120], self._source.line(node), node.col_offset + 1, data)

    def _dotted(self, node: ast.expr) -> str | None:
        """Return the full name of `a.b.c`, where a is imported or made from a class that is."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            if node.attr in self._set:
                return None
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            start = self._names.get(node.func.id) if node.func.id[:1].isupper() else None
        elif isinstance(node, ast.Name):
            start = self._made.get(node.id) or self._names.get(node.id)
        else:
            return None
        return ".".join([start, *reversed(parts)]) if start else None


def _made_once(tree: ast.Module, names: dict[str, str], bound: Counter[str]) -> dict[str, str]:
    """Return the class of each variable that is bound once, to a call of an imported class."""
    made: dict[str, str] = {}
    for node in nodes_of(tree):
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
    return {name: dotted for name, dotted in made.items() if bound[name] == 1}


def _set_attributes(tree: ast.AST) -> set[str]:
    """Return the attributes that the code sets on whatever it holds, `setattr` and mocks too."""
    found: set[str] = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and _callee(node.func) in _SETTERS:
            words = (each.value for each in node.args if isinstance(each, ast.Constant))
            found.update(each for each in words if isinstance(each, str))
    return found


def _callee(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def judge_call(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a call: is there such a thing, and does it take these arguments?"""
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
    if _takes_more(called, signature, document):
        return Verdict.open("the text writes it out with other parameters")
    if problem.rule == "missing" and _leaves_out(called):
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
    parts = 1 if holder.kind == "module" else 2
    if ".".join(called.dotted.split(".")[-parts:]) in written_names(document):
        return Verdict.open("the text writes it out")
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


def _takes_more(called: Called, signature: Signature, document: Document) -> bool:
    """Return whether the text writes out what is called, and lets it take more than it does now."""
    *owner, name = called.dotted.split(".")[-2:]
    written = written_names(document)
    taken = written.get(".".join([*owner, name]), written.get(name, frozenset[str]()))
    return not taken <= {each.name for each in (*signature.parameters, signature.receiver) if each}


def _leaves_out(called: Called) -> bool:
    """Return whether a call shows that it is not complete: by an ellipsis, or by nothing at all.

    Empty parentheses are meant where the block around them is whole, and says nothing more of them.
    """
    assert called.call is not None, "only a call is asked"
    values = [*called.call.args, *(each.value for each in called.call.keywords)]
    if not values:
        return not called.is_whole
    return any(isinstance(each, ast.Constant) and each.value is Ellipsis for each in values)


CALLS = Kind("call", find_calls, judge_call)
