"""Rules as files: read and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from scaffold.errors import RequestError, nearest
from scaffold.vcs.review.rule import (
    DEPENDENCY_CHANGES,
    FACTS,
    MODES,
    RISKS,
    SYMBOL_CHANGES,
    Pass,
    Rule,
    RuleSet,
    When,
    Within,
)

FOLDER = Path(__file__).parent / "rules"
BUILT_IN = ("general.toml", "training.toml")

# The keys of a rule's `when`, by what they hold: regular expressions, lists of words, words from a
# fixed choice, numbers, switches.
_PATTERNS = ("added", "removed", "unless", "inside")
_WORDS = ("paths", "not_paths", "roles", "imports", "file_imports")
_CHOICES: dict[str, tuple[str, ...]] = {
    "symbols": SYMBOL_CHANGES,
    "dependencies": DEPENDENCY_CHANGES,
    "modes": MODES,
    "facts": FACTS,
    "status": ("A", "C", "D", "M", "R", "T", "U"),
}
_NUMBERS = ("min_added", "min_removed")
_SWITCHES = ("binary", "net")
_RULE = ("id", "domain", "signal", "risk", "why", "failures", "passes", "hides", "when")
_PASS = ("id", "title", "brief", "words", "roles")
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
DESCRIBED = "docs/en/review.md describes the form"


def built_in_rules() -> tuple[RuleSet, ...]:
    """Return the rule sets that come with the tool."""
    texts = ((name, (FOLDER / name).read_text(encoding="utf-8")) for name in BUILT_IN)
    return tuple(read_rules(text, name) for name, text in texts)


def read_rules(text: str, origin: str) -> RuleSet:
    """Read the text of a file of rules.

    Raises:
        RequestError: It is not of the form that rules have.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise invalid(origin, str(error)) from error
    reader = _Reader(origin)
    reader.no_others(table, ("name", "active_imports", "rule", "pass"), "the file")
    return RuleSet(
        str(table.get("name", origin)),
        reader.words(table, "active_imports", "the file"),
        tuple(reader.rule(each) for each in reader.tables(table, "rule")),
        tuple(reader.a_pass(each) for each in reader.tables(table, "pass")),
    )


def invalid(origin: str, what: str) -> RequestError:
    """Return the error of a file of rules."""
    return RequestError(f"{origin}: {what}", code="rules_invalid", hint=DESCRIBED)


class _Reader:
    """A reader of the tables of one file.

    Args:
        origin: What the file is called in errors.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def rule(self, table: Mapping[str, Any]) -> Rule:
        name = self._id(table)
        place = f"rule {name!r}"
        self.no_others(table, _RULE, place)
        when: object = table.get("when")
        if not isinstance(when, dict):
            raise invalid(self._origin, f"{place} has no table 'when'")
        return Rule(
            name,
            self._text(table, "domain", place),
            self._text(table, "signal", place),
            self._choice(self._text(table, "risk", place), RISKS, f"{place}: risk"),
            self._text(table, "why", place),
            self.words(table, "failures", place),
            self.words(table, "passes", place),
            self._when(cast("dict[str, Any]", when), place),
            self._origin,
            self._switch(table, "hides", place),
        )

    def _switch(self, table: Mapping[str, Any], key: str, place: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            raise invalid(self._origin, f"{place}: {key} is {value!r}, and has to be true or false")
        return value

    def a_pass(self, table: Mapping[str, Any]) -> Pass:
        name = self._id(table)
        place = f"pass {name!r}"
        self.no_others(table, _PASS, place)
        title, brief = (self._text(table, key, place) for key in ("title", "brief"))
        words, roles = (self.words(table, key, place) for key in ("words", "roles"))
        return Pass(name, title, brief, words, roles)

    def _when(self, table: Mapping[str, Any], place: str) -> When:
        place = f"{place}: when"
        known = (*_PATTERNS, *_WORDS, *_CHOICES, *_NUMBERS, *_SWITCHES, "within")
        self.no_others(table, known, place)
        if not table:
            raise invalid(self._origin, f"{place} is empty, so that it would always speak")
        given: dict[str, Any] = {key: self.words(table, key, place) for key in _WORDS}
        for key in _PATTERNS:
            words = self.words(table, key, place)
            given[key] = tuple(self._pattern(each, f"{place}.{key}") for each in words)
        for key, choices in _CHOICES.items():
            words = self.words(table, key, place)
            given[key] = tuple(self._choice(each, choices, f"{place}.{key}") for each in words)
        within = str(table.get("within", "code"))
        given["within"] = self._choice(within, get_args(Within), f"{place}.within")
        kinds = {**dict.fromkeys(_SWITCHES, bool), **dict.fromkeys(_NUMBERS, int)}
        for key, kind in kinds.items():
            if key in table:
                # Not isinstance: True would pass as the integer 1.
                if type(table[key]) is not kind:
                    raise invalid(self._origin, f"{place}.{key} is no {kind.__name__}")
                given[key] = table[key]
        return When(**given)

    def _id(self, table: Mapping[str, Any]) -> str:
        name = str(table.get("id", ""))
        if not _ID.fullmatch(name):
            raise invalid(self._origin, f"{name!r} is no id: small letters, digits and hyphens")
        return name

    def _text(self, table: Mapping[str, Any], key: str, place: str) -> str:
        found = table.get(key)
        if not isinstance(found, str) or not found.strip():
            raise invalid(self._origin, f"{place} has no text {key!r}")
        # TOML's multi-line texts keep their line breaks, which no report wants.
        return " ".join(found.split())

    def words(self, table: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
        """Return a list of texts; an empty one where there is none."""
        found: object = table.get(key, [])
        rows = cast("list[object]", found) if isinstance(found, list) else [None]
        if not all(isinstance(each, str) for each in rows):
            raise invalid(self._origin, f"{place}: {key!r} is no list of texts")
        return tuple(cast("list[str]", rows))

    def tables(self, table: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        """Return a list of tables; an empty one where there is none."""
        found: object = table.get(key, [])
        rows = cast("list[object]", found) if isinstance(found, list) else [None]
        if not all(isinstance(each, dict) for each in rows):
            raise invalid(self._origin, f"{key!r} is no list of tables; write [[{key}]]")
        return cast("list[dict[str, Any]]", rows)

    def no_others(self, table: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
        """Refuse keys that nothing reads."""
        for key in table:
            if key not in known:
                raise invalid(
                    self._origin, f"{place} has an unknown key {key!r}{nearest(key, known)}"
                )

    def _choice(self, word: str, choices: tuple[Any, ...], place: str) -> Any:
        if word not in choices:
            raise invalid(self._origin, f"{place}: unknown {word!r}{nearest(word, choices)}")
        return word

    def _pattern(self, text: str, place: str) -> re.Pattern[str]:
        try:
            return re.compile(text, re.MULTILINE)
        except re.error as error:
            raise invalid(self._origin, f"{place}: {text!r} is no pattern: {error}") from error
