"""Whether a branch is ready: each thing that has to be so, and what to do where it is not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Literal, NamedTuple

from scaffold.vcs.commit.conventional import Rules, check_message
from scaffold.vcs.pull_request.branch import (
    BranchState,
    Uncommitted,
    find_push_remote,
    find_uncommitted,
    merged_elsewhere,
)
from scaffold.vcs.repository import Repository, listed

State = Literal["ok", "warning", "failed"]
# How many paths or messages a line names before it counts the rest.
MAX_NAMED = 4


class Check(NamedTuple):
    """One check of the preflight."""

    name: str
    state: State
    said: str
    hint: str = ""


def preflight(
    repository: Repository, branch: BranchState, rules: Rules, *, is_rewrite: bool, is_push: bool
) -> tuple[Check, ...]:
    """Return all checks of a branch; nothing is asked of the network."""
    uncommitted = find_uncommitted(repository)
    return (
        _branch(branch),
        *_uncommitted(uncommitted, is_moved=is_rewrite or is_push),
        *_base(repository, branch),
        *_foreign(repository, branch),
        _messages(branch, rules, is_rewrite=is_rewrite),
        _remote(repository, branch, is_rewrite=is_rewrite, is_push=is_push),
        _gh(is_push=is_push),
    )


def _branch(branch: BranchState) -> Check:
    if branch.name == branch.base.name:
        return Check(
            "branch",
            "failed",
            f"{branch.name} is the base itself",
            "git switch -c NAME takes your commits to a branch of their own",
        )
    return Check("branch", "ok", f"{branch.name} at {branch.head[:9]}")


def _uncommitted(uncommitted: Uncommitted, *, is_moved: bool) -> Iterator[Check]:
    begun = uncommitted.unfinished
    said, how = " and ".join(what for what, _ in begun), begun[0][1] if begun else ""
    operation = Check("operation", "failed", f"{said} is half done", how)
    yield operation if begun else Check("operation", "ok", "nothing is half done")
    edited = uncommitted.edited
    if edited:
        # Wording a text harms no edited file; moving the branch or pushing it does.
        state: State = "failed" if is_moved or uncommitted.unmerged else "warning"
        said = f"{len(edited)} tracked files are not as committed: {listed(edited, MAX_NAMED)}"
        how = "commit or stash them; a pull request has commits alone"
        yield Check("tree", state, said, how)
    else:
        yield Check("tree", "ok", "all changes of tracked files are committed")
    if paths := uncommitted.untracked:
        said = f"{len(paths)} files are not tracked: {listed(paths, MAX_NAMED)}"
        yield Check("untracked", "warning", said, "add and commit what belongs to the change")
    if uncommitted.submodules:
        said = listed(uncommitted.submodules, MAX_NAMED)
        said = f"submodules have changes of their own: {said}"
        yield Check("submodules", "warning", said, "commit and push them there first")


def _base(repository: Repository, branch: BranchState) -> Iterator[Check]:
    base, place, ahead = branch.base, branch.base.place, len(branch.commits)
    if branch.merge_base is None:
        how = "name the branch that it came from with --base"
        if repository.is_shallow:
            how = f"this clone is shallow: git fetch --unshallow {base.remote or ''}".rstrip()
        yield Check("base", "failed", f"{place} and {branch.name} have no common commit", how)
        return
    if branch.head == base.commit or not ahead:
        yield Check("base", "failed", f"{place} has all of {branch.name}", "commit something")
        return
    commits = "1 commit" if ahead == 1 else f"{ahead} commits"
    if branch.behind:
        said = f"{commits} ahead of {place}, {branch.behind} behind"
        yield Check("base", "warning", said, "--rewrite puts it on top of the base")
    else:
        yield Check("base", "ok", f"{commits} ahead of {place}")
    if base.remote is None:
        yield Check("base", "warning", f"no remote has {base.name}; the local branch counts")


def _foreign(repository: Repository, branch: BranchState) -> Iterator[Check]:
    place, count = merged_elsewhere(repository, branch)
    if count:
        base = branch.base.place
        said = f"{count} of {len(branch.commits)} commits are on {place} already, and not on {base}"
        how = f"--remote {place.partition('/')[0]} makes that the base, or update {base}"
        yield Check("foreign", "failed", said, how)


def _messages(branch: BranchState, rules: Rules, *, is_rewrite: bool) -> Check:
    wrong = [each for each in branch.commits if check_message(each.message, None, rules)]
    if not wrong:
        return Check("messages", "ok", "every message has the form")
    said = f"{len(wrong)} of {len(branch.commits)} messages have not the form: "
    said += ", ".join(f"{each.name[:9]} {each.subject[:40]!r}" for each in wrong[:MAX_NAMED])
    if is_rewrite:
        return Check("messages", "ok", f"{said}; they become one")
    hint = f"scaffold commit-msg --check {(branch.merge_base or '')[:9]}..HEAD shows what is wrong"
    return Check("messages", "warning", said, hint)


def _remote(
    repository: Repository, branch: BranchState, *, is_rewrite: bool, is_push: bool
) -> Check:
    if not repository.remotes:
        state: State = "failed" if is_push else "warning"
        return Check("remote", state, "there is no remote", "git remote add origin ADDRESS")
    remote = find_push_remote(repository, branch.name, branch.base)
    ref = f"refs/remotes/{remote}/{branch.name}"
    known = repository.commit_of(ref)
    if not known:
        return Check("remote", "ok", f"{remote} has no {branch.name}, as of the last fetch")
    if known == branch.head:
        return Check("remote", "ok", f"{remote}/{branch.name} is the same")
    options = ("--left-right", "--count", f"{branch.head}...{known}")
    ahead, behind = map(int, repository.look("rev-list", *options, "--").split())
    # After a rewrite the remote's old commits are expected to be missing here.
    if behind and not is_rewrite:
        said = f"{remote}/{branch.name} has {behind} commits that are not here, and lacks {ahead}"
        return Check("remote", "warning", said, "look at them: git log HEAD..@{push}")
    return Check("remote", "ok", f"{ahead} commits ahead of {remote}/{branch.name}")


def _gh(*, is_push: bool) -> Check:
    if shutil.which("gh"):
        return Check("gh", "ok", "gh is there")
    state: State = "failed" if is_push else "warning"
    hint = "install it from https://cli.github.com, or open the pull request in a browser"
    return Check("gh", state, "gh, the command of GitHub, is not there", hint)
