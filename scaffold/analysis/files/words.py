"""Which words the files of a repository hold, whatever their language."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re

MAX_BYTES = 400_000
"""Longer files are recordings and tables, and no code."""

_WORD = lazy_re(rb"[A-Za-z_]\w{2,}")
_PROSE = (".md", ".mdc", ".mdx", ".rst", ".svg", ".lock", ".ipynb", ".png", ".jpg", ".gif", ".pdf")


def files_with(words: Iterable[str], files: Files, but: Collection[str] = ()) -> dict[str, str]:
    """Return those words that a file other than prose holds, each with one such file.

    Args:
        words: Words, each of letters, digits and underscores.
        files: The files.
        but: Files that do not count.
    """
    wanted = {each.encode() for each in words}
    found: dict[str, str] = {}
    # Python first: it is what most words are of, and the search ends when all are found.
    for path in sorted(files.paths, key=lambda each: (not each.endswith(".py"), each)):
        if not wanted:
            break
        if path.endswith(_PROSE) or path in but:
            continue
        data = files.data(path) or b""
        if len(data) > MAX_BYTES or b"\0" in data[:8192]:
            continue
        for word in wanted.intersection(_WORD.findall(data)):
            wanted.discard(word)
            found[word.decode()] = path
    return found
