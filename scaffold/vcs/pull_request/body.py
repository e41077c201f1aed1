"""The words of a pull request: its title, its body, and the message of its one commit."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from scaffold.vcs.changes import FileChange
from scaffold.vcs.commit.conventional import Rules
from scaffold.vcs.commit.draft import Draft, point_lines
from scaffold.vcs.commit.imperative import imperative_of
from scaffold.vcs.commit.inference import Guess
from scaffold.vcs.commit.key_changes import KeyChanges
from scaffold.vcs.pull_request.branch import BranchCommit, BranchState
from scaffold.vcs.roles import role_of

_RANK = ("feat", "fix", "perf", "refactor", "build", "ci", "docs", "test", "style", "chore")
"""Of commits with several types, the first of these names the whole."""

# `Fixes: #12`, `Refs #12`, `Co-authored-by: A <a@b>`.
_TRAILER = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9-]*)(?:: | (?=#))(?P<value>\S.*)")
_BREAKING = re.compile(r"BREAKING[ -]CHANGE: (?P<what>\S.*)")
_KEPT_TRAILERS = ("refs", "fixes", "closes", "resolves", "co-authored-by", "signed-off-by")
# The hash of the text above it: where it fits, nobody has edited the body since.
_MARK = re.compile(r"\n*<!-- scaffold pr (?P<digest>[0-9a-f]{12}) -->\s*\Z")
MAX_TESTS = 20


class Material(NamedTuple):
    """The facts that title and body are made of."""

    branch: BranchState
    changes: tuple[FileChange, ...]
    key: KeyChanges
    guesses: tuple[Guess, Guess]
    draft: Draft
    references: tuple[str, ...]
    rules: Rules


def title_of(material: Material) -> str:
    """Return the title: the one commit's subject, or one made of all."""
    commits, rules = material.branch.commits, material.rules
    if len(commits) == 1 and commits[0].header is not None:
        return commits[0].subject
    known = [(each, each.header) for each in commits if each.header is not None]
    types = [header.type for _, header in known if header.type in rules.types]
    if not types:
        return _fitted(
            material, material.guesses[0].word or rules.types[0], _scope(material), commits
        )
    chosen = min(types, key=lambda name: _RANK.index(name) if name in _RANK else len(_RANK))
    same = [each for each, header in known if header.type == chosen]
    return _fitted(material, chosen, _scope(material), same)


def is_breaking(material: Material) -> bool:
    """Return whether callers break, by the commits or by the diff."""
    return bool(breaking_lines(material))


def breaking_lines(material: Material) -> list[str]:
    """Return what breaks: in the words of the commits, else as the diff shows it."""
    said = [match["what"] for each in material.branch.commits for match in _breaking(each)]
    marked = [
        each.header.subject
        for each in material.branch.commits
        if each.header is not None and each.header.is_breaking
    ]
    # The authors' own words first: the diff shows what broke, not what it means.
    return list(dict.fromkeys(said or marked or material.draft.breaking))


def sections_of(material: Material) -> dict[str, str]:
    """Return the text for each section of a template."""
    tests = [each.path for each in material.changes if role_of(each.path) == "test"]
    shown = [f"- `{path}`" for path in tests[:MAX_TESTS]]
    shown += [f"- {len(tests) - MAX_TESTS} more files"] if len(tests) > MAX_TESTS else []
    points = [f"- {line}" for line in point_lines(material.key)]
    subjects = [f"- {each.subject}" for each in material.branch.commits]
    changes = subjects + (["", "Key changes:", "", *points] if points else [])
    breaking = [f"- {line}" for line in breaking_lines(material)]
    return {
        "changes": "\n".join(changes),
        "tests": "\n".join(shown) or "No test file changes.",
        "breaking": "\n".join(breaking) or "None that the diff shows.",
        "references": "\n".join(f"- {each}" for each in all_references(material)) or "None.",
    }


def all_references(material: Material) -> tuple[str, ...]:
    """Return the issues that the branch and the commits name."""
    found = list(material.references)
    for each in material.branch.commits:
        found += [value for key, value in _trailers(each) if key.lower() in _KEPT_TRAILERS[:4]]
    return tuple(dict.fromkeys(found))


def squash_message(material: Material, title: str) -> str:
    """Return the message of the one commit; authors and their dates stay in its trailers."""
    commits = material.branch.commits
    if len(commits) == 1 and title == commits[0].subject:
        return commits[0].message.strip() + "\n"
    points = "\n".join(f"- {each.subject}" for each in commits)
    footers = [f"BREAKING CHANGE: {line}" for line in breaking_lines(material)]
    footers += [f"Refs: {each}" for each in material.references]
    # The commits themselves become unreachable once the backup is deleted.
    footers += [f"Squashed: {each.name[:12]} {each.date}" for each in commits]
    first = commits[0].author
    footers += [f"Co-authored-by: {each.author}" for each in commits if each.author != first]
    for each in commits:
        footers += [
            f"{key}: {value}"
            for key, value in _trailers(each)
            if key.lower() in _KEPT_TRAILERS and f"{key}: {value}" != f"Co-authored-by: {first}"
        ]
    return "\n\n".join((title, points, "\n".join(dict.fromkeys(footers)))) + "\n"


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


def _scope(material: Material) -> str | None:
    """Return the scope of more than half of the commits that have one; else the inferred one."""
    scopes = Counter(each.header.scope for each in material.branch.commits if each.header)
    if scopes:
        scope, count = scopes.most_common(1)[0]
        # Without a majority no scope is better than a wrong one.
        return scope if count * 2 > scopes.total() else None
    return material.guesses[1].word


def _fitted(
    material: Material, type_: str, scope: str | None, commits: Sequence[BranchCommit]
) -> str:
    """Return the first subject that fits behind type and scope, else what the diff shows."""
    mark = "!" if breaking_lines(material) else ""
    head = f"{type_}{f'({scope})' if scope else ''}{mark}: "
    for each in commits:
        subject = each.header.subject if each.header else _mended(each.subject)
        if subject and len(head) + len(subject) <= material.rules.max_subject:
            return head + subject
    return head + material.draft.header.partition(": ")[2]


def _mended(subject: str) -> str:
    """Return a free subject as an order without a period, as far as that is certain."""
    text = subject.strip().rstrip(".").strip()
    verb = imperative_of(text) if text else None
    first, _, rest = text.partition(" ")
    if verb is not None:
        return f"{verb} {rest}".strip()
    # Names such as README or GitHub keep their capitals.
    is_plain = first[:1].isupper() and first[1:].islower()
    return f"{first.lower()} {rest}".strip() if is_plain else text


def _breaking(commit: BranchCommit) -> list[re.Match[str]]:
    rows = (_BREAKING.fullmatch(line.strip()) for line in commit.message.splitlines())
    return [match for match in rows if match is not None]


def _trailers(commit: BranchCommit) -> list[tuple[str, str]]:
    """Return the trailers of the last paragraph, if it is not the subject."""
    parts = re.split(r"\n\s*\n", commit.message.strip())
    # A subject such as "fix: x" looks like a trailer itself.
    if len(parts) < 2:
        return []
    rows = [_TRAILER.fullmatch(line.strip()) for line in parts[-1].splitlines()]
    return [(match["key"], match["value"]) for match in rows if match is not None]
