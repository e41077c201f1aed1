"""The form of a commit message, checked as text and nothing else.

Source: Conventional Commits 1.0.0 for the first line and the footers, where a repository keeps it;
git's own `Merge`, `Revert`, `fixup!` and `squash!` subjects are left to git.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.files.markdown import FENCE
from scaffold.errors import nearest
from scaffold.vcs.commit.imperative import imperative_of

TYPES = (
    "feat", "fix", "docs", "gov", "style", "refactor", "perf", "test", "build", "ci", "chore",
    "revert",
)  # fmt: skip
FORM = "type(scope)!: subject"
MAX_SUBJECT = 72
MAX_BODY = 100
WHY = "WHY: write here why it changes; the diff shows what."
TYPE_GAP, SUBJECT_GAP = "<type>", "<what this commit does>"
"""With `WHY`, the places of a draft that are its author's; a message that holds one is refused."""


class Rules(NamedTuple):
    """What a repository asks of its messages."""

    types: tuple[str, ...] = TYPES
    scopes: tuple[str, ...] = ()
    """The only scopes; without any, every word is one."""
    max_subject: int = MAX_SUBJECT
    max_body: int = MAX_BODY
    is_conventional: bool = True
    """Whether the first line is that of a Conventional Commit."""
    unasked: frozenset[str] = frozenset()
    """Names of `PROBLEMS` that the repository does not care about."""
    pattern: str | None = None
    """A regular expression that the message has to match from its start, instead of the form."""


DEFAULT_RULES = Rules()


# Subjects that git, or the button of a forge, writes: `Merge branch 'x'`, `Merge a1b2c3d`,
# `Revert "..."`, `fixup! ...`.
_BY_GIT = re.compile(
    r"Merge (branch|branches|tag|tags|commit|commits|remote-tracking branch(es)?|pull request)\b"
    r"|Merge ([0-9a-f]{7,64}|\S+:\S+|\.{0,2}/\S+)( into \S+)?$"
    r'|(Revert|Reapply) "|(fixup|squash|amend)! \S'
)
# `# ------------------------ >8 ------------------------`, with 24 dashes on either side.
_SCISSORS = re.compile(r"\S+ -{24} >8 -{24}\s*")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_SCOPE = re.compile(r"\((?P<scope>[^()]*)\)")
_SCOPE_WORD = re.compile(r"[^\W_][\w./,@+-]*")
# The colon with what may wrongly be around it: spaces or several `!` before, none or more spaces
# behind, or the full-width colon of a Chinese keyboard.
_COLON = re.compile(r"(?P<before>[ !]*)(:|(?P<wide>\N{FULLWIDTH COLON}))(?P<behind>\s*)")
_REST = re.compile(rf"(\([^()]*\))?!?{_COLON.pattern}")
_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
# `(#123)`, which the button of a forge puts behind the subject.
_SUFFIX = re.compile(r" \(#\d+\)$")
# Periods that belong to a word.
_ABBREVIATED = re.compile(r"(?:\.\.\.|\betc\.|\b(?:[A-Za-z]\.){2,})$")
# `feat(api)!: add x`.
_HEADER = re.compile(
    rf"(?P<type>{_TYPE.pattern})(?:\((?P<scope>[^()]*)\))?(?P<mark>!?): +(?P<subject>\S.*)"
)
# `core: `, `[Feature] `, `feat(api): `.
_LABEL = re.compile(r"(\[[^\]]+\]\s*)+:?\s*|[\w./-]+(\([^()]*\))?!?: +")
# A URL or a piece of code, which cannot be broken.
_LONG_BY_NATURE = re.compile(r"\w[\w+.-]*://\S+|(`+)[^`]+\1")
# `Refs: x`, `Co-authored-by: y`, `Fixes #12`; the two spellings of a breaking change.
_TRAILER = re.compile(r"(BREAKING[ -]CHANGE|[A-Za-z0-9]+(-[A-Za-z0-9]+)*)(: | #)\S")
_BREAKING = re.compile(r"BREAKING[ -]CHANGES?\b|(?i:breaking[ -]changes? ?:)")
_BREAKING_FOOTER = re.compile(r"BREAKING[ -]CHANGE: \S")


PROBLEMS = {
    "body-blank": "A blank line comes between the first line and the body.",
    "body-width": "No line of the body is too long.",
    "breaking-footer": "A breaking change has a footer of its own.",
    "draft": "Nothing of the draft is left to write.",
    "empty": "A message has words.",
    "encoding": "The message is UTF-8, without a byte order mark.",
    "form": "The first line has the form of Conventional Commits.",
    "scope": "The scope is one word, and one that is known.",
    "separator": "One colon and one space come before the subject.",
    "subject-empty": "There is a subject.",
    "subject-length": "The first line is not too long.",
    "subject-mood": "The subject is in the imperative.",
    "subject-period": "The subject ends with no period.",
    "type": "The type is one that is known.",
}
"""The rules of a message, with what each asks for."""

HEADER_RULES = frozenset({"form", "scope", "separator", "subject-empty", "type"})
"""The rules that make a first line a Conventional Commit's."""


class Header(NamedTuple):
    """The first line of a Conventional Commit, taken apart."""

    type: str
    scope: str | None
    is_breaking: bool
    subject: str


def read_header(line: str) -> Header | None:
    """Return the parts of a first line; None where it is no Conventional Commit."""
    match = _HEADER.fullmatch(line.strip())
    if match is None:
        return None
    scope = (match["scope"] or "").strip() or None
    return Header(match["type"].lower(), scope, bool(match["mark"]), match["subject"])


def subject_length(line: str) -> int:
    """Return how many characters a first line has, those that the button of a forge adds apart."""
    return len(_SUFFIX.sub("", line))


class Problem(NamedTuple):
    """One fault of a message: its place, its rule, and what is right."""

    line: int
    column: int
    rule: str
    message: str


class Row(NamedTuple):
    """A line of a message that git keeps, with its number in the file; both count from 1."""

    number: int
    text: str


_Part = tuple[int | None, tuple[int, str, str] | None]
"""Where a part of the first line ends, None where that is unclear; its fault: place, rule, text."""


def check_message(
    text: str, comment: str | None = "#", rules: Rules = DEFAULT_RULES
) -> list[Problem]:
    """Return what is wrong with a message, in the order of its lines.

    Args:
        text: The message as the editor or the command line gave it, comments and all.
        comment: What a comment line begins with, where everything below git's scissors is left out
            too; None for a message that git has stored already, of which all counts.
    """
    rows = kept_rows(text, comment)
    if not rows:
        how = f"; write {FORM!r}" if rules.is_conventional else ""
        return [Problem(1, 1, "empty", f"the message is empty{how}")]
    # git writes these subjects itself, and tools such as autosquash depend on their form.
    if _BY_GIT.match(rows[0].text):
        return []
    found = [*_first_line_problems(rows, rules), *_body_problems(rows[1:], rules.max_body)]
    return [each for each in found if each.rule not in rules.unasked]


def check_bytes(
    data: bytes, comment: str | None = "#", rules: Rules = DEFAULT_RULES
) -> list[Problem]:
    """Return what is wrong with a message that may not be text at all."""
    try:
        return check_message(data.decode("utf-8"), comment, rules)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        what = f"byte 0x{data[error.start]:02x} is not UTF-8; save the message as UTF-8"
        return [Problem(line, column, "encoding", what)]


def kept_rows(text: str, comment: str | None = "#") -> list[Row]:
    """Return the lines that git keeps of a message, without the blank ones around them."""
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), 1):
        # Everything below the scissors is the diff of `git commit --verbose`.
        if comment is not None and _SCISSORS.fullmatch(line):
            break
        if comment is None or not line.startswith(comment):
            rows.append(Row(number, line.rstrip()))
    # git strips blank lines around the message; the numbers stay those of the file.
    filled = [place for place, row in enumerate(rows) if row.text]
    return rows[filled[0] : filled[-1] + 1] if filled else []


def _first_line_problems(rows: list[Row], rules: Rules) -> Iterator[Problem]:
    """Yield what the first line gets wrong, whatever form it has."""
    row = rows[0]
    if any(gap in row.text for gap in (TYPE_GAP, SUBJECT_GAP)):
        what = "this line of the draft is the author's; write the type and what the commit does"
        yield Problem(row.number, 1, "draft", what)
    elif rules.pattern is not None:
        text = "\n".join(each.text for each in rows)
        if not re.match(rules.pattern, text):
            what = f"the message does not match {rules.pattern!r}, which the repository asks for"
            yield Problem(row.number, 1, "form", what)
    elif rules.is_conventional:
        yield from _header_problems(row, rules)
    else:
        # The subject begins behind a label such as "area: " or "[area] ".
        match = _LABEL.match(row.text)
        start = match.end() if match and match.end() < len(row.text) else 0
        yield from _subject_problems(row, start)
    length = subject_length(row.text)
    if length > rules.max_subject:
        what = f"the first line has {length} characters; at most {rules.max_subject} are allowed"
        yield Problem(row.number, rules.max_subject + 1, "subject-length", what)


def _header_problems(row: Row, rules: Rules) -> Iterator[Problem]:
    """Yield what the first line gets wrong, as far as its parts can be separated."""
    end: int | None = 0
    # Each part begins where the one before it ends; an unclear end makes the rest guesswork.
    for read in (_read_type, _read_scope, _read_separator):
        end, fault = read(row.text, end, rules)
        if fault is not None:
            at, rule, message = fault
            yield Problem(row.number, at + 1, rule, message)
        if end is None:
            return
    yield from _subject_problems(row, end)


def _read_type(text: str, start: int, rules: Rules) -> _Part:
    known = f"known types: {', '.join(rules.types)}"
    if text.startswith(_MARK):
        what = "there is a byte order mark; save the message without one"
        return None, (start, "encoding", what)
    match = _TYPE.match(text, start)
    if match is None:
        return None, (start, "form", f"a type belongs here, as in {FORM!r}; {known}")
    name, end = match[0], match.end()
    if name in rules.types:
        return end, None
    # Without a colon behind it the first word is prose and no misspelt type.
    if not _REST.match(text, end):
        return None, (start, "form", f"the line has not the form {FORM!r}; {known}")
    what = f"unknown type {name!r}{nearest(name.lower(), rules.types)}"
    if name.lower() in rules.types:
        what = f"the type {name!r} is written {name.lower()!r}"
    return end, (start, "type", what)


def _read_scope(text: str, start: int, rules: Rules) -> _Part:
    if not text.startswith("(", start):
        return start, None
    match = _SCOPE.match(text, start)
    if match is None:
        return None, (start, "scope", "this parenthesis is not closed by ')'")
    scope, end = match["scope"], match.end()
    if not scope.strip():
        what = "the scope is empty; name one, or leave out the parentheses"
        return end, (start + 1, "scope", what)
    word = _SCOPE_WORD.match(text, start + 1)
    at = start + 1 if word is None else word.end()
    if at < end - 1:
        what = f"{text[at]!r} is not allowed in a scope, which is one word of letters, digits"
        return end, (at, "scope", f"{what} and - _ . / , @ +")
    if not rules.scopes or scope in rules.scopes:
        return end, None
    what = f"unknown scope {scope!r}{nearest(scope, rules.scopes)}"
    return end, (start + 1, "scope", f"{what}; known scopes: {', '.join(rules.scopes)}")


def _read_separator(text: str, start: int, _: Rules) -> _Part:
    at = start + text.startswith("!", start)
    # `feat!(api): x`.
    if text.startswith("(", at) and at > start:
        return None, (start, "separator", "'!' belongs behind the scope, directly before ':'")
    colon = _COLON.match(text, at)
    if colon is None:
        return None, (at, "separator", f"':' belongs here, as in {FORM!r}")
    end = colon.end()
    if end == len(text):
        return None, (end, "subject-empty", "the subject is missing behind ':'")
    if colon["wide"]:
        what = f"{colon['wide']!r} is not ':'; use the ASCII colon"
        return end, (colon.start("wide"), "separator", what)
    if colon["before"]:
        what = "':' belongs directly behind the type, the scope or one '!'"
        return end, (at, "separator", what)
    is_spaced = colon["behind"] == " "
    what = "exactly one space belongs behind ':'"
    return end, None if is_spaced else (colon.start("behind"), "separator", what)


def _subject_problems(row: Row, start: int) -> Iterator[Problem]:
    subject = _SUFFIX.sub("", row.text[start:])
    wanted = imperative_of(subject)
    if wanted is not None:
        what = f"the subject must be in the imperative: {wanted!r}, "
        what += f"not {subject.split()[0]!r}"
        yield Problem(row.number, start + 1, "subject-mood", what)
    is_period = subject.endswith(".") and not _ABBREVIATED.search(subject)
    if is_period or subject.endswith("\N{IDEOGRAPHIC FULL STOP}"):
        yield Problem(
            row.number, start + len(subject), "subject-period", "the subject ends with no period"
        )


def _body_problems(rows: list[Row], width: int) -> Iterator[Problem]:
    if rows and rows[0].text:
        what = "a blank line belongs between the first line and the body"
        yield Problem(rows[0].number, 1, "body-blank", what)
    is_code, is_footer = False, True
    for row in rows:
        is_fence = FENCE.match(row.text) is not None
        if not (is_code or is_fence):
            yield from _line_problems(row, is_footer, width)
        is_code ^= is_fence
        # A footer is behind a blank line, or behind a footer, which may go on indented.
        is_after = row.text[:1].isspace() or _TRAILER.match(row.text) is not None
        is_footer = not row.text or (is_footer and is_after)


def _line_problems(row: Row, is_footer: bool, width: int) -> Iterator[Problem]:
    if len(row.text) > width and not _may_be_long(row.text, width):
        what = f"the line has {len(row.text)} characters; at most {width} are allowed"
        yield Problem(row.number, width + 1, "body-width", f"{what}, URLs and code apart")
    if row.text == WHY:
        what = "this line of the draft is the author's; write why, or take it out"
        yield Problem(row.number, 1, "draft", what)
    if not _BREAKING.match(row.text):
        return
    if not _BREAKING_FOOTER.match(row.text):
        what = "a footer of a breaking change is written 'BREAKING CHANGE: ' and what breaks"
        yield Problem(row.number, 1, "breaking-footer", what)
    elif not is_footer:
        what = "a blank line belongs before the footer"
        yield Problem(row.number, 1, "breaking-footer", what)


def _may_be_long(text: str, width: int) -> bool:
    """Return whether a line cannot be broken: code, or short enough but for its URLs and code."""
    # Indented lines are code in Markdown, and a single word has no place to break.
    if text.startswith(("    ", "\t")) or " " not in text.strip():
        return True
    return len(_LONG_BY_NATURE.sub("", text)) <= width
