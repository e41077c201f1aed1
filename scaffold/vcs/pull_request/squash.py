"""A branch as one commit on top of its base, made in git's store alone."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from scaffold.errors import ScaffoldError
from scaffold.vcs.pull_request.branch import Base, BranchState
from scaffold.vcs.repository import Repository, failure

MIN_VERSION = (2, 38)
"""The first git that merges trees without a work tree: `git merge-tree --write-tree`."""

MAX_HUNK_LINES = 40
# A path in conflict as `git merge-tree` lists it; stages 1 to 3 are base, ours and theirs.
_ENTRY = re.compile(r"(?P<mode>\d{6}) (?P<name>[0-9a-f]{40}) (?P<stage>[0-3])\t(?P<path>.*)", re.S)
# From `<<<<<<< ours` to `>>>>>>> theirs`.
_HUNK = re.compile(r"^<{7} .*?^>{7} [^\n]*$", re.M | re.S)


class Conflict(NamedTuple):
    """A file that both sides changed at one place."""

    path: str
    why: str
    """As git words it."""
    ours: tuple[str, ...]
    """The commits of the branch that touch it: name and subject."""
    theirs: tuple[str, ...]
    """Those of the base."""
    hunks: tuple[str, ...]
    """The places, between git's marks; none where the file has no text to show."""


class ConflictError(ScaffoldError):
    """Raised where a branch does not fit on top of its base."""

    def __init__(self, conflicts: tuple[Conflict, ...], place: str) -> None:
        paths = ", ".join(dict.fromkeys(each.path for each in conflicts))
        super().__init__(
            f"the branch and {place} changed the same places: {paths}; nothing was touched",
            code="rebase_conflict",
            hint=f"resolve them yourself: git rebase {place}; then run the command again",
        )
        self.conflicts = conflicts


def confirm_version(repository: Repository) -> None:
    """Check that git can merge trees without a work tree.

    Raises:
        ScaffoldError: It is too old.
    """
    said = repository.look("version").split()[2]
    if tuple(map(int, re.findall(r"\d+", said)[:2])) < MIN_VERSION:
        raise ScaffoldError(
            f"git {said} cannot merge without touching the work tree",
            code="git_old",
            hint=f"install git {'.'.join(map(str, MIN_VERSION))} or newer, or leave out --rewrite",
        )


@contextmanager
def scratch_store(repository: Repository) -> Generator[dict[str, str]]:
    """Yield an environment in which git reads the repository's objects and writes elsewhere."""
    own = (repository.common / "objects").resolve()
    with tempfile.TemporaryDirectory(prefix="scaffold-pr-") as store:
        yield {"GIT_OBJECT_DIRECTORY": store, "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(own)}


def squashed_tree(
    repository: Repository, branch: BranchState, base: Base, env: dict[str, str] | None = None
) -> str:
    """Return the tree that the base has once the branch is merged into it.

    Raises:
        ConflictError: Both changed the same places.
        ScaffoldError: Git failed.
    """
    # merge-tree works on objects alone: neither index nor files are touched.
    argv = ["merge-tree", "--write-tree", "-z", "--messages", base.commit, branch.head]
    answer = repository.ask(*argv, env=env)
    tree, _, rest = answer.output.partition("\0")
    if answer.status == 0:
        return tree
    # Status 1 is a conflict; everything else is a failure of git.
    if answer.status != 1 or not tree:
        raise failure("merge-tree", answer)
    raise ConflictError(tuple(_conflicts(repository, branch, base, tree, rest, env)), base.place)


def _conflicts(
    repository: Repository,
    branch: BranchState,
    base: Base,
    tree: str,
    rest: str,
    env: dict[str, str] | None,
) -> Iterator[Conflict]:
    # An empty field ends the list of stages, and the messages follow.
    stages, _, messages = rest.partition("\0\0")
    entries = [match for row in stages.split("\0") if (match := _ENTRY.fullmatch(row))]
    whys, start = _whys(messages), branch.merge_base or base.commit
    for path in dict.fromkeys(match["path"] for match in entries):
        why = whys.get(path, "both sides changed it")
        ours, theirs = (
            tuple(repository.call("log", "--format=%h %s", *span).splitlines())
            for end in (branch.head, base.commit)
            for span in [(f"{start}..{end}", "--", f":(top,literal){path}")]
        )
        yield Conflict(path, why, ours, theirs, _hunks(repository, tree, path, env))


def _whys(messages: str) -> dict[str, str]:
    """Parse the records COUNT, PATH..., TYPE, MESSAGE; a conflict counts for its first path."""
    fields = messages.split("\0")
    found: dict[str, str] = {}
    at = 0
    while at < len(fields) and fields[at].strip().isdigit():
        count = int(fields[at])
        paths, message = fields[at + 1 : at + 1 + count], fields[at + 2 + count]
        if message.startswith("CONFLICT"):
            for path in paths:
                found.setdefault(path, message.strip())
        # The record's count, its paths, its type and its message.
        at += count + 3
    return found


def _hunks(
    repository: Repository, tree: str, path: str, env: dict[str, str] | None
) -> tuple[str, ...]:
    # A link has a path for its content, and a submodule none: neither has such marks.
    answer = repository.ask("cat-file", "blob", f"{tree}:{path}", env=env)
    if answer.status or "\0" in answer.output:
        return ()
    found: list[str] = []
    for match in _HUNK.finditer(answer.output):
        lines, half = match[0].split("\n"), MAX_HUNK_LINES // 2
        if len(lines) > MAX_HUNK_LINES:
            left_out = f"... {len(lines) - MAX_HUNK_LINES} lines"
            lines = [*lines[:half], left_out, *lines[-half:]]
        found.append("\n".join(lines))
    return tuple(found)


def write_commit(
    repository: Repository, branch: BranchState, base: Base, tree: str, message: str
) -> str:
    """Write the one commit, with author and date of the branch's first, and return it."""
    first = branch.commits[0]
    name, _, email = first.author.rpartition(" ")
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email.strip("<>")}
    author |= {"GIT_AUTHOR_DATE": first.date}
    argv = [tree, "-p", base.commit, "-F", "-"]
    # Unlike `git commit`, commit-tree does not look at this setting itself.
    if repository.look("config", "--type=bool", "--get", "commit.gpgSign") == "true":
        argv.insert(0, "-S")
    # commit-tree stores the message as it is, without the clean-up of `git commit`.
    given = message.rstrip("\n") + "\n"
    return repository.call("commit-tree", *argv, env=author, given=given).strip()
