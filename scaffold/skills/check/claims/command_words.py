"""The commands that a document shows: in fenced shell and in inline code, with their words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from scaffold.analysis.cli.shell_words import Word, read_shell
from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.context import block_silence, lead_silence, silence
from scaffold.skills.check.documents import Document

_SHELLS = frozenset({"bash", "sh", "shell", "zsh", "console", "shell-session", "terminal"})
_PROMPT = lazy_re(r"^(?P<lead>\s*)[$%❯>] ", re.MULTILINE)


class Command(NamedTuple):
    """One command of a document.

    Args:
        words: Its words.
        line: The document's line at which its text begins, from 1.
        column: The column of that text, from 1.
        silent: Why it claims nothing, or empty.
        is_wrong: Whether it is shown as what not to do.
    """

    words: tuple[Word, ...]
    line: int
    column: int
    silent: str
    is_wrong: bool = False

    def line_of(self, word: Word) -> int:
        """Return the document's line of a word."""
        return self.line + word.line


@lru_cache(maxsize=16)
def find_commands(document: Document) -> tuple[Command, ...]:
    """Return the commands of a document; none but those of several words."""
    return tuple(_all_commands(document))


def _all_commands(document: Document) -> Iterator[Command]:
    for fence in document.markdown.fences:
        if (fence.info.split() or [""])[0].lower() in _SHELLS:
            wrong = block_silence(fence)
            silent = wrong or lead_silence(fence) or ""
            yield from _commands(fence.text, fence.line, 1, silent, is_wrong=bool(wrong))
    for span in document.markdown.codes:
        if " " in span.text:
            yield from _commands(span.text, span.line, span.column, silence(span) or "")


def _commands(
    text: str, line: int, column: int, silent: str, *, is_wrong: bool = False
) -> Iterator[Command]:
    shown = _PROMPT.sub(lambda found: found["lead"] + "  ", text)
    for each in read_shell(shown).commands:
        if len(each.words) > 1:
            yield Command(tuple(each.words), line, column, silent, is_wrong)
