"""Which column of a data set holds what: rows in, a mapping with its evidence out; pure."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from scaffold.errors import RequestError

Rows = Sequence[Mapping[str, Any]]

ALIASES: dict[str, tuple[str, ...]] = {
    "question": (
        "question problem 问题",
        "prompt instruction query",
        "q input task messages conversation conversations chat dialogue dialog",
    ),
    "answer": (
        "answer final_answer ground_truth groundtruth expected_answer gold gold_answer 答案",
        "target label solution response completion output reply a",
    ),
    "prompt": ("prompt question instruction query", "input context problem"),
    "chosen": ("chosen preferred", "chosen_response response_chosen better winner accepted"),
    "rejected": ("rejected dispreferred", "rejected_response response_rejected worse loser"),
}
"""The names that each role goes by, likeliest first; names are folded before they are compared."""

ACCEPTED: dict[str, tuple[str, ...]] = {
    "question": ("texts", "messages"),
    "answer": ("texts", "numbers", "truth values"),
    "prompt": ("texts", "messages"),
    "chosen": ("texts", "messages"),
    "rejected": ("texts", "messages"),
}
"""What the loaders can read in the column of each role."""

ROLES = ("question", "answer", "chosen", "rejected", "prompt")
"""Every role, in the order in which they are looked for; only a prompt may be missing."""

MIN_SHARE = 0.5
"""The least share of rows that have a value inside an object, for it to be taken for a column."""

# Data sets of questions also hold exercises ("Compute 3 + 4."), so half of them is enough.
ASKING_SHARE = 0.5
"""The least share of the values of a column of questions that end in a question mark."""


@dataclass(frozen=True)
class Column:
    """What the rows hold under one name.

    Args:
        name: The column.
        content: "texts", "numbers", "messages", "images" and so on; "nothing" without values.
        count: How many rows have a value.
        total: How many rows there are.
    """

    name: str
    content: str
    count: int
    total: int

    @property
    def described(self) -> str:
        """What the column holds, and in how many rows."""
        return f"{self.content}, {self.count} of {self.total} rows"


@dataclass(frozen=True)
class Match:
    """The column that was found for a role; an empty name is a prompt that is not there.

    Args:
        role: One of ROLES.
        name: The column.
        evidence: How it was found.
        more: Further columns of a question that several make up.
    """

    role: str
    name: str
    evidence: str
    more: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, none for a prompt that is not there."""
        return (self.name, *self.more) if self.name else ()

    @property
    def answer(self) -> str | list[str]:
        """What answers the question of a manifest: the column, or a list of several."""
        return list(self.columns) if self.more else self.name


@dataclass(frozen=True)
class ColumnMap:
    """What a sample shows of the columns.

    Args:
        matches: One for each role.
        unused: The columns that the loaders leave out.
    """

    matches: tuple[Match, ...]
    unused: tuple[Column, ...] = ()

    def column(self, role: str) -> str:
        """Return the column of a role, empty where there is none."""
        return next((match.name for match in self.matches if match.role == role), "")

    def lines(self) -> tuple[str, ...]:
        """Return the mapping and its evidence as people read it."""
        names = {m.role: ", ".join(map(_shown, m.columns)) or _shown("") for m in self.matches}
        found = [f"{m.role}_column = {names[m.role]}: {m.evidence}" for m in self.matches]
        rest = ", ".join(f"{_shown(column.name)} ({column.described})" for column in self.unused)
        return (*found, *([f"not used: {rest}"] if rest else []))


def find_columns(
    rows: Rows,
    roles: Iterable[str],
    given: Mapping[str, Sequence[str]],
    *,
    is_learnt: bool = False,
) -> ColumnMap:
    """Find the column of each role by name and content.

    Args:
        rows: A sample of the data.
        roles: Which of ROLES are wanted.
        given: Role to the columns that a person named; they are checked and taken. What an object
            holds is a column too: ``solution.final``.
        is_learnt: Whether answers are learnt word for word, so that a solution is one too.

    Raises:
        RequestError: A role has no column or several that fit; all such roles are named at once.
    """
    named = {name for names in given.values() for name in names}
    own = {name for row in rows for name in row}
    rows = [with_leaves(row) for row in rows]
    search = _Search(rows, _offered(describe_columns(rows), named), own, is_learnt=is_learnt)
    wanted = sorted(set(roles), key=ROLES.index)
    problems: list[str] = []
    # What a person named comes first: its column is then taken for the other roles.
    for role in sorted(wanted, key=lambda role: role not in given):
        try:
            search.matches[role] = search.find(role, given.get(role, ()))
        except RequestError as error:
            problems.append(error.message)
    if problems:
        columns = search.columns.values()
        listed = "; ".join(f"{_shown(each.name)}: {each.described}" for each in columns)
        raise RequestError(
            "; ".join(problems),
            code="columns_unclear",
            hint=f"the sample has {listed or 'no columns'}; name the columns with the options",
        )
    used = {name for match in search.matches.values() for name in match.columns}
    unused = tuple(column for column in search.columns.values() if column.name not in used)
    return ColumnMap(tuple(search.matches[role] for role in wanted), unused)


def with_leaves(row: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return a row with what its objects hold as columns of their own, such as ``solution.final``.

    A column of that whole name stays what it is.
    """
    found: dict[str, Any] = {}
    for name, value in row.items():
        found[path + name] = value
        if content_of(value) == "objects":
            leaves = with_leaves(value, f"{path}{name}.")
            found |= {leaf: inner for leaf, inner in leaves.items() if path or leaf not in row}
    return found


def _offered(columns: dict[str, Column], named: Iterable[str]) -> dict[str, Column]:
    """Return the columns without objects of which the leaves are there, and without rare leaves.

    Objects that map names of their own to values, each row others, would give columns without end.
    """
    leaves = {n: c for n, c in columns.items() if "." in n and c.count < MIN_SHARE * c.total}
    common = {n: c for n, c in columns.items() if n not in leaves or n in named}
    return {
        name: column
        for name, column in common.items()
        if name in named
        or column.content != "objects"
        or not any(other.startswith(f"{name}.") for other in common)
    }


def describe_columns(rows: Rows) -> dict[str, Column]:
    """Return every column by its name, with what it holds."""
    # A dictionary keeps the order of the columns, which a set would lose.
    names = dict.fromkeys(name for row in rows for name in row)
    found: dict[str, Column] = {}
    for name in names:
        values = values_of(rows, name)
        contents = list(dict.fromkeys(content_of(value) for value in values))
        content = " or ".join(contents) if contents else "nothing"
        found[name] = Column(name, content, len(values), len(rows))
    return found


def values_of(rows: Rows, name: str) -> list[Any]:
    """Return the values of a column, without the rows that have none."""
    return [row[name] for row in rows if not is_missing(row.get(name))]


def is_missing(value: Any) -> bool:
    """Return whether a value is no evidence: it is empty, or no number although it is a float."""
    is_no_number = isinstance(value, float) and not math.isfinite(value)
    return value is None or value == "" or value == [] or is_no_number


def content_of(value: Any) -> str:
    """Name what a value is, in the plural."""
    if isinstance(value, str):
        return "texts"
    if isinstance(value, bool):
        return "truth values"
    if isinstance(value, int | float):
        return "numbers"
    if isinstance(value, bytes):
        # The first bytes of PNG, JPEG, GIF and WebP files.
        is_image = value.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF"))
        return "images" if is_image else "bytes"
    if isinstance(value, Mapping):
        keys = set(cast("Mapping[str, Any]", value))
        # How the library `datasets` stores images and other files in a column.
        return "images" if keys == {"bytes", "path"} else "objects"
    if isinstance(value, Sequence):
        return _content_of_list(cast("Sequence[Any]", value))
    return f"values of the type {type(value).__name__}"


def _content_of_list(items: Sequence[Any]) -> str:
    if all(_is_message(item) for item in items):
        return "messages"
    tables = [cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping)]
    if len(tables) == len(items) and all({"from", "value"} <= set(each) for each in tables):
        return "conversations with from and value instead of role and content"
    if all(content_of(item) == "images" for item in items):
        return "images"
    return "lists"


def _is_message(item: Any) -> bool:
    if not isinstance(item, Mapping):
        return False
    message = cast("Mapping[str, Any]", item)
    return all(isinstance(message.get(key), str) for key in ("role", "content"))


def _shown(name: str) -> str:
    """Return a name that a terminal can show."""
    return (name if name.isprintable() else repr(name)) or "(none)"


def _fold(name: str) -> str:
    return re.sub(r"[\W_]+", "_", name.strip().casefold())


def _tiers(role: str, *, is_learnt: bool) -> list[list[str]]:
    """Return the names of a role; what is learnt word for word may be an answer or a solution."""
    tiers = [tier.split() for tier in ALIASES[role]]
    return [[name for tier in tiers for name in tier]] if role == "answer" and is_learnt else tiers


class _Search:
    """Looks for the columns of one role after the other; a column has one role.

    A prompt and a question may be the same column, and so may an answer and a chosen reply.
    """

    def __init__(
        self, rows: Rows, columns: dict[str, Column], own: set[str], *, is_learnt: bool
    ) -> None:
        self.rows = rows
        self.columns = columns
        self.own = own
        self.is_learnt = is_learnt
        self.matches: dict[str, Match] = {}

    def find(self, role: str, given: Sequence[str]) -> Match:
        """Return the column of a role.

        Raises:
            RequestError: None fits, or several do.
        """
        if given:
            return self._given(role, given)
        if role == "prompt":
            return self._prompt()
        if role == "answer" and self._is_conversation():
            name = self.matches["question"].name
            return Match(role, name, "the last message of each conversation is the answer")
        return self._by_name(role) or self._by_content(role)

    def _given(self, role: str, names: Sequence[str]) -> Match:
        # Several are joined as texts, which conversations are not.
        accepted = {"texts", "numbers"} if names[1:] else set(ACCEPTED[role])
        for name in names:
            if name not in self.columns:
                raise _unclear(f"there is no column {name!r} for the {role}")
            column = self.columns[name]
            # The answer may be the last message of the conversation that asks.
            same = role == "answer" and column.content == "messages"
            if not same and not set(column.content.split(" or ")) <= accepted:
                wanted = [
                    each for each in ("texts", *ACCEPTED[role], "numbers") if each in accepted
                ]
                raise _unclear(
                    f"{name} holds {column.described}; the {role} has to be "
                    f"{' or '.join(dict.fromkeys(wanted))}"
                )
        told = " + ".join(self.columns[name].described for name in names)
        first, *more = names
        return Match(role, first, f"{told}, as you said", tuple(more))

    def _by_name(self, role: str) -> Match | None:
        usable = [
            column
            for column in self.columns.values()
            if column.count and self._is_accepted(role, column) and self._is_free(role, column)
        ]
        # What an object holds goes by its own name, after the columns of the rows themselves.
        own = [(column, column.name) for column in usable if not self._is_inside(column)]
        leaves = [(c, c.name.rpartition(".")[2]) for c in usable if self._is_inside(c)]
        for group, tier in itertools.product((own, leaves), _tiers(role, is_learnt=self.is_learnt)):
            fitting = [column for column, name in group if _fold(name) in tier]
            # Two columns with the same values, such as `prompt` and `problem`, leave no choice to
            # make.
            if len(fitting) > 1 and not self._are_equal(fitting):
                raise _candidates(role, fitting)
            if fitting:
                return Match(role, fitting[0].name, f"{fitting[0].described}, by its name")
        return None

    def _by_content(self, role: str) -> Match:
        free = [
            c
            for c in self.columns.values()
            # A number inside an object is offered too: whole numbers are common answers there.
            if (c.content == "texts" or (self._is_inside(c) and self._is_accepted(role, c)))
            and self._is_free(role, c)
        ]
        if role in ("question", "answer"):
            # No name was known: the only column of texts that is left, or the only one that asks.
            asking = [c for c in free if role == "question" and self._are_questions(c)]
            found = asking if len(asking) == 1 else free
            if len(found) == 1:
                why = "most end in a question mark" if asking else "the only one that fits"
                return Match(role, found[0].name, f"{found[0].described}, {why}")
        raise _candidates(role, free)

    def _prompt(self) -> Match:
        match = self._by_name("prompt")
        sides = [self.matches[side].name for side in ("chosen", "rejected") if side in self.matches]
        if match is None:
            return Match("prompt", "", "each side holds the whole conversation")
        if len(sides) == 2 and self._begin_with(match.name, sides):
            return Match("prompt", "", f"both sides begin with {match.name}, so they hold it")
        return match

    def _begin_with(self, prompt: str, sides: list[str]) -> bool:
        rows = [row for row in self.rows if isinstance(row.get(prompt), str) and row[prompt]]
        texts = [(row[prompt], row.get(side)) for row in rows for side in sides]
        return bool(texts) and all(
            isinstance(text, str) and text.startswith(start) for start, text in texts
        )

    def _is_conversation(self) -> bool:
        """Return whether the question's column holds the answers too, as the last messages."""
        question = self.matches.get("question")
        if question is None or self.columns[question.name].content != "messages":
            return False
        conversations = values_of(self.rows, question.name)
        return all(len(c) > 1 and c[-1]["role"] == "assistant" for c in conversations)

    def _is_accepted(self, role: str, column: Column) -> bool:
        return set(column.content.split(" or ")) <= set(ACCEPTED[role])

    def _is_free(self, role: str, column: Column) -> bool:
        partners = {"prompt": "question", "question": "prompt", "answer": "chosen",
                    "chosen": "answer"}  # fmt: skip
        taken = {
            name
            for each, match in self.matches.items()
            if each != partners.get(role)
            for name in match.columns
        }
        return column.name not in taken

    def _is_inside(self, column: Column) -> bool:
        """Return whether the column is a value inside an object."""
        return column.name not in self.own

    def _are_questions(self, column: Column) -> bool:
        values = values_of(self.rows, column.name)
        questions = [v for v in values if isinstance(v, str) and v.rstrip().endswith(("?", "？"))]
        return len(questions) >= ASKING_SHARE * len(values)

    def _are_equal(self, columns: Sequence[Column]) -> bool:
        return all(
            row.get(columns[0].name) == row.get(c.name) for row in self.rows for c in columns
        )


def _candidates(role: str, columns: Sequence[Column]) -> RequestError:
    if not columns:
        return _unclear(f"no column fits the {role}")
    options = " or ".join(f"--{role}-column {shlex.quote(column.name)}" for column in columns)
    return _unclear(f"the {role} may be in {len(columns)} columns: give {options}")


def _unclear(message: str) -> RequestError:
    return RequestError(message, code="columns_unclear")
