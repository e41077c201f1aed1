"""Sources as text without their comments or strings, in the languages that people review."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from scaffold.vcs.review.rule import Within

_LANGUAGES = {
    "py": "python", "pyi": "python", "pyx": "cython", "js": "javascript", "mjs": "javascript",
    "cjs": "javascript", "jsx": "javascript", "ts": "typescript", "tsx": "typescript", "go": "go",
    "rs": "rust", "java": "java", "kt": "kotlin", "scala": "scala", "c": "c", "h": "c", "cc": "cpp",
    "cpp": "cpp", "cxx": "cpp", "hpp": "cpp", "cu": "cuda", "cuh": "cuda", "cs": "csharp",
    "rb": "ruby", "php": "php", "swift": "swift", "sh": "bash", "bash": "bash", "zsh": "bash",
    "ps1": "powershell", "pl": "perl", "lua": "lua", "r": "r", "jl": "julia", "ex": "elixir",
    "sql": "sql",
}  # fmt: skip
"""The lexer of Pygments for each ending; what has one is source."""
_DATA = {
    "yaml": "yaml", "yml": "yaml", "toml": "toml", "json": "json", "ini": "ini", "cfg": "ini",
    "tf": "terraform",
}  # fmt: skip
_NAMES = {"Dockerfile": "docker", "Makefile": "make", "Jenkinsfile": "groovy"}
_LONGEST = 1_000_000


class Views(NamedTuple):
    """The lines of a text, three times: as they are, without comments, and code alone.

    What is left out is blank, so that columns stay.
    """

    all: list[str]
    text: list[str]
    code: list[str]

    def line(self, number: int, within: Within) -> str:
        """Return a line, counted from 1; an empty one where there is none."""
        lines: list[str] = getattr(self, within)
        return lines[number - 1] if 0 < number <= len(lines) else ""


def language_of(path: str) -> str | None:
    """Return the language of a source; None for what is no program."""
    name = path.rpartition("/")[2]
    return _LANGUAGES.get(name.rpartition(".")[2].lower()) if "." in name else _NAMES.get(name)


@lru_cache(maxsize=512)
def views(path: str, text: str) -> Views:
    """Return the lines of a text without its comments and strings.

    Of a language that is not known, and of a very long text, nothing is left out.
    """
    name = path.rpartition("/")[2]
    lexer = language_of(path) or _DATA.get(name.rpartition(".")[2].lower()) or _NAMES.get(name)
    lines = text.split("\n")
    if lexer is None or len(text) > _LONGEST:
        return Views(lines, lines, lines)
    without_comments, code = _masked(lexer, text)
    return Views(lines, without_comments.split("\n"), code.split("\n"))


def _masked(lexer: str, text: str) -> tuple[str, str]:
    from pygments import lexers
    from pygments.token import Comment, String

    library: Any = lexers  # its stubs leave the options untyped
    # The lexer of a known name is Pygments' own: no plugin is asked.
    reader = library.get_lexer_by_name(lexer, stripnl=False, ensurenl=False)
    remarks, preprocessor = {Comment, String.Doc}, {Comment.Preproc, Comment.PreprocFile}
    without_comments: list[str] = []
    code: list[str] = []
    # Pygments turns a lone CR into a line break, which would shift all lines below.
    for kind, part in reader.get_tokens(text.replace("\r\n", "\n").replace("\r", " ")):
        kinds = set(kind.split())
        is_remark = bool(kinds & remarks) and not kinds & preprocessor
        is_string = String in kinds and String.Interpol not in kinds
        # Line breaks stay, so that lines keep their numbers.
        blank = re.sub(r"[^\n]", " ", part) if is_remark or is_string else part
        without_comments.append(blank if is_remark else part)
        code.append(blank)
    return "".join(without_comments), "".join(code)
