"""The words of a pull request: its title, body and risks, and the message of its one commit."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from textwrap import indent
from types import MappingProxyType
from typing import NamedTuple

from scaffold.analysis.project.pytest_names import marker_expression
from scaffold.analysis.project.test_marks import Marks, selected
from scaffold.vcs.changes import FileChange
from scaffold.vcs.commit.command import point_lines
from scaffold.vcs.commit.conventional import Rules
from scaffold.vcs.commit.key_changes import KeyChanges
from scaffold.vcs.pull_request.branch import BranchCommit, BranchState
from scaffold.vcs.pull_request.template import NO_BREAKING, NO_REFERENCES, NO_RISKS
from scaffold.vcs.repository import listed
from scaffold.vcs.roles import kind_of

_WORD = re.compile(r"[^\s'\"`]+")
_SELECTING = frozenset({"-k", "-run", "--testNamePattern"})
"""Options by which a runner takes some tests of what it is given."""


_ONE = (frozenset[str](),)
"""The markers of a file of which no test was read: it counts as one, and has none."""

_RANK = ("feat", "fix", "perf", "refactor", "build", "ci", "docs", "test", "style", "chore")
"""Of commits with several types, the first of these names the whole."""

# `Fixes: #12`, `Refs #12`, `Co-authored-by: A <a@b>`; and not `Before: x`, which is a sentence.
_TRAILER = re.compile(
    r"(?P<key>BREAKING[ -]CHANGE(?=: )|[A-Z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+"
    r"|(?i:[a-z]+(?:-[a-z]+)*-by|fix(?:es|ed)?|close[sd]?|resolve[sd]?|refs?"
    r"|references|cc|link|issues?|bug))"
    r"(?:: | (?=#))(?P<value>\S.*)"
)
_BREAKING = ("BREAKING CHANGE", "BREAKING-CHANGE")
_ISSUE_TRAILERS = ("refs", "fixes", "closes", "resolves")
# The hash of the text above it: where it fits, nobody has edited the body since.
_MARK = re.compile(r"\n*<!-- scaffold pr (?P<digest>[0-9a-f]{12}) -->\s*\Z")
MAX_TESTS = 20
MAX_PATHS = 5


class Risk(NamedTuple):
    """A subject that a branch touches.

    Attributes:
        severity: How much harm a fault would do.
    """

    title: str
    severity: str
    look: str
    paths: tuple[str, ...]


class Surroundings(NamedTuple):
    """What a branch touches beside its own lines.

    Attributes:
        risks: The gravest first.
        tests: Test files that change, or are named after a changed file.
        marks: The markers of the tests in each of them.
        default: The expression of markers that pytest goes by where a command gives none.
    """

    risks: tuple[Risk, ...] = ()
    tests: tuple[str, ...] = ()
    marks: Mapping[str, Marks] = MappingProxyType({})
    default: str = ""


class NearTests(NamedTuple):
    """The tests that are near to what a branch changes.

    Attributes:
        covered: Files all of whose tests a command ran.
        left: Files of which no command ran any.
        partly: Files of which markers left tests out, with how many ran of how many.
    """

    covered: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    partly: tuple[tuple[str, int, int], ...] = ()


def near_tests_run(near: Surroundings, commands: Sequence[str]) -> NearTests:
    """Divide test files into those that commands cover and the others.

    A command that names no test file, and no folder of one, covers all, as ``make test`` does. Of
    what a command of pytest covers, those tests ran that its markers, or the usual ones, select.
    """
    ran: dict[str, set[int]] = {}
    for command in commands:
        _, program, options = f"{command} ".rpartition("pytest ")
        # The author's results follow a colon.
        asked = marker_expression(options.partition(": ")[0]) if program else ""
        chosen = near.default if asked is None else asked
        for path in _named_by(command, near.tests, is_pytest=bool(program)):
            ran.setdefault(path, set()).update(selected(near.marks.get(path) or _ONE, chosen))
    wholes = {path: len(near.marks.get(path) or _ONE) for path in near.tests}
    parts = [(path, len(ran.get(path, ())), whole) for path, whole in wholes.items()]
    return NearTests(
        tuple(path for path, part, whole in parts if part == whole),
        tuple(path for path, part, _ in parts if not part),
        tuple(row for row in parts if 0 < row[1] < row[2]),
    )


def _named_by(command: str, near: Sequence[str], *, is_pytest: bool) -> Sequence[str]:
    """Return the test files that a command takes, whatever their markers."""
    words = {word.partition("::")[0].rstrip("/:,;.") for word in _WORD.findall(command)}
    # `pytest tests -k grpo` runs what it names, and not the folder.
    if words & _SELECTING:
        return [path for path in near if _stem(path) & words]
    named = [path for path in near if words.intersection(_places(path))]
    # A file of other tests is named, and none of these.
    is_elsewhere = is_pytest and any(word.endswith(".py") for word in words)
    return named if named or is_elsewhere else near


def _stem(path: str) -> set[str]:
    """Return the words of a test file's name, and the name itself."""
    stem = path.rpartition("/")[2].partition(".")[0]
    return {path, stem, *stem.split("_")} - {"test", "tests"}


def _places(path: str) -> list[str]:
    """Return a path and the folders that it is in."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


class Material(NamedTuple):
    """The facts that title and body are made of."""

    branch: BranchState
    changes: tuple[FileChange, ...]
    key: KeyChanges
    references: tuple[str, ...]
    rules: Rules
    near: Surroundings = Surroundings()
    commands: tuple[str, ...] = ()
    """Of the tests that were run, with their results where the author gave them."""


def title_of(material: Material) -> str:
    """Return the title: the one commit's subject, or that of the weightiest of several."""
    commits = material.branch.commits
    typed = [(each, each.header) for each in commits if each.header is not None]
    if len(commits) == 1 or not material.rules.is_conventional or not typed:
        return commits[0].subject
    ranks = {name: rank for rank, name in enumerate(_RANK)}
    best, header = min(typed, key=lambda row: ranks.get(row[1].type, len(_RANK)))
    # What one commit breaks the whole breaks, whichever commit gives the title.
    if breaking_lines(material) and not header.is_breaking:
        scope = f"({header.scope})" if header.scope else ""
        return f"{header.type}{scope}!: {header.subject}"
    return best.subject


def breaking_lines(material: Material) -> list[str]:
    """Return what breaks, in the words of the commits; a diff does not prove who relies on it."""
    parts = (part for each in material.branch.commits for part in _paragraphs(each))
    footers = (footer for part in parts for footer in _footers(part)[1])
    said = [value for key, value in footers if key in _BREAKING]
    marked = [
        each.header.subject
        for each in material.branch.commits
        if each.header is not None and each.header.is_breaking
    ]
    return list(dict.fromkeys(said or marked))


def sections_of(material: Material) -> dict[str, str]:
    """Return the text for each section of a template."""
    commits, key = material.branch.commits, material.key
    points = [f"- {line}" for line in point_lines(key)]
    changes = [f"- {each.subject}" for each in commits]
    changes += ["", "Key changes:", "", *points] if points else []
    risks = [
        f"- {each.title} ({each.severity}): {_codes(each.paths)}. {each.look}"
        for each in material.near.risks
    ]
    breaking = [f"- {' '.join(each.split())}" for each in breaking_lines(material)]
    if not breaking and key.breaking:
        breaking = ["No commit names any. Callers outside of this change would notice:", ""]
        breaking += [f"- {each.breaks} (`{each.path}`)" for each in key.breaking[:MAX_TESTS]]
    told = [(each.subject, _body(each)[0]) for each in commits]
    # The only commit's subject is the title already.
    reasons = [
        reason if len(told) == 1 else f"{subject}\n\n{reason}" for subject, reason in told if reason
    ]
    return {
        "why": "\n\n".join(reasons),
        "changes": "\n".join(changes),
        "risks": "\n".join(risks) or NO_RISKS,
        "tests": "\n".join(_test_lines(material)),
        "breaking": "\n".join(breaking) or NO_BREAKING,
        "references": "\n".join(f"- {each}" for each in all_references(material)) or NO_REFERENCES,
    }


def _codes(paths: Sequence[str]) -> str:
    return listed([f"`{path}`" for path in paths], MAX_PATHS)


def _test_lines(material: Material) -> list[str]:
    """Return which tests change, which were run, and which near to the change were not."""
    changed = [each.path for each in material.changes if kind_of(each.path) == "test"]
    rows = [f"- `{path}`" for path in changed[:MAX_TESTS]]
    rows += [f"- {len(changed) - MAX_TESTS} more files"] if len(changed) > MAX_TESTS else []
    rows = rows or ["No test file changes."]
    if not material.commands:
        return [*rows, "", "Run: not given (`--tested`)."]
    near = near_tests_run(material.near, material.commands)
    rows += ["", "Run:", "", *(f"- {each}" for each in material.commands)]
    left = [f"Not run, though near to the change: {_codes(near.left)}."] if near.left else []
    # A marker, such as that of addopts, leaves tests out of a file that a command names.
    left += [f"Of `{path}` {part} of {whole} tests ran." for path, part, whole in near.partly]
    return [*rows, "", *left] if left else rows


def all_references(material: Material) -> tuple[str, ...]:
    """Return the issues that the branch and the commits name."""
    found = list(material.references)
    for each in material.branch.commits:
        found += [value for key, value in _trailers(each) if key.lower() in _ISSUE_TRAILERS]
    return tuple(dict.fromkeys(found))


def squash_message(material: Material, title: str) -> str:
    """Return the message of the one commit: each subject and body, authors and dates as footers."""
    commits = material.branch.commits
    if len(commits) == 1 and title == commits[0].subject:
        return commits[0].message.strip() + "\n"
    parts = [title]
    for each in commits:
        reason, _ = _body(each)
        # The commit that gives the title needs no line of its own.
        if each.subject != title:
            reason = f"- {each.subject}\n{indent(reason, '  ')}".rstrip()
        parts += [reason] if reason else []
    footers = [f"BREAKING CHANGE: {each}" for each in breaking_lines(material)]
    footers += [f"Refs: {each}" for each in material.references]
    # The commits themselves become unreachable once the backup is deleted.
    footers += [f"Squashed: {each.name[:12]} {each.date}" for each in commits]
    first = commits[0].author
    footers += [f"Co-authored-by: {each.author}" for each in commits if each.author != first]
    for each in commits:
        rows = (f"{key}: {value}" for key, value in _trailers(each))
        footers += [row for row in rows if row != f"Co-authored-by: {first}"]
    return "\n\n".join((*parts, "\n".join(dict.fromkeys(footers)))) + "\n"


def with_mark(body: str) -> str:
    """Return a body that can be known again as one that nobody edited."""
    digest = hashlib.sha256(body.strip().encode()).hexdigest()[:12]
    return f"{body.rstrip()}\n\n<!-- scaffold pr {digest} -->\n"


def is_untouched(body: str) -> bool:
    """Return whether a body is as the tool wrote it."""
    # GitHub's editor stores CRLF, which the digest must not depend on.
    text = body.replace("\r\n", "\n")
    match = _MARK.search(text)
    if match is None:
        return False
    own = text[: match.start()].strip()
    return hashlib.sha256(own.encode()).hexdigest()[:12] == match["digest"]


def _paragraphs(commit: BranchCommit) -> list[str]:
    return re.split(r"\n\s*\n", commit.message.strip())


def _trailers(commit: BranchCommit) -> list[tuple[str, str]]:
    return [each for each in _body(commit)[1] if each[0] not in _BREAKING]


def _body(commit: BranchCommit) -> tuple[str, list[tuple[str, str]]]:
    """Split the footers off the end of a message, be they in several paragraphs."""
    # A subject such as "fix: x" looks like a footer itself.
    parts, footers = _paragraphs(commit)[1:], list[tuple[str, str]]()
    while parts:
        text, found = _footers(parts.pop())
        footers[:0] = found
        if text:
            return "\n\n".join([*parts, text]).rstrip(), footers
    return "", footers


def _footers(paragraph: str) -> tuple[str, list[tuple[str, str]]]:
    """Split the footers off the end of a paragraph: key and value, lines after the first indented.

    A line in front of others that are none is part of a sentence, be there a colon in it.
    """
    rows, start = paragraph.splitlines(), 0
    found: list[tuple[str, str]] = []
    for at, row in enumerate(rows):
        match = _TRAILER.fullmatch(row.strip())
        if match is not None:
            found.append((match["key"], match["value"]))
        # Git goes on in indented lines; what breaks is told up to the next footer.
        elif found and (row[:1].isspace() or found[-1][0] in _BREAKING):
            found[-1] = found[-1][0], f"{found[-1][1]}\n  {row.strip()}"
        else:
            found, start = [], at + 1
    return "\n".join(rows[:start]), found
