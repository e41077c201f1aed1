"""Which words the files of a repository hold, whatever their language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.history import is_code
from scaffold.analysis.lazy_re import lazy_re

MAX_BYTES = 400_000
"""Longer files are recordings and tables, and no code."""

_WORD = lazy_re(rb"[A-Za-z_]\w{2,}")
_DEFINED = (
    lazy_re(
        rb"\b(?:class|struct|enum|trait|interface|type|func|fn|function|const|def|macro_rules!)\s+"
        rb"(?:\([^()\n]*\)\s*)?([A-Za-z_]\w{2,})"
    ),
    lazy_re(rb"^#define\s+([A-Za-z_]\w{2,})", re.MULTILINE),
    # A function of C: its type, its name and its parameters begin a line.
    lazy_re(rb"^(?:[\w:&*<>]+[ \t]+[*&]*){1,6}([A-Za-z_]\w{2,})\(", re.MULTILINE),
)
_PROSE = (".md", ".mdc", ".mdx", ".rst", ".svg", ".lock", ".ipynb", ".png", ".jpg", ".gif", ".pdf")
_DATA = (".yml", ".yaml", ".json", ".jsonl", ".toml", ".txt", ".csv", ".xml", ".html", ".css")
# What documents are built from, and designs, is prose as well, whatever its language.
DOCS = lazy_re(r"(?:^|/)(?:docs?|documentation|designs?|changelogs?|releasenotes?)[/.]", re.I)


def files_with(words: Iterable[str], files: Files, but: Collection[str] = ()) -> dict[str, str]:
    """Return those words that a file other than prose holds, each with one such file.

    Args:
        words: Words of letters, digits and underscores, and any other texts.
        files: The files.
        but: Files that do not count.
    """
    wanted = {each.encode() for each in words}
    texts = {each for each in wanted if not _WORD.fullmatch(each)}
    found: dict[str, str] = {}
    sites = _sites(files)
    # Python first: it is what most words are of, and the search ends when all are found. Last is
    # what the folders of clients hold.
    for path in sorted(
        files.paths,
        key=lambda each: (each[:1] == ".", not each.endswith(".py"), each.endswith(_DATA), each),
    ):
        if not wanted:
            break
        if path.endswith(_PROSE) or path in but or DOCS.search(path):
            continue
        if path.endswith(_DATA) and path.partition("/")[0] in sites:
            continue
        data = files.data(path) or b""
        if len(data) > MAX_BYTES or b"\0" in data[:8192]:
            continue
        there = wanted.intersection(_WORD.findall(data))
        for word in there | {each for each in texts & wanted if _holds(data, each)}:
            wanted.discard(word)
            found[word.decode()] = path
    return found


def _holds(data: bytes, text: bytes) -> bool:
    """Return whether a text occurs that is no part of a longer one: `a-b` in `x-a-b` does not."""
    if text not in data:
        return False
    whole = rb"(?<![\w-])" + re.escape(text) + rb"(?![\w-])"
    return not text[-1:].isalnum() or re.search(whole, data) is not None


def defined_names(files: Files) -> frozenset[str]:
    """Return what the sources of other languages than Python define, as their forms show."""
    found: set[bytes] = set()
    for path in files.sorted_paths:
        if not is_code(path) or path.endswith((".py", ".pyi", ".pyx")) or DOCS.search(path):
            continue
        data = files.data(path) or b""
        if len(data) <= MAX_BYTES and b"\0" not in data[:8192]:
            found.update(*(each.findall(data) for each in _DEFINED))
    return frozenset(each.decode() for each in found)


def _sites(files: Files) -> frozenset[str]:
    """Return the folders of the root of which most files are pages: their data lists these."""
    pages = Counter(each.partition("/")[0] for each in files.paths if each.endswith(_PROSE))
    every = Counter(each.partition("/")[0] for each in files.paths if "/" in each)
    return frozenset(each for each, count in every.items() if pages[each] > count / 2)
