"""Parsers of argparse as they are built by reading: what each call adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from scaffold.analysis.cli.commands import Argument, Command, Option

_NO_VALUE = frozenset(
    {"store_true", "store_false", "store_const", "append_const", "count", "help", "version"}
)
_WITH_VALUE = frozenset({"store", "append", "extend"})
REMAINDER = "..."
"""What `argparse.REMAINDER` is."""


@dataclass(frozen=True)
class Literal:
    """Is a value that stands in the text as it is."""

    value: Any


@dataclass(eq=False)
class Subparsers:
    """Is what `add_subparsers` gives.

    Args:
        parsers: The parser of each name and alias.
        why_open: Why there may be more, or "".
    """

    parsers: dict[str, Parser] = field(default_factory=dict[str, "Parser"])
    why_open: str = ""


@dataclass(eq=False)
class Parser:
    """Is one parser.

    Args:
        place: Where it is made.
        options: Its options so far.
        arguments: Its arguments so far.
        subparsers: Its commands, once it has any.
        why_open: Why it may take more than was read, or "".
        abbreviates: Whether the beginning of an option stands for it.
    """

    place: str = ""
    options: list[Option] = field(default_factory=list[Option])
    arguments: list[Argument] = field(default_factory=list[Argument])
    subparsers: Subparsers | None = None
    why_open: str = ""
    abbreviates: bool = True

    def open(self, reason: str) -> None:
        """Notes that it may take more than was read; the first reason counts."""
        self.why_open = self.why_open or reason

    def inherit(self, parent: Parser) -> None:
        """Takes over what a parent has so far."""
        self.options += parent.options
        self.arguments += parent.arguments
        if parent.why_open:
            self.open(parent.why_open)

    def add(
        self, names: Sequence[object], keywords: dict[str, object], *, is_complete: bool
    ) -> None:
        """Adds what one call of `add_argument` says.

        Args:
            names: Its positional arguments; what could not be read is None.
            keywords: Its keywords; what could not be read is None.
            is_complete: Whether these are all its keywords.
        """
        texts = [each.value for each in names if isinstance(each, Literal)]
        if len(texts) != len(names) or not all(isinstance(text, str) for text in texts):
            self.open("the name of an option is not written out")
            return
        if not texts and isinstance(_plain(keywords.get("dest")), str):
            texts = [_plain(keywords["dest"])]
        if not texts:
            self.open("an argument is named by a keyword")
            return
        words = cast("list[str]", texts)
        if words[0].startswith("-"):
            self.options.append(_option(words, keywords, is_complete=is_complete))
        else:
            self._add_argument(words[0], keywords, is_complete=is_complete)

    def _add_argument(self, name: str, keywords: dict[str, object], *, is_complete: bool) -> None:
        count = _plain(keywords.get("nargs"))
        known = is_complete and ("nargs" not in keywords or keywords["nargs"] is not None)
        known = known and ("action" not in keywords)
        if not known or count in (REMAINDER, "A..."):
            self.open(f"the argument {name} may take the rest of the line")
            return
        choices, folds = _choices(keywords)
        shown = _plain(keywords.get("metavar")) or name
        for _ in range(count if isinstance(count, int) else 1):
            argument = Argument(
                str(shown), count not in ("?", "*"), count in ("*", "+"), choices, folds
            )
            self.arguments.append(argument)

    def command(self, name: str) -> Command:
        """Returns what it takes."""
        inner = None
        why = self.why_open
        if self.subparsers is not None:
            inner = {each: parser.command(each) for each, parser in self.subparsers.parsers.items()}
            why = why or self.subparsers.why_open
        return Command(
            name, "", tuple(self.options), tuple(self.arguments), inner, bool(why), why,
            self.place, self.abbreviates,
        )  # fmt: skip


def _option(names: list[str], keywords: dict[str, object], *, is_complete: bool) -> Option:
    action = _plain(keywords.get("action")) if "action" in keywords else "store"
    if action == "BooleanOptionalAction":
        names = [*names, *(f"--no-{each[2:]}" for each in names if each.startswith("--"))]
        return Option(tuple(names))
    choices, folds = _choices(keywords)
    return Option(
        tuple(names),
        "",
        str(_plain(keywords.get("metavar")) or ""),
        choices,
        is_required=_plain(keywords.get("required")) is True,
        num_values=_num_values(action, keywords) if is_complete else None,
        folds_case=folds,
    )


def _num_values(action: object, keywords: dict[str, object]) -> int | None:
    if action in _NO_VALUE:
        return 0
    if action not in _WITH_VALUE:
        return None
    if "nargs" not in keywords:
        return 1
    count = _plain(keywords["nargs"])
    return count if isinstance(count, int) else None


def _choices(keywords: dict[str, object]) -> tuple[tuple[str, ...], bool]:
    """Returns the choices that are written out, and whether upper and lower case are alike."""
    given = _plain(keywords.get("choices"))
    if not isinstance(given, (list, tuple, set, frozenset, dict, range)):
        return (), False
    values = list(cast("list[object]", given))
    if len(values) > 500 or not all(isinstance(each, (str, int, float)) for each in values):
        return (), False
    kind = _plain(keywords.get("type")) if "type" in keywords else "str"
    if kind not in ("str", "int", "float", "str.lower", "str.upper"):
        return (), False  # the words are turned into something else first
    return tuple(str(each) for each in values), str(kind).startswith("str.")


def _plain(value: object) -> Any:
    return value.value if isinstance(value, Literal) else None
