"""Which words the files of a repository hold, whatever their language."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re

MAX_BYTES = 400_000
"""Longer files are recordings and tables, and no code."""

_WORD = lazy_re(rb"[A-Za-z_]\w{2,}")
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
    # Python first: it is what most words are of, and the search ends when all are found.
    for path in sorted(
        files.paths, key=lambda each: (not each.endswith(".py"), each.endswith(_DATA), each)
    ):
        if not wanted:
            break
        if path.endswith(_PROSE) or path in but or DOCS.search(path):
            continue
        data = files.data(path) or b""
        if len(data) > MAX_BYTES or b"\0" in data[:8192]:
            continue
        there = wanted.intersection(_WORD.findall(data))
        for word in there | {each for each in texts & wanted if each in data}:
            wanted.discard(word)
            found[word.decode()] = path
    return found
