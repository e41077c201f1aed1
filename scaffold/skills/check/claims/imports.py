"""Imports in blocks of Python and in inline code, and the syntax of the blocks."""

from __future__ import annotations
import __future__

import ast
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.statements import nodes_of
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.python_source import is_made, python_sources, written_names
from scaffold.skills.check.context import MADE, silence
from scaffold.skills.check.documents import Document
from scaffold.syntax import parse


class Imported(NamedTuple):
    """What one import names.

    Args:
        module: The module.
        name: The name that is taken from it, or empty.
        silent: Why it claims nothing, or empty.
    """

    module: str
    name: str
    silent: str


def find_imports(document: Document) -> Iterator[Claim]:
    """Yield the absolute imports of a document."""
    for source in python_sources(document):
        if source.tree is not None:
            for node in nodes_of(source.tree):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    yield from _claims(node, source.line(node), 1, source.silent or "")
    for span in document.markdown.codes:
        if span.text.startswith(("import ", "from ")):
            try:
                tree = parse(span.text)
            except SyntaxError:
                continue
            for node in tree.body:
                yield from _claims(node, span.line, span.column, silence(span) or "")


def _claims(node: ast.AST, line: int, column: int, silent: str) -> Iterator[Claim]:
    if isinstance(node, ast.Import):
        for each in node.names:
            text = f"import {each.name}"
            yield Claim("import", text, line, column, Imported(each.name, "", silent))
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for each in node.names:
            text = f"from {node.module} import {each.name}"
            name = "" if each.name == "*" else each.name
            yield Claim("import", text, line, column, Imported(node.module, name, silent))


def judge_import(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge an import: is the module there, and the name in it?"""
    module, name, silent = claim.data
    if module == "__future__" and name in __future__.all_feature_names:
        return Verdict.holds("Python brings it")
    index = repository.index_for(module)
    found = index.find(module)
    if found.kind == "third_party":
        return Verdict.open(f"{module.split('.')[0]!r} is not of this repository")
    whole = f"{module}.{name}"
    if found.exists and name:
        found = index.find(whole)
    if found.exists:
        return Verdict.holds(found.evidence or f"it stands in {found.path}")
    if not found.is_missing:
        return Verdict.open(found.evidence or "the sources leave it open")
    if silent:
        return Verdict.open(silent)
    if is_made(module, document) or (name and is_made(whole, document)):
        return Verdict.open(MADE)
    if index.find(module).exists and name in written_names(document):
        return Verdict.open("the text writes it out")
    if not is_surely_ours(module, repository):
        return Verdict.open(f"{module.split('.')[0]!r} may also be a package from elsewhere")
    return _missing(claim, module, name, found)


def _missing(claim: Claim, module: str, name: str, found: Found) -> Verdict:
    now = f"there is {found.near}" if found.near else ""
    is_name = bool(name) and found.name == f"{module}.{name}"
    rule = "import-name-missing" if is_name else "import-missing"
    message = f"{module!r} has no {name!r}" if is_name else f"there is no module {module!r}"
    fix = None
    if found.near and not is_name:
        fix = Fix(claim.line, module, found.near, is_safe=_same_end(module, found.near))
    elif found.near and found.near.rpartition(".")[2] == name:
        home = found.near.rpartition(".")[0]
        fix = Fix(claim.line, f"from {module} import {name}", f"from {home} import {name}", False)
    return Verdict.fails(rule, message, found.evidence, now=now, fix=fix)


def _same_end(old: str, new: str) -> bool:
    return old.split(".")[-1] == new.split(".")[-1] and old.split(".")[0] == new.split(".")[0]


def is_surely_ours(dotted: str, repository: Repository) -> bool:
    """Return whether the first part of a name is a package of this repository and of no other.

    A folder without ``__init__.py`` may share its name with something that is installed.
    """
    if repository.index_for(dotted) is repository.installed:
        return True
    top, *rest = dotted.split(".")
    for root in repository.python.roots:
        folder = f"{root}/{top}" if root else top
        if f"{folder}/__init__.py" in repository.files.paths:
            return True
        if rest and f"{folder}/{rest[0]}" in repository.files.folders:
            return True
    return False


def find_syntax(document: Document) -> Iterator[Claim]:
    """Yield each block of Python: it claims to be Python."""
    for source in python_sources(document):
        first = source.block.text.strip().split("\n", 1)[0]
        if source.tree is not None:
            yield Claim("python-block", first, source.block.line, 1, ("", ""))
        else:
            data = (source.problem or "", source.silent or "")
            yield Claim("python-block", first, source.problem_line, 1, data)


def judge_syntax(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a block: was it parsed?"""
    problem, silent = claim.data
    sources = python_sources(document)
    source = next(
        each
        for each in sources
        if each.block.line <= claim.line <= each.block.line + each.block.text.count("\n") + 1
    )
    if source.tree is not None:
        return Verdict.holds("it can be parsed")
    if not problem:
        return Verdict.open("it leaves something out, or needs another Python to be parsed")
    if silent == "it may show how not to do it":
        return Verdict.open(silent)
    line = document.lines[claim.line - 1].strip() if claim.line <= len(document.lines) else ""
    return Verdict.fails("python-syntax", f"the Python here is wrong: {problem}", f"at {line!r}")


IMPORTS = Kind("import", find_imports, judge_import)
PYTHON_BLOCKS = Kind("python-block", find_syntax, judge_syntax)
