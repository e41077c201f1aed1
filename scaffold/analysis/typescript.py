"""The members of the types that TypeScript declares, as far as they are written out in one place.

A parser of the language would be a dependency of many megabytes for one question; what a reader
of a declaration needs are its braces, its comments and the names before a colon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.history import is_test
from scaffold.analysis.lazy_re import lazy_re

MAX_BYTES = 400_000
_ENDS = (".ts", ".tsx", ".mts")
_HEAD = lazy_re(
    r"^[ \t]*(?:(?:export|default|declare|abstract)[ \t]+)*(?P<kind>interface|type|class)[ \t]+"
    r"(?P<name>[A-Za-z_$][\w$]*)(?P<rest>[^{};]*)\{",
    re.MULTILINE,
)
_MEMBER = lazy_re(
    r"[ \t]*(?:(?:public|private|protected|static|readonly|abstract|override|async|get|set)[ \t]+)*"
    r"(?P<name>[A-Za-z_$][\w$]*)[ \t]*[?!]?[ \t]*[:(<=;,]"
)
# Comments and texts, whose braces and colons count for nothing; they keep their length.
_ASIDE = lazy_re(
    r"//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\])*`", re.DOTALL
)
# `constructor(private readonly page: Page)` declares members, too.
_GIVEN = lazy_re(r"\bconstructor\s*\([^)]*\b(?:public|private|protected|readonly)\b")
_PAIRS = {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}


class Declaration(NamedTuple):
    """One declaration of a type.

    Args:
        name: The type.
        members: Its members, each with its line in the text, from 1.
        is_whole: Whether it has no others: nothing is added to it from another type.
    """

    name: str
    members: Mapping[str, int]
    is_whole: bool


def read_declarations(text: str) -> Iterator[Declaration]:
    """Yield the interfaces, object types and classes that a text declares."""
    plain = _ASIDE.sub(lambda found: _blank(found.group()), text)
    for head in _HEAD.finditer(plain):
        rest = head["rest"].strip()
        is_type = head["kind"] == "type"
        if is_type and rest.rpartition("=")[2].strip():
            continue  # a union, a mapping or the result of another type
        end = _end(plain, head.end())
        if end < 0:
            continue
        members = dict(_members(plain, head.end(), end))
        behind = plain[end + 1 :].lstrip()[:1]
        is_added = (is_type and behind in ("&", "|")) or "extends" in rest
        is_open = is_added or None in members or _GIVEN.search(plain, head.end(), end) is not None
        yield Declaration(
            head["name"], {name: line for name, line in members.items() if name}, not is_open
        )


class TypeScript:
    """The declarations of a repository's sources, by their names.

    Args:
        files: Its files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    @cached_property
    def declared(self) -> dict[str, list[tuple[str, Declaration]]]:
        """Each type with the sources that declare it; tests are left out."""
        found: dict[str, list[tuple[str, Declaration]]] = {}
        for path in self._files.sorted_paths:
            data = (self._files.data(path) or b"") if path.endswith(_ENDS) else b""
            if not 0 < len(data) <= MAX_BYTES or is_test(path):
                continue
            for each in read_declarations(data.decode("utf-8", "replace")):
                found.setdefault(each.name, []).append((path, each))
        return found


def _members(text: str, start: int, end: int) -> Iterator[tuple[str | None, int]]:
    """Yield the members between braces with their lines; None for what may be any name."""
    depth, is_first = 0, True
    line = text.count("\n", 0, start) + 1
    at = start
    while at < end:
        sign = text[at]
        if depth == 0 and is_first and not sign.isspace():
            found = _MEMBER.match(text, at)
            if found:
                yield found["name"], line
            elif sign == "[" or text.startswith("...", at):
                yield None, line
            is_first = False
        line += sign == "\n"
        depth += _PAIRS.get(sign, 0)
        if depth == 0 and sign in "\n;,":
            is_first = True
        at += 1


def _end(text: str, start: int) -> int:
    depth = 1
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return -1


def _blank(text: str) -> str:
    return "".join(each if each == "\n" else " " for each in text)
