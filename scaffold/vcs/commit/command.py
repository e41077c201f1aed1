"""The draft of the next commit's message: what the diff and the branch show, with its evidence.

A type is given where something proves it, and a scope only where the settings name it. Measured on
seven histories that keep Conventional Commits, general rules agree with the author on two of five
new features and half of all fixes, and a scope is guessed no better than by always naming the most
frequent one. So a word is given for what the repository has always called so.
"""

from __future__ import annotations

import re
import secrets
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Literal, NamedTuple

from scaffold.analysis.files.git import git_output
from scaffold.analysis.files.globs import matches
from scaffold.errors import RequestError, escaped
from scaffold.report import Report
from scaffold.vcs.changes import FileChange, staged_changes
from scaffold.vcs.commit.convention import Convention, learn_convention
from scaffold.vcs.commit.conventional import SUBJECT_GAP, TYPE_GAP, WHY, Header, Rules, read_header
from scaffold.vcs.commit.key_changes import KeyChanges, key_changes, symbol_json
from scaffold.vcs.commit.settings import CommitSettings, PathRule, read_commit_settings
from scaffold.vcs.definitions import SymbolChange
from scaffold.vcs.dependencies import DependencyChange
from scaffold.vcs.repository import Repository, listed, open_repository
from scaffold.vcs.roles import kind_of

DEPTH = 400
"""How many commits back a history is asked."""

MAX_FILES = 300
"""Commits that touch more are imports and mass edits, whose subject describes no file."""

ENOUGH = 12
"""Earlier commits of the same roles from which their type is the repository's custom."""

AGREED = 0.95

# A body of more points is not read; a head of more characters does not fit a line.
MAX_LISTED = 12
MAX_HEAD = 100
_VERBS = {
    "added": "add", "removed": "remove", "moved": "move", "head": "change",
}  # fmt: skip

# `feature/ABC-12-title`; then `fix/123-title`, `issue-45`, `gh-7`; and `release-1.2`, `v2.x`.
_TRACKER = re.compile(r"(?<![A-Za-z0-9])([A-Z][A-Z0-9]{1,9}-[1-9][0-9]*)(?![0-9A-Za-z])")
_NUMBER = re.compile(
    r"(?:^|/)(?:#|gh-?|issues?[-_/]|fix(?:es)?[-_/#]|bugs?[-_/]|pr-)?([1-9][0-9]{0,6})(?=$|[-_/])",
    re.IGNORECASE,
)
_NO_ISSUE = re.compile(r"(?:^|/)(?:v?\d+(?:\.\d+|\.x)|\d{4}-\d{2}|20\d{2}[-_/]|release|dependabot)")

COMMAND = "commit-msg"
# How many files a message names before it counts the rest.
MAX_NAMED = 5


class Past(NamedTuple):
    """One commit of the past."""

    subject: str
    paths: frozenset[str]

    @property
    def header(self) -> Header | None:
        return read_header(self.subject)


def past_commits(root: Path, start: str = "HEAD", limit: int | None = DEPTH) -> Iterator[Past]:
    """Yield commits from a start backwards, the newest first, without merges and first commits."""
    # Random, so that no subject in the output can contain the separator.
    mark = secrets.token_hex(16)
    form = f"--format={mark}%x00%P%x00%s%x00"
    options = ["--name-only", "-z", "--no-renames", "--no-merges"]
    options += [f"--max-count={limit}"] if limit is not None else []
    output = git_output(root, "log", *options, form, start, "--") or b""
    for part in output.decode("utf-8", "surrogateescape").split(mark)[1:]:
        _, parents, subject, rest = part.split("\0", 3)
        paths = frozenset(rest.strip("\0\n").split("\0")) - {""}
        # A shallow clone makes first commits of those where it was cut.
        if parents and len(paths) <= MAX_FILES:
            yield Past(subject, paths)


class Word(NamedTuple):
    """A type or scope that is given, or None with what keeps it from being given."""

    word: str | None
    why: str


def find_type(
    changes: Sequence[FileChange], past: Iterable[Past], table: Sequence[PathRule], rules: Rules
) -> Word:
    """Return the type of a change.

    The path table of the settings names it, or nearly all earlier commits to files of the same
    roles have it, or all files are documentation.
    """
    named = from_table(changes, table, "type")
    if named.word is not None:
        return named
    sides = ((each.old_path, each.new_path) for each in changes)
    roles = {kind_of(path) for both in sides for path in both if path}
    shown = " and ".join(sorted(roles))
    seen: Counter[str] = Counter()
    for each in past:
        if each.header and {kind_of(path) for path in each.paths} == roles:
            seen[each.header.type] += 1
    word, count = seen.most_common(1)[0] if seen else ("", 0)
    told = f"{count} of {seen.total()} earlier commits to {shown} alone"
    if seen.total() >= ENOUGH and count >= AGREED * seen.total() and word in rules.types:
        return Word(word, told)
    # Without a history of its own a repository most likely has everybody's custom.
    if roles == {"docs"} and not seen and "docs" in rules.types:
        return Word("docs", "only documentation changes")
    doubt = "too few to go by" if seen.total() < ENOUGH else "yours to choose"
    return Word(None, f"{told} are {word!r}: {doubt}" if seen else "no earlier commit shows one")


def from_table(
    changes: Sequence[FileChange], table: Sequence[PathRule], which: Literal["type", "scope"]
) -> Word:
    """Return the word that the path table gives most of the files, if it is more than half."""
    found: Counter[str] = Counter()
    for change in changes:
        rows = [row for row in table if matches(change.path, [row.pattern])]
        words = [word for row in rows if (word := getattr(row, which)) is not None]
        # The last row that matches counts, as in a .gitignore.
        found.update(words[-1:])
    word, count = found.most_common(1)[0] if found else ("", 0)
    # Files that no row matches count against the word.
    if count * 2 <= len(changes):
        return Word(None, "")
    where = "[tool.scaffold.commits.paths]"
    return Word(word, f"{count} of {len(changes)} files, by {where}")


def draft_message(
    key: KeyChanges, type_: str | None, scope: str | None, references: tuple[str, ...], rules: Rules
) -> str:
    """Return the message for a diff, with gaps for what is its author's to write.

    Args:
        type_: Its type; None where that is for the author to choose.
    """
    head = f"{type_ or TYPE_GAP}{f'({scope})' if scope else ''}: " if rules.is_conventional else ""
    points = [_wrapped(point, "- ", rules.max_body) for point in point_lines(key)]
    footers = [f"Refs: {each}" for each in references]
    parts = [head + SUBJECT_GAP, WHY, "\n".join(points), "\n".join(footers)]
    return "\n\n".join(part for part in parts if part) + "\n"


def point_lines(key: KeyChanges) -> Iterator[str]:
    """Yield the key changes as people read them, the longest lists cut."""
    for how, verb in _VERBS.items():
        rows = [_symbol_line(each, verb) for each in key.symbols if each.how == how]
        yield from _shortened(rows, f"{verb} {{}} more public definitions")
    moved = [f"move {old} to {new}" for old, new in key.moved]
    yield from _shortened(moved, "move {} more files")
    yield from map(_printable, map(dependency_line, key.dependencies))


def _shortened(rows: list[str], rest: str) -> Iterator[str]:
    yield from map(_printable, rows[:MAX_LISTED])
    if len(rows) > MAX_LISTED:
        yield rest.format(len(rows) - MAX_LISTED)


def dependency_line(row: DependencyChange) -> str:
    """Return what happens to a package, as people read it."""
    if row.what == "added":
        return f"add the dependency {row.name} {row.new} ({row.path})".replace("  ", " ")
    if row.what == "removed":
        return f"drop the dependency {row.name} ({row.path})"
    return f"{row.name}: {row.old or 'any version'} -> {row.new or 'any version'} ({row.path})"


def _symbol_line(row: SymbolChange, verb: str) -> str:
    thing = f"{verb} {row.symbol.kind} {row.name}"
    if row.how == "moved":
        return f"{thing} from {row.old_path} to {row.path}"
    if row.how == "head":
        heads = _heads(row.last_name, [each.head for each in (row.old, row.new) if each])
        return f"{thing}: {' -> '.join(heads)} ({row.path})"
    return f"{thing} ({row.path})"


def _heads(name: str, heads: list[str]) -> Iterator[str]:
    """Yield heads under their name, long ones from the first parameter that differs."""
    is_other = len({each.startswith("async ") for each in heads}) > 1
    rests = [each.removeprefix("async ") for each in heads]
    is_long = max(map(len, rests)) + len(name) > MAX_HEAD
    same = len([*takewhile(lambda row: len({*row}) == 1, zip(*rests, strict=False))])
    start = rests[0].rfind(", ", 0, same) if is_long else -1
    for head, rest in zip(heads, rests, strict=True):
        word = "async " if is_other and head != rest else ""
        text = f"{word}{name}{rest if start < 0 else f'(...{rest[start:]}'}"
        yield text if len(text) <= MAX_HEAD else f"{text[: MAX_HEAD - 3]}..."


def _printable(text: str) -> str:
    """Return a text as one line of UTF-8, whatever bytes the names in it are made of."""
    # A surrogate is a byte that is no UTF-8, as from os.fsdecode.
    signs = (
        f"\\x{ord(each) & 0xFF:02x}" if 0xDC80 <= ord(each) <= 0xDCFF else escaped(each)
        for each in text
    )
    return "".join(signs)


def _wrapped(text: str, lead: str, width: int) -> str:
    # Paths and names must survive a copy, so neither long words nor hyphens are broken.
    return textwrap.fill(
        lead + text,
        width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def branch_references(branch: str) -> tuple[str, ...]:
    """Return the issues in a branch's name, such as "#123" and "ABC-12".

    Versions, dates and the branches of robots are no issues.
    """
    tracked = _TRACKER.findall(branch)
    # A tracker's key is unmistakable; a bare number may be many things.
    if tracked:
        return tuple(dict.fromkeys(tracked))
    if _NO_ISSUE.search(branch):
        return ()
    match = _NUMBER.search(branch)
    return (f"#{match[1]}",) if match else ()


def draft_commit_message(folder: Path) -> Report:
    """Draft the message for what is staged in the repository that a folder lies in.

    Raises:
        RequestError: Nothing is staged, or files are in conflict.
    """
    with open_repository(folder) as repository:
        root = repository.root
        settings = read_commit_settings(root)
        changes = staged_changes(repository)
        _confirm(changes)
        convention = learn_convention(root, settings)
        words = _words(root, changes, settings, convention)
        key = key_changes(repository, changes)
        references = branch_references(repository.branch or "")
        warnings = tuple(_warnings(repository, key))
    type_, scope = (each.word for each in words)
    message = draft_message(key, type_, scope, references, convention.rules)
    extra = {
        "message": message,
        "type": words[0]._asdict(),
        "scope": words[1]._asdict(),
        "convention": {
            "is_conventional": convention.rules.is_conventional,
            "evidence": list(convention.evidence),
            "unasked": sorted(convention.rules.unasked),
        },
        "key_changes": key.to_json(),
        "may_break": [symbol_json(each) for each in key.breaking],
        "references": list(references),
        "files": [{"path": each.path, "status": each.status} for each in changes],
    }
    text = f"{message}\n{_comments(words, convention, key)}"
    return Report(COMMAND, text=text, warnings=warnings, extra={"commit_message": extra})


def _words(
    root: Path, changes: tuple[FileChange, ...], settings: CommitSettings, convention: Convention
) -> tuple[Word, Word]:
    if not convention.rules.is_conventional:
        return Word(None, ""), Word(None, "")
    past = past_commits(root)
    type_ = find_type(changes, past, settings.paths, convention.rules)
    return type_, from_table(changes, settings.paths, "scope")


def _comments(words: tuple[Word, Word], convention: Convention, key: KeyChanges) -> str:
    """Return the evidence for a draft, as comment lines that git leaves out."""
    rows = [("form", line) for line in convention.evidence]
    if not convention.rules.is_conventional:
        rows += [("newest", line) for line in convention.examples]
    for label, word in zip(("type", "scope"), words, strict=True):
        if word.why:
            rows.append((label, f"{word.word}: {word.why}" if word.word else word.why))
    rows += [("breaks?", f"{each.breaks} ({each.path})") for each in key.breaking[:MAX_LISTED]]
    if len(key.breaking) > MAX_LISTED:
        rows.append(("breaks?", f"{len(key.breaking) - MAX_LISTED} more public definitions"))
    if key.breaking:
        rows.append(("", "if callers outside of this commit rely on it: '!' before the colon, and"))
        rows.append(("", "a footer 'BREAKING CHANGE: ' with what they have to do"))
    return "".join(f"# {label:<8} {line}\n" for label, line in rows)


def unread_warning(key: KeyChanges) -> str | None:
    """Return the warnings about sources whose definitions were not compared."""
    if not key.unread:
        return None
    names = listed([each.path for each in key.unread], MAX_NAMED)
    whys = "; ".join(dict.fromkeys(each.why for each in key.unread))
    return f"definitions not compared in {names}: {whys}"


def _confirm(changes: tuple[FileChange, ...]) -> None:
    unmerged = [each.path for each in changes if each.status == "U"]
    if unmerged:
        raise RequestError(
            f"{len(unmerged)} files are in conflict: {', '.join(unmerged[:MAX_NAMED])}",
            code="unmerged",
            hint="settle them and `git add` them first",
        )
    if not changes:
        raise RequestError(
            "nothing is staged, so there is no commit to describe",
            code="nothing_staged",
            hint="stage what belongs together with `git add PATH`, or `git add -p`",
        )


def _warnings(repository: Repository, key: KeyChanges) -> list[str]:
    found = [unread_warning(key)]
    if repository.is_shallow:
        found.append("this clone is shallow: the convention was learned from what it has")
    if (repository.folder / "MERGE_HEAD").is_file():
        found.append(
            "a merge is in progress, for which git has a message already; `git commit --no-edit` "
            "takes it"
        )
    return [each for each in found if each]
