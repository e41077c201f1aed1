"""Cases for the test of a regular expression: a text that it finds, and one that it does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from random import Random
from string import ascii_letters, digits, punctuation
from typing import Any

# Libraries that write matching text (rstr, exrex) fail on atomic groups, conditions and counts
# over 100, which Python has had for years, and what they write cannot be read.
_ATTEMPTS = 200
_MOST_CHARACTERS = 5_000
_READABLE = digits[7:8] + digits + ascii_letters + punctuation + " \n\té中"
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_OTHERS = ("", "I do not know.", "7", " ")


def pattern_cases(pattern: str, captures: bool) -> list[tuple[str, str, float]]:
    """Return completions with an expected answer and the reward that they deserve.

    Args:
        pattern: A regular expression that compiles.
        captures: Whether the last match has to capture the answer; else any match is enough.

    Returns:
        A case of 1.0, then one of 0.0 if there is any; nothing if no text is found that matches,
        which is so for every pattern that cannot match.
    """
    compiled = re.compile(pattern)
    # The parser of `re` has no public name, and no types.
    parse: Callable[[str], Iterable[tuple[Any, Any]]] = import_module("re._parser").parse
    parsed = parse(pattern)
    for attempt in range(_ATTEMPTS):
        text = _Writer(Random(attempt), varies=attempt > 0).text(parsed)
        matches = list(compiled.finditer(text)) if len(text) <= _MOST_CHARACTERS else []
        if not matches:
            continue
        answer = (matches[-1].group(min(1, compiled.groups)) or "").strip()
        if not captures:
            return [(text, "20", 1.0), *_unmatched(compiled)]
        if answer:
            return [(text, answer, 1.0), (text, f"not {answer}", 0.0)]
    return []


def _unmatched(pattern: re.Pattern[str]) -> list[tuple[str, str, float]]:
    return [(text, "20", 0.0) for text in _OTHERS if not pattern.search(text)][:1]


class _Writer:
    """A writer of one text along a parsed pattern; conditions on the text around it are ignored."""

    def __init__(self, random: Random, varies: bool) -> None:
        self._random, self._varies = random, varies
        self._groups: dict[int, str] = {}
        self._left = _MOST_CHARACTERS
        self._depth = 0

    def text(self, nodes: Iterable[tuple[Any, Any]]) -> str:
        return "".join(self._node(str(code), value) for code, value in nodes)

    def _choice(self, options: list[Any]) -> Any:
        return self._random.choice(options) if self._varies else options[0]

    def _node(self, code: str, value: Any) -> str:
        match code:
            case "BRANCH":
                return self.text(self._choice(value[1]))
            case "SUBPATTERN":
                text = self.text(value[-1])
                if value[0] is not None:
                    self._groups[value[0]] = text
                return text
            case "ATOMIC_GROUP":
                return self.text(value)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                return self._repeated(*value)
            case "ASSERT":
                # What follows a lookahead usually fulfils it, and what comes before a lookbehind.
                return self.text(value[1]) if self._choice([value[0] < 0, True, False]) else ""
            case "GROUPREF":
                return self._groups.get(value, "")
            case "GROUPREF_EXISTS":
                group, yes, no = value
                return self.text((yes if group in self._groups else no) or ())
            case "LITERAL":
                return self._spent(chr(value))
            case "NOT_LITERAL" | "ANY" | "IN":
                return self._spent(self._character(code, value))
            case _:  # places in the text, and what must not follow
                return ""

    def _repeated(self, least: int, most: int, nodes: Any) -> str:
        usual = max(least, 1) if most else 0
        # Repeats of repeats are what a pattern that does not match takes exponential time for.
        more = [usual + 1, usual + 2] if self._depth == 0 else []
        count = self._choice([each for each in (usual, least, *more) if least <= each <= most])
        parts: list[str] = []
        self._depth += 1
        while len(parts) < count and self._left > 0:
            parts.append(self.text(nodes))
        self._depth -= 1
        return "".join(parts)

    def _spent(self, text: str) -> str:
        self._left -= 1
        return text

    def _character(self, code: str, value: Any) -> str:
        if code == "IN":
            members = [(str(kind), each) for kind, each in value]
        else:
            excluded = ord("\n") if code == "ANY" else value
            members: list[tuple[str, Any]] = [("NEGATE", None), ("LITERAL", excluded)]
        listed = [chr(v if kind == "LITERAL" else v[0]) for kind, v in members if kind in _LISTED]
        fitting = [each for each in (*_READABLE, *listed) if _holds(members, each)]
        return self._choice(fitting) if fitting else ""


_LISTED = ("LITERAL", "RANGE")


def _holds(members: list[tuple[str, Any]], character: str) -> bool:
    point, found = ord(character), False
    for kind, value in members:
        if kind == "LITERAL":
            found |= point == value
        elif kind == "RANGE":
            found |= value[0] <= point <= value[1]
        elif kind == "CATEGORY":
            found |= re.match(_CATEGORIES[str(value)], character) is not None
    return found is not (members[0][0] == "NEGATE")
