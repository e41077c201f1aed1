"""Parameters in running text: "the `x` parameter of `f`"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.signatures import Signature
from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.sentence import sentence_around

_PARAMETER = lazy_re(r"[a-z_]\w*=?")
_WORD = r"(?:keyword[ -])?(?:parameters?|arguments?|kwargs?|params?|args?)"
_CALLABLE = r"`(?P<function>[A-Za-z_][\w.]*)(?:\([^()`]*\))?`"
_BEHIND = lazy_re(
    rf"^\s+{_WORD}\s+(?:of|to|in|on|for)\s+(?:the\s+)?(?:function\s+|method\s+)?{_CALLABLE}"
)
_OF = lazy_re(r"^\s+(?:of|to|in|on)\s+(?:the\s+)?(?:function\s+|method\s+)?" + _CALLABLE)
_AHEAD = lazy_re(rf"\b{_WORD}\s+$", re.IGNORECASE)
_OWNER = lazy_re(rf"{_CALLABLE}(?:'s|’s)\s+$")
_OWNED = lazy_re(rf"^\s+{_WORD}\b")
_MADE = lazy_re(
    r"\b(?:add|introduc|implement|new|extend|giv|accept|should|must|need|would|could)\w*\b",
    re.IGNORECASE,
)
# A name that so many modules define is not known by the name alone.
_MANY = 8


class Parameter(NamedTuple):
    """A parameter with its function, and why the text claims nothing, or empty."""

    name: str
    function: str
    silent: str


def find_parameters(document: Document) -> Iterator[Claim]:
    """Yield the parameters that a text gives together with their function."""
    for span in document.markdown.codes:
        if not _PARAMETER.fullmatch(span.text) or is_placeholder(span.text):
            continue
        found = _BEHIND.match(span.after)
        if found is None and _AHEAD.search(span.before[-160:]):
            found = _OF.match(span.after)
        if found is None and _OWNED.match(span.after):
            found = _OWNER.search(span.before[-160:])
        if found is None or is_placeholder(found["function"]):
            continue
        name = span.text.rstrip("=")
        silent = silence(span) or ""
        if not silent and _MADE.search(" ".join(sentence_around(span))):
            silent = "it may be what the reader is told to add"
        text = f"{name} of {found['function']}"
        data = Parameter(name, found["function"], silent)
        yield Claim("parameter", text, span.line, span.column, data)


def judge_parameter(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a parameter: does the function take it, whichever one of its name is meant?"""
    parameter: Parameter = claim.data
    signatures = _signatures(parameter.function, document, repository)
    if signatures is None:
        return Verdict.open(f"what {parameter.function} takes cannot be told from the sources")
    for each in signatures:
        every = {one.name for one in each.parameters}
        if parameter.name in every or (each.receiver and parameter.name == each.receiver.name):
            return Verdict.holds(f"{each.path}:{each.line} takes it")
    if any(one.kind.startswith("var_") for each in signatures for one in each.parameters):
        return Verdict.open(f"{parameter.function} takes any argument")
    if parameter.silent:
        return Verdict.open(parameter.silent)
    first = signatures[0]
    return Verdict.fails(
        "parameter-missing",
        f"{parameter.function} has no parameter {parameter.name!r}",
        f"{first.path}:{first.line} is {first}",
        confidence="high" if len(signatures) == 1 else "medium",
    )


def _signatures(
    function: str, document: Document, repository: Repository
) -> list[Signature] | None:
    """Return what all functions that a name can mean take; None where one is not certain."""
    index = repository.python
    if "." in function and index.find(function).exists:
        signature = index.signature(function)
        return [signature] if signature else None
    is_telling = "_" in function or re.search(r"[a-z][A-Z]|^[A-Z]", function)
    if not document.is_about_here or not is_telling:
        return None  # a plain word may be a function of any library
    first, _, rest = function.partition(".")
    paths = sorted({path for path, _ in index.defined(first)})
    found: list[Signature] = []
    for path in paths[: _MANY + 1]:
        names = index.dotted_names(path)
        name = f"{first}.{rest}" if rest else first
        signature = index.signature(f"{names[0]}.{name}") if names else None
        if signature is None:
            return None
        found.append(signature)
    return found if found and len(found) <= _MANY else None


PARAMETERS = Kind("parameter", find_parameters, judge_parameter)
