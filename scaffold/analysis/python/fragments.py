"""Python as texts show it: with placeholders, without bodies, cut out of something larger."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

from scaffold.analysis.lazy_re import lazy_re
from scaffold.syntax import parse

_PLACEHOLDER = lazy_re(r"<([A-Za-z][\w /.-]*)>|\{\{\s*([\w.]+)[^{}]*\}\}")
# What begins a block of statements; a sketch leaves its body out, or writes a comment for it.
_HEADER = lazy_re(
    r"^(?P<lead>\s*)(?:(?:async\s+)?(?:def|for|with)|class|if|elif|else|try|except|finally|while)\b"
)
_SIGNATURE = lazy_re(
    r"^(?P<lead>\s*)(?P<name>[A-Za-z_][\w.]*)(?P<rest>\(.*\)(?:\s*->\s*.+?)?)\s*:?$"
)


# Long strings and comments; a short string is a key, a name or a value.
_PROSE = lazy_re(r"(?s:\"\"\".*?\"\"\"|'''.*?''')|#.*")


def without_prose(text: str) -> str:
    """Return a source without its comments, docstrings and other long strings."""
    return _PROSE.sub("", text)


def parts_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parts of a text between empty lines at the margin, each below its empty lines.

    Lines stay where they are, so that those of the nodes are those of the text.
    """
    rows = text.split("\n")
    start = 0
    for index in range(1, len(rows) + 1):
        is_end = index == len(rows) or (
            not rows[index - 1].strip() and rows[index][:1].strip() != ""
        )
        if is_end:
            part = rows[start:index]
            if any(row.strip() for row in part):
                yield start, "\n" * start + "\n".join(part)
            start = index


def parse_fragment(text: str) -> ast.Module | None:
    """Parse Python that may hold placeholders, or be a part cut out of something larger.

    Lines stay where they are, so that those of the nodes are those of the text.
    """
    completed = _PLACEHOLDER.sub(lambda found: _identifier(found[1] or found[2]), text)
    for candidate in dict.fromkeys((text, completed)):
        for form in (candidate, textwrap.dedent(candidate), _with_bodies(candidate)):
            if (tree := parse_or_none(form)) is not None:
                return tree
    dedented = textwrap.dedent(completed)
    for before, after in (("_ = {", "\n}"), ("_(", "\n)"), ("_ = [", "\n]")):
        if (tree := parse_or_none(before + dedented + after)) is not None:
            return tree
    return None


def parse_or_none(text: str) -> ast.Module | None:
    """Return the syntax of a text, or None where it is no Python."""
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def problem_of(text: str) -> tuple[str, int]:
    """Return Python's error for a text that it cannot parse, and the line."""
    try:
        parse(textwrap.dedent(text))
    except SyntaxError as error:
        return error.msg, error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return "it is nested too deeply", 1
    return "it cannot be parsed", 1


def _identifier(words: str) -> str:
    return "placeholder_" + re.sub(r"\W+", "_", words).strip("_")


def _with_bodies(text: str) -> str:
    """Return a sketch with what it leaves out: bodies, ``def`` of a signature, a decorated one."""
    lines = textwrap.dedent(text).split("\n")
    for index, line in enumerate(lines):
        code = re.sub(r"\s+#.*$", "", line).rstrip()
        found = _HEADER.match(code)
        if found is None and (alone := _SIGNATURE.match(code)) and "->" in code + ":":
            name = alone["name"].rpartition(".")[2]
            lines[index] = f"{alone['lead']}def {name}{alone['rest']}: ..." if ":" in code else code
            continue
        if found is None or not (code.endswith(":") or code.count("(") == code.count(")")):
            continue
        rest = (each for each in lines[index + 1 :] if each.strip())
        following = next((each for each in rest if not each.lstrip().startswith("#")), "")
        is_opened = code.endswith(":") or re.match(r"\s*(?:async\s+)?(?:def|class)\b", code)
        if is_opened and len(following) - len(following.lstrip()) <= len(found["lead"]):
            lines[index] = code.removesuffix(":") + ": ..."
    last = next((each for each in reversed(lines) if each.strip()), "")
    if last.startswith("@"):
        lines.append("def _(): ...")
    return "\n".join(lines)


def undoctested(text: str) -> str:
    """Return a doctest's commands with the output blanked out, line by line."""
    if not re.search(r"^\s*>>> ", text, re.MULTILINE):
        return text
    rows = (re.match(r"\s*(?:>>>|\.\.\.)(?: (?P<code>.*))?$", line) for line in text.split("\n"))
    return "\n".join((row["code"] or "") if row else "" for row in rows)
