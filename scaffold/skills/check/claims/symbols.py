"""Dotted names, classes, functions and signatures in inline code."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.signatures import Signature
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.imports import is_surely_ours
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.markers import is_marker
from scaffold.skills.check.claims.python_source import defined_names, imported_names, is_made
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Span

_SYMBOL = lazy_re(r"(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?P<call>\(.*\))?")
_CAMEL = lazy_re(r"[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+")
_FILE_END = lazy_re(
    r"\.(?:py|md|toml|ya?ml|json|sh|txt|js|ts|tsx|cfg|ini|lock|html|css|env|com|org|io|dev|net)$"
)
# A name that so many modules define is not known by the name alone.
_MANY = 8


class Symbol(NamedTuple):
    """A name in inline code.

    Args:
        name: The name, dotted or not.
        call: The parentheses behind it with what is in them, or empty.
        span: Where it stands.
    """

    name: str
    call: str
    span: Span


def find_symbols(document: Document) -> Iterator[Claim]:
    """Yield the names in inline code that can be names of Python."""
    for span in document.markdown.codes:
        found = _SYMBOL.fullmatch(span.text)
        if found is None or is_placeholder(found["name"]) or is_marker(span.text):
            continue
        name, call = found["name"], found["call"] or ""
        if not call and _FILE_END.search(name):
            continue
        if "." in name or call or _CAMEL.fullmatch(name):
            data = Symbol(name, call, span)
            yield Claim("symbol", span.text, span.line, span.column, data)


def judge_symbol(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a name: does it exist, and does the call behind it fit?"""
    symbol: Symbol = claim.data
    found = _resolve(symbol.name, document, repository)
    if found is None:
        return _judge_bare(symbol, document, repository)
    if found.kind == "third_party":
        return Verdict.open("it is not of this repository")
    if found.exists:
        return _judge_call(claim, symbol, found, repository)
    if not found.is_missing:
        return Verdict.open(found.evidence or "the sources leave it open")
    if silent := silence(symbol.span):
        return Verdict.open(silent)
    if is_made(symbol.name, document) or is_made(symbol.name.rpartition(".")[0], document):
        return Verdict.open("it may be of a file that the reader is told to make")
    return _missing(claim, symbol, found, document, repository)


def _judge_bare(symbol: Symbol, document: Document, repository: Repository) -> Verdict:
    """Judge a name that stands for no one thing: it holds where anything is defined by it."""
    if symbol.name in defined_names(document):
        return Verdict.holds("a block of the text binds it")
    places = repository.python.defined(symbol.name)
    if ("." in symbol.name or not places) and _is_builtin(symbol.name, document):
        return Verdict.holds("Python brings it")
    if "." in symbol.name or not places:
        return Verdict.open("nothing in this repository goes by this name")
    path, line = places[0]
    return Verdict.holds(f"{path}:{line} defines it" + (", and others" if places[1:] else ""))


def _is_builtin(name: str, document: Document) -> bool:
    """Return whether a name is Python's own: `ValueError`, `str.lower`."""
    first, *rest = name.split(".")
    if first.startswith("_") or first in imported_names(document):
        return False
    found = getattr(builtins, first, None)
    for each in rest:
        found = getattr(found, each, None)
    return found is not None


def _missing(
    claim: Claim, symbol: Symbol, found: Found, document: Document, repository: Repository
) -> Verdict:
    owner, _, last = symbol.name.rpartition(".")
    is_member = owner.rpartition(".")[2][:1].isupper()
    if not is_member and not _is_of_code(symbol, document, repository):
        return Verdict.open("it may be a variable, a key or a column of the same name")
    if not is_member and not is_surely_ours(found.name, repository):
        return Verdict.open("its first part may also be a package from elsewhere")
    if not is_member and not document.is_about_here and last[:1].islower() and not symbol.call:
        return Verdict.open("it may be a key or a file of another place")
    fix = None
    if found.near:
        near = found.near if found.near.split(".")[0] == symbol.name.split(".")[0] else ""
        fix = Fix(claim.line, symbol.name, near, is_safe=False) if near else None
    return Verdict.fails(
        "method-missing" if is_member else "symbol-missing",
        f"{symbol.name!r} does not exist",
        found.evidence,
        now=f"there is {found.near}" if found.near else "",
        fix=fix,
    )


def _is_of_code(symbol: Symbol, document: Document, repository: Repository) -> bool:
    """Return whether a dotted name that leads nowhere can be nothing but Python.

    `app.name` is said of an object, `orders.id` of a column; `app.engine.fuse`, `app.LIMIT` and
    what the document imports are said of the package.
    """
    first, *rest = symbol.name.split(".")
    if first in imported_names(document) or not rest[0].islower():
        return True
    return len(rest) > 1 and repository.index_for(first).find(f"{first}.{rest[0]}").exists


def _resolve(name: str, document: Document, repository: Repository) -> Found | None:
    """Return what a name means: by itself, by what the document imports, or by its first part."""
    first, _, rest = name.partition(".")
    if first in defined_names(document):
        return None
    meaning = imported_names(document).get(first)
    if meaning is not None:
        found = repository.index_for(meaning).find(f"{meaning}.{rest}" if rest else meaning)
        return found if found.kind != "third_party" else None
    if rest:
        found = repository.index_for(name).find(name)
        if found.kind != "third_party" and (found.exists or not first[:1].isupper()):
            return found
    return _by_definition(first, rest, document, repository)


def _by_definition(
    first: str, rest: str, document: Document, repository: Repository
) -> Found | None:
    """Return what `Class.method`, `Class` or `function` means, wherever it is defined."""
    index = repository.python
    places = sorted({path for path, _ in index.defined(first)})
    if not places or len(places) > _MANY:
        return None
    answers = [index.find_in(path, f"{first}.{rest}" if rest else first) for path in places]
    there = [each for each in answers if each.exists]
    if there or not rest:
        return there[0] if there else None
    if not first[:1].isupper() or not document.is_about_here:
        return None  # a variable may have the name of a function
    # Tests and stand-ins define a class again; only where all agree is a member missing.
    return answers[0] if all(each.is_missing for each in answers) else None


def _judge_call(claim: Claim, symbol: Symbol, found: Found, repository: Repository) -> Verdict:
    evidence = found.evidence or f"it stands in {found.path}"
    inside = symbol.call[1:-1].strip()
    if not inside or found.path is None:
        return Verdict.holds(evidence)
    signature = _signature(symbol, found, repository)
    names = _written_names(symbol.call)
    if signature is None or names is None or silence(symbol.span):
        return Verdict.holds(evidence)
    return _compare(claim, names, signature, evidence)


def _signature(symbol: Symbol, found: Found, repository: Repository) -> Signature | None:
    index = repository.index_for(found.name)
    signature = index.signature(found.name)
    if signature is not None or found.path is None:
        return signature
    dotted = index.dotted_names(found.path)
    return index.signature(f"{dotted[0]}.{symbol.name}") if dotted else None


class Written(NamedTuple):
    """What stands in the parentheses behind a name.

    Args:
        positional: The plain names given by position; None for anything else.
        keywords: The names given by keyword.
        is_definition: Whether it has annotations, as a signature has and a call has not.
        has_stars: Whether it holds ``*`` or ``**``.
    """

    positional: list[str | None]
    keywords: list[str]
    is_definition: bool
    has_stars: bool


def _written_names(call: str) -> Written | None:
    """Return the names in a call or a signature; None where it leaves something out."""
    if "..." in call or "…" in call or re.search(r"<[\w -]+>", call):
        return None
    try:
        tree = ast.parse(f"_{call}", mode="eval")
    except (SyntaxError, ValueError):
        return _of_definition(call)
    if not isinstance(tree.body, ast.Call):
        return None
    node = tree.body
    positional = [
        each.id if isinstance(each, ast.Name) else None
        for each in node.args
        if not isinstance(each, ast.Starred)
    ]
    keywords = [each.arg for each in node.keywords if each.arg is not None]
    stars = len(positional) < len(node.args) or len(keywords) < len(node.keywords)
    return Written(positional, keywords, False, stars)


def _of_definition(call: str) -> Written | None:
    try:
        body = ast.parse(f"def _{call}: ...").body[0]
    except (SyntaxError, ValueError):
        return None
    assert isinstance(body, ast.FunctionDef), "it is a def"
    args = body.args
    names: list[str | None] = [each.arg for each in (*args.posonlyargs, *args.args)]
    names = [name for name in names if name not in ("self", "cls")]
    keywords = [each.arg for each in args.kwonlyargs]
    return Written(names, keywords, True, args.vararg is not None or args.kwarg is not None)


def _compare(claim: Claim, written: Written, signature: Signature, evidence: str) -> Verdict:
    own = [each.name for each in signature.parameters if not each.kind.startswith("var_")]
    takes_any = any(each.kind == "var_keyword" for each in signature.parameters)
    unknown = [name for name in written.keywords if name not in own]
    if written.is_definition:
        unknown += [name for name in written.positional if name and name not in own]
    if unknown and not takes_any:
        return Verdict.fails(
            "parameter-unknown",
            f"{signature.name!r} has no parameter {unknown[0]!r}",
            f"{signature.path}:{signature.line}: {signature}",
            now=f"its parameters are {', '.join(own) or 'none'}",
        )
    slots = [each.name for each in signature.parameters if each.kind.startswith("positional")]
    listed = [name for name in written.positional if name is not None]
    if listed and len(listed) == len(written.positional) and all(name in slots for name in listed):
        if [slots.index(name) for name in listed] != sorted(slots.index(name) for name in listed):
            return _order(signature, slots)
        if len(listed) > 1 and slots[: len(listed)] != listed and written.is_definition:
            return Verdict.holds(f"{evidence}; it names some of the parameters")
    return Verdict.holds(evidence)


def _order(signature: Signature, slots: list[str]) -> Verdict:
    return Verdict.fails(
        "parameter-order",
        f"the parameters of {signature.name!r} stand in another order",
        f"{signature.path}:{signature.line}: {signature}",
        now=f"the order is {', '.join(slots)}",
    )


SYMBOLS = Kind("symbol", find_symbols, judge_symbol)
