"""Code without its comments, which are the only part of it that a translation changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

HASH = (
    "bash", "cfg", "cmake", "conf", "console", "dockerfile", "docker", "elixir", "fish",
    "gitignore", "graphql", "hcl", "ini", "julia", "make", "makefile", "nim", "perl", "powershell",
    "properties", "ps1", "py", "pycon", "python", "python3", "r", "rb", "ruby", "sh", "shell",
    "shell-session", "terraform", "tf", "toml", "yaml", "yml", "zsh",
)  # fmt: skip
SLASH = (
    "c", "c++", "cc", "cpp", "cs", "csharp", "cu", "cuda", "dart", "go", "groovy", "h", "hpp",
    "java", "javascript", "js", "json", "json5", "jsonc", "jsx", "kotlin", "less", "objc", "php",
    "proto", "protobuf", "rs", "rust", "scala", "scss", "swift", "ts", "tsx", "typescript", "zig",
)  # fmt: skip
DASH = (
    "ada", "haskell", "hs", "lua", "sql",
)  # fmt: skip
ANGLE = (
    "html", "markdown", "md", "svg", "vue", "xml",
)  # fmt: skip
PERCENT = (
    "erlang", "latex", "matlab", "tex",
)  # fmt: skip
_LINE_MARKS = {
    **dict.fromkeys(HASH, r"(?:(?<=\s)|(?<![\s\S]))#[^\n]*"),
    **dict.fromkeys(SLASH, r"(?<!:)//[^\n]*|/\*.*?\*/"),
    "css": r"/\*.*?\*/",
    **dict.fromkeys(DASH, r"--[^\n]*"),
    **dict.fromkeys(ANGLE, r"<!--.*?-->"),
    **dict.fromkeys(PERCENT, r"(?<!\\)%[^\n]*"),
    **dict.fromkeys(["clojure", "lisp", "scheme", "asm"], r";[^\n]*"),
}
PLAIN = ("", "plain", "plaintext", "text", "txt")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_GAP = re.compile(r"<[^<>\n]+>")
DIAGRAMS = ("mermaid", "plantuml", "puml", "dot", "graphviz")
_CAPTIONED = ("figure", "image")
# Of a diagram: what is in quotes, brackets or bars, and what follows a colon.
_LABEL = re.compile(
    r"\"[^\"\n]*\"|(?<=\[)[^\[\]\n]*(?=\])|(?<=\()[^()\n]*(?=\))|(?<=\{)[^{}\n]*(?=\})"
    r"|(?<=\|)[^|\n]*(?=\|)|(?<=:)[^:\n]*$|(?<=title)[^\n]*$",
    re.MULTILINE,
)
# A quote that its line does not close is an apostrophe.
_STRING = (
    r'"""(?:\\.|[^\\])*?"""' r"|'''(?:\\.|[^\\])*?'''"
    r'|"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\\n])*`"
)  # fmt: skip


# `:caption: Install it`, of a directive whose content is code or a figure.
_WORDED_OPTION = re.compile(r"^(?P<name> *:(?:caption|alt|title):).*$", re.MULTILINE)


def without_words(text: str, info: str) -> str:
    """Return a block without what a translation changes: comments, captions, labels of diagrams."""
    language = language_of(info)
    text = _WORDED_OPTION.sub(r"\g<name> <words>", text)
    if info.startswith("{"):
        directive = info[1:].partition("}")[0]
        if directive in _CAPTIONED:
            # Options, then the words below the picture.
            rows = text.split("\n")
            text = "\n".join(row for row in rows if row.lstrip().startswith(":"))
        language = directive if directive in DIAGRAMS else language
    if language in DIAGRAMS:
        return _LABEL.sub("<words>", text)
    return without_comments(text, language)


def lines_agree(source: str, translation: str, info: str) -> bool:
    """Return whether two lines of a block are the same, but for words that only readers need.

    Those are in ``<angle brackets>``, or anywhere in a block of no language. They count where the
    translation has them in another script.
    """
    source, translation = source.rstrip(), translation.rstrip()
    if source == translation or not any(each > "\u024f" for each in translation):
        return source == translation
    if language_of(info) in PLAIN:
        return _NUMBER.findall(source) == _NUMBER.findall(translation)
    return _GAP.sub("<>", source) == _GAP.sub("<>", translation)


def language_of(info: str) -> str:
    """Return the language that the words behind a fence name, or nothing."""
    words = re.findall(r"[\w+#.-]+", info)
    if info.startswith("{") and len(words) > 1:  # {code-block} python
        words = words[1:]
    return words[0].lstrip(".").lower() if words else ""


def without_comments(text: str, language: str) -> str:
    """Return code with a mark for each comment; text as it is where the language has none."""
    marks = _LINE_MARKS.get(language)
    if marks is None:
        return text
    # Strings first, so that a comment sign inside of one does not count.
    parts = re.compile(rf"(?P<string>{_STRING})|(?P<comment>{marks})", re.DOTALL)
    return "".join(_kept(text, parts))


def _kept(text: str, parts: re.Pattern[str]) -> Iterator[str]:
    at = 0
    for found in parts.finditer(text):
        if found.lastgroup == "comment":
            # Comments are aligned by blanks, which a translation need not keep.
            yield text[at : found.start()].rstrip(" \t")
            yield " <comment>"
            at = found.end()
    yield text[at:]
