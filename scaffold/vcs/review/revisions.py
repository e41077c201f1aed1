"""The two states that a review compares, and how the command line names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from scaffold.analysis.files.files import Files, list_files
from scaffold.analysis.files.git import git_output
from scaffold.analysis.files.revision import RevisionFiles, indexed_files, tree_files
from scaffold.errors import RequestError
from scaffold.vcs.changes import (
    EMPTY_TREE,
    FileChange,
    Hunk,
    changes_between,
    staged_changes,
    unstaged_changes,
)
from scaffold.vcs.pull_request import github
from scaffold.vcs.pull_request.remote import fetch_commit
from scaffold.vcs.repository import USUAL_BRANCHES, Repository, commit_at, default_branches


class Which(NamedTuple):
    """The states to compare, as the command line names them.

    Args:
        revisions: ``A..B``, ``A...B`` or one revision, which means what it adds to the base.
        staged: Whether to look at what the next commit would change.
        worktree: Whether to look at the files on the disk too.
        request: The number of a pull request, which `gh` looks up and git fetches.
    """

    revisions: str | None = None
    base: str | None = None
    staged: bool = False
    worktree: bool = False
    request: int | None = None


@dataclass(frozen=True)
class Comparison:
    """Two states of a repository and the changes between them.

    Args:
        subjects: The subjects of the commits in between, the oldest first.
    """

    old_name: str
    new_name: str
    why: str
    changes: tuple[FileChange, ...]
    old: Files
    new: Files
    subjects: tuple[str, ...] = ()

    def close(self) -> None:
        """End the processes that read contents."""
        for each in (self.old, self.new):
            if isinstance(each, RevisionFiles):
                each.close()


def compare(repository: Repository, which: Which) -> Comparison:
    """Return the two states that the command line names.

    Raises:
        RequestError: The options contradict each other, a revision is unknown, or nothing shows
            what the change is to be compared with.
    """
    _refuse_contradictions(which)
    if which.request is not None:
        return _request(repository, which.request)
    if which.staged:
        return _staged(repository)
    if repository.head is None:
        if which.worktree:
            return _with_worktree(repository, None, "nothing", "the branch has no commit yet")
        raise RequestError(
            "this branch has no commit yet",
            code="revision_unknown",
            hint="--staged reviews what its first commit would hold",
        )
    # A range names both ends; one revision is compared with where its branch began.
    if which.revisions and ".." in which.revisions:
        return _range(repository, which.revisions)
    tip = commit_at(repository, which.revisions or "HEAD")
    base_name, why = _base_name(repository, which, tip)
    base = _fork(repository, base_name, tip)
    if which.worktree:
        return _with_worktree(repository, base, f"{base_name} ({base[:12]})", why)
    return _between(repository, base, tip, why)


def _refuse_contradictions(which: Which) -> None:
    given = [
        name
        for name, is_there in (
            ("REV..REV", bool(which.revisions)), ("--staged", which.staged),
            ("--worktree", which.worktree), ("--pr", which.request is not None),
        )
        if is_there
    ]  # fmt: skip
    if len(given) > 1:
        raise RequestError(f"{given[0]} and {given[1]} exclude each other", code="usage")
    has_base = which.staged or which.request is not None or ".." in (which.revisions or "")
    if which.base and has_base:
        raise RequestError(f"--base and {given[0]} exclude each other", code="usage")


def _request(repository: Repository, number: int) -> Comparison:
    """Fetch a pull request and return what it adds to its base; no ref is moved."""
    address, name = github.read_request(repository.root, number)
    refs = (f"refs/heads/{name}", f"refs/pull/{number}/head")
    base, head = (fetch_commit(repository, address, ref) for ref in refs)
    tip = commit_at(repository, head)
    why = f"pull request {number} into {name}"
    return _between(repository, _fork(repository, base, tip), tip, why)


def _range(repository: Repository, text: str) -> Comparison:
    # The longer one first, as it contains the shorter.
    separator = "..." if "..." in text else ".."
    left, _, right = text.partition(separator)
    old, new = (commit_at(repository, each or "HEAD") for each in (left, right))
    if separator == "...":
        old = _fork(repository, left or "HEAD", new)
    return _between(repository, old, new, f"{text} was asked for")


def _between(repository: Repository, old: str, new: str, why: str) -> Comparison:
    # log.showSignature in a person's configuration would mix lines of gpg into the subjects.
    options = ("--format=%s", "--reverse", "--no-show-signature", f"{old}..{new}", "--")
    subjects = repository.read("log", *options).decode("utf-8", "replace")
    return Comparison(
        old[:12],
        new[:12],
        why,
        changes_between(repository, old, new),
        tree_files(repository.root, old),
        tree_files(repository.root, new),
        tuple(each for each in subjects.split("\n") if each),
    )


def _staged(repository: Repository) -> Comparison:
    head = repository.head
    return Comparison(
        "nothing" if head is None else head[:12],
        "the index",
        "--staged was asked for",
        staged_changes(repository),
        tree_files(repository.root, head or EMPTY_TREE),
        indexed_files(repository.root),
    )


def _with_worktree(repository: Repository, base: str | None, name: str, why: str) -> Comparison:
    old = base or EMPTY_TREE
    files = list_files(repository.root)
    changes = unstaged_changes(repository, old)
    # git diff leaves out files that are not tracked; people expect a review of them all the same.
    known = {each.new_path for each in changes}
    listed = git_output(files.root, "ls-files", "-z", "--others", "--exclude-standard") or b""
    paths = (each.decode("utf-8", "surrogateescape") for each in listed.split(b"\0"))
    fresh = [_new_file(files, each) for each in sorted(paths) if each and each not in known]
    ordered = sorted((*changes, *fresh), key=lambda each: each.path)
    return Comparison(
        name, "the work tree", why, tuple(ordered), tree_files(repository.root, old), files
    )


def _new_file(files: Files, path: str) -> FileChange:
    """Return an untracked file as an added one."""
    text, zeros = files.text(path), "0" * 40
    place = files.root / path
    mode = "120000" if place.is_symlink() else "100644"
    # git keeps one run bit, the owner's.
    if mode == "100644" and place.is_file() and place.stat().st_mode & 0o100:
        mode = "100755"
    lines = tuple((text or "").removesuffix("\n").split("\n")) if text else ()
    # As git shows an added file: nothing at line 0 became all of it at line 1.
    hunks = (Hunk(0, (), 1, tuple(each.removesuffix("\r") for each in lines)),) if lines else ()
    return FileChange("A", None, path, "000000", mode, zeros, zeros, None, text is None, hunks)


def _base_name(repository: Repository, which: Which, tip: str) -> tuple[str, str]:
    """Return the branch that the change is to go to, and why that one."""
    if which.base:
        return which.base, f"from where it left {which.base}, which --base names"
    branch = repository.branch
    abbreviate = ("rev-parse", "--verify", "--quiet", "--abbrev-ref", "@{upstream}")
    upstream = repository.look(*abbreviate) if branch else ""
    known = [f"origin/{each}" for each in default_branches(repository, "origin")]
    default = next((e for e in (*known, *USUAL_BRANCHES) if repository.commit_of(e)), "")
    for name, why in ((default, "the default branch"), (upstream, f"the upstream of {branch}")):
        # Nothing is ahead of a branch that holds the commit already.
        if name and repository.look("rev-list", "--count", f"{name}..{tip}", "--") != "0":
            return name, f"from where it left {name}, {why}"
    if here := default or upstream:
        return here, f"{here} has all of it"
    raise RequestError(
        "it is unclear which branch this change is to go to: there is neither an upstream nor "
        f"origin/HEAD nor a branch {', '.join(USUAL_BRANCHES)}",
        code="revision_unknown",
        hint="name it with --base, or give a range such as HEAD~1..HEAD",
    )


def _fork(repository: Repository, name: str, tip: str) -> str:
    """Return where a commit's history left that of another one."""
    # What the target branch gained since the fork is no part of the change.
    if found := repository.look("merge-base", commit_at(repository, name), tip):
        return found
    cut = "; this clone is shallow, and `git fetch --unshallow` brings the rest"
    raise RequestError(
        f"{name} and {tip[:12]} have no commit in common" + (cut if repository.is_shallow else ""),
        code="revision_unknown",
        hint="give both ends, such as A..B, to compare them all the same",
    )
