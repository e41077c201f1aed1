"""Paths in inline code and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.skills.check.assertion import Stance
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.claims.made import WHY, is_made_by
from scaffold.skills.check.claims.places import (
    COMMON_NAMES,
    literal_part,
    locate,
    matching,
    missing,
)
from scaffold.skills.check.context import is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Span

_EXTENSIONS = (
    "py|pyi|md|mdc|toml|ya?ml|json|jsonl|jsonc|sh|bash|zsh|ps1|bat|js|mjs|cjs|ts|tsx|jsx|css|scss"
    "|html|txt|cfg|ini|lock|rs|go|java|kt|c|cc|cpp|h|hpp|cu|cuh|rb|php|sql|proto|tf|xml|csv|ipynb"
    "|j2|jinja|svg|png|jpg|pdf|env|conf|service|dockerfile|mk|cmake|swift|lua|r|jl|ex|exs|vue"
)
_PATH = lazy_re(
    r"(?P<path>\.{0,2}/?[\w@.+~<>{}$*\[\]-]+(?:/[\w@.+~<>{}$*\[\]-]+)*/?)"
    r"(?:(?::|#L)(?P<line>\d+)(?:[-:]L?(?P<end>\d+))?)?(?P<rest>::[\w:\[\]-]+)?"
)
_HAS_EXTENSION = lazy_re(rf"[\w>}}\])*-]\.(?:{_EXTENSIONS})$", re.IGNORECASE)
_FOLDER = lazy_re(r"/$")
_IMPORT = lazy_re(r"(?<!\S)@(?P<path>[\w./-]+\.\w+)(?!\S)")
_NO_PATH = lazy_re(r"^(?:https?:|[a-z]+://|~|/|@|\$|-|\d+/\d+$|[\w-]+\.(?:com|org|io|dev)\b)")


class Named(NamedTuple):
    """A path as a text names it.

    Args:
        path: The path itself.
        line: The line that stands behind it, or None.
        span: Where it stands; None for an import, which always means what it says.
    """

    path: str
    line: str | None
    span: Span | None

    def silence(self) -> str | None:
        """Return why the words around it say that it need not exist, or None."""
        return silence(self.span) if self.span is not None else None


def find_paths(document: Document) -> Iterator[Claim]:
    """Yield the paths that a document names in inline code, in tables and as imports."""
    for span in document.markdown.codes:
        if claim := _claim(span.text, span.line, span.column, span):
            yield claim
    for block in document.markdown.blocks:
        if block.kind == "cell" and "`" not in block.text and _is_path(block.text.strip()):
            span = Span(block.text.strip(), block.line, 1, block, "", "")
            if claim := _claim(span.text, block.line, 1, span):
                yield claim
    if document.path.rpartition("/")[2] == "CLAUDE.md":
        yield from _imports(document)


def _imports(document: Document) -> Iterator[Claim]:
    """Yield what a CLAUDE.md takes in: a word that begins with @ and is a path."""
    for block in document.markdown.blocks:
        if block.kind in ("paragraph", "item"):
            for found in _IMPORT.finditer(block.text):
                line = block.line + block.text.count("\n", 0, found.start())
                yield Claim("path", found["path"], line, 1, Named(found["path"], None, None))


def _claim(text: str, line: int, column: int, span: Span) -> Claim | None:
    found = _PATH.fullmatch(text)
    if found is None or not _is_path(found["path"]):
        return None
    number = found["end"] or found["line"]
    return Claim("path", text, line, column, Named(found["path"], number, span))


def _is_path(text: str) -> bool:
    if _NO_PATH.match(text) or " " in text or not re.search(r"[a-z_]", text, re.IGNORECASE):
        return False
    return "/" in text[:-1] or _FOLDER.search(text) is not None or bool(_HAS_EXTENSION.search(text))


def judge_path(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a path: does it exist, or anything that it fits where it holds placeholders?"""
    named: Named = claim.data
    path = named.path.removeprefix("./")
    if is_placeholder(path):
        return _judge_pattern(path, named, document, repository)
    place = locate(path, document, repository)
    if place is not None:
        return _judge_line(place.path, named, repository, claim, is_sure="/" in path)
    if silent := named.silence():
        return Verdict.open(silent)
    if "/" not in path.strip("/") and not path.endswith("/"):
        return Verdict.open("a bare file name may be that of any folder")
    return _judge_missing(path, named, document, repository)


def _judge_missing(path: str, named: Named, document: Document, repository: Repository) -> Verdict:
    """Judge a path without placeholders that is not there, by what the text says of it."""
    verdict = missing(path, document, repository)
    if named.span is None or verdict.state != "false":
        return verdict
    if is_made_by(path, document, repository):
        return Verdict.open(WHY)
    return weighed(verdict, named.span)


def weighed(verdict: Verdict, span: Span) -> Verdict:
    """Return what is left of a refuted claim, by how plainly the words around it make it."""
    stance = Stance(span)
    # A file of this very name elsewhere is evidence of its own: it was moved.
    name = _name(span.text)
    is_moved = bool(verdict.now) and verdict.now.endswith(f"/{name}") and name not in COMMON_NAMES
    if stance.is_plain or (is_moved and not stance.is_doubted):
        return verdict
    if stance.is_doubted and not (stance.is_directed or is_moved):
        return Verdict.open("the words around it leave open whether it is there")
    return verdict._replace(confidence="low")


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].partition(":")[0]


def _judge_pattern(path: str, named: Named, document: Document, repository: Repository) -> Verdict:
    if found := matching(path, document, repository):
        return Verdict.holds(f"{found} fits it")
    folder = literal_part(path)
    if not folder or locate(folder, document, repository):
        return Verdict.open("nothing fits its placeholders yet")
    if silent := named.silence():
        return Verdict.open(silent)
    return _judge_missing(folder, named, document, repository)


def _judge_line(
    path: str, named: Named, repository: Repository, claim: Claim, *, is_sure: bool
) -> Verdict:
    number = named.line
    text = repository.files.look_into(path) if number else None
    if number is None or text is None:
        return Verdict.holds(f"git lists {path}")
    count = len(text.splitlines())
    # So long a number is no line of anything, and Python refuses to read it.
    if len(number) < 10 and int(number) <= count:
        return Verdict.holds(f"{path} has {count} lines")
    if not is_sure and len(repository.files.by_name.get(path.rpartition("/")[2], ())) > 1:
        return Verdict.open("several files have this name")
    if silent := named.silence():
        return Verdict.open(silent)
    verdict = Verdict.fails(
        "line-number",
        f"{claim.text!r} names a line that does not exist",
        f"{path} has {count} lines",
    )
    weighty = verdict if named.span is None else weighed(verdict, named.span)
    return weighty._replace(now=f"{path} ends at line {count}")


PATHS = Kind("path", find_paths, judge_path)
