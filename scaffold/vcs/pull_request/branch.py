"""The state of a branch, its base and its files, and whether it is ready for a pull request."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from scaffold.errors import RequestError, nearest
from scaffold.vcs.commit.conventional import Header, Rules, check_message, read_header
from scaffold.vcs.repository import USUAL_BRANCHES, Repository, default_branches, listed

# What git leaves in its folder during an operation, what that is, and how it ends.
_UNFINISHED = {
    "MERGE_HEAD": ("a merge", "git merge --continue, or --abort"),
    "CHERRY_PICK_HEAD": ("a cherry-pick", "git cherry-pick --continue, or --abort"),
    "REVERT_HEAD": ("a revert", "git revert --continue, or --abort"),
    "rebase-merge": ("a rebase", "git rebase --continue, or --abort"),
    "rebase-apply": ("a rebase or `git am`", "git rebase --continue, or git am --abort"),
    "BISECT_LOG": ("a bisection", "git bisect reset"),
}

State = Literal["ok", "warning", "failed"]
# How many paths or messages a line names before it counts the rest.
MAX_NAMED = 4


class Base(NamedTuple):
    """The branch that a pull request goes into.

    Where no remote has it, the local branch counts.
    """

    name: str
    remote: str | None
    ref: str
    commit: str

    @property
    def place(self) -> str:
        """The branch as people call it, such as "origin/main"."""
        return f"{self.remote}/{self.name}" if self.remote else self.name


class BranchCommit(NamedTuple):
    """One commit of the branch that the base lacks."""

    name: str
    author: str
    date: str
    message: str

    @property
    def subject(self) -> str:
        return self.message.strip().partition("\n")[0].strip()

    @property
    def header(self) -> Header | None:
        return read_header(self.subject)


@dataclass(frozen=True)
class Uncommitted:
    """The uncommitted files of the work tree.

    Args:
        unstaged: Tracked files with changes that are not staged.
        untracked: Files that git neither tracks nor ignores.
        unfinished: What was begun and not ended, with the way on.
    """

    staged: tuple[str, ...] = ()
    unstaged: tuple[str, ...] = ()
    unmerged: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    submodules: tuple[str, ...] = ()
    unfinished: tuple[tuple[str, str], ...] = ()

    @property
    def edited(self) -> tuple[str, ...]:
        """Tracked files that are not as they were committed."""
        return tuple(dict.fromkeys((*self.unmerged, *self.staged, *self.unstaged)))


@dataclass(frozen=True)
class BranchState:
    """A branch compared with its base.

    Args:
        merge_base: The newest commit that both have; None for unrelated histories.
        commits: What the base lacks, the oldest first, without merges.
        behind: How many commits of the base the branch lacks.
    """

    name: str
    head: str
    base: Base
    merge_base: str | None
    commits: tuple[BranchCommit, ...]
    behind: int


def find_branch(repository: Repository, base: Base) -> BranchState:
    """Compare the branch that is checked out with a base.

    Raises:
        RequestError: No branch is checked out, or it has no commit.
    """
    name, head = repository.branch, repository.head or ""
    if name is None:
        raise RequestError(
            f"no branch is checked out: HEAD is detached at {head[:9]}",
            code="branch_missing",
            hint="make a branch of it: git switch -c NAME",
        )
    # Nothing for unrelated histories.
    merge_base = repository.look("merge-base", base.commit, head) or None
    form = "--format=%H%n%an <%ae>%n%aI%n%B"
    span = ("--reverse", "--no-merges", f"{base.commit}..{head}", "--")
    rows = repository.read("log", "-z", "--no-show-signature", form, *span).split(b"\0")
    commits = (each.decode("utf-8", "replace").split("\n", 3) for each in rows if each)
    behind = repository.look("rev-list", "--count", f"{head}..{base.commit}", "--")
    return BranchState(
        name, head, base, merge_base, tuple(BranchCommit(*each) for each in commits), int(behind)
    )


def find_base(repository: Repository, name: str | None, remote: str | None) -> Base:
    """Return the branch that a pull request goes into, as it was last fetched.

    Args:
        name: What was asked for; None takes the remote's own branch, or a usual one.
        remote: The remote that was asked for; None takes origin, or the only one.

    Raises:
        RequestError: There is no such branch, remote or commit.
    """
    if repository.head is None:
        raise RequestError(
            "the repository has no commit yet",
            code="branch_missing",
            hint="commit something on a branch of its own first",
        )
    chosen = find_remote(repository, remote)
    # `--base origin/main` means the branch main of origin.
    if name is not None and chosen and name.startswith(f"{chosen}/"):
        name = name.removeprefix(f"{chosen}/")
    for each in [name] if name is not None else default_branches(repository, chosen):
        refs = [f"refs/remotes/{chosen}/{each}"] if chosen else []
        for ref in (*refs, f"refs/heads/{each}"):
            found = repository.commit_of(ref)
            if found:
                return Base(each, chosen if "/remotes/" in ref else None, ref, found)
    if name is None:
        raise RequestError(
            f"no branch to go into was found: none of {', '.join(USUAL_BRANCHES)} is there",
            code="base_unknown",
            hint="name it with --base",
        )
    places = ["refs/heads/"] + ([f"refs/remotes/{chosen}/"] if chosen else [])
    rows = repository.look("for-each-ref", "--format=%(refname)", *places).split("\n")
    known = [row.removeprefix(place) for place in places for row in rows if row.startswith(place)]
    where = f" of {chosen}" if chosen else ""
    raise RequestError(
        f"there is no branch {name!r}{where}{nearest(name, known)}",
        code="base_unknown",
        hint=f"`git fetch {chosen}` brings what is new there" if chosen else "see `git branch`",
    )


def find_remote(repository: Repository, name: str | None) -> str | None:
    """Return the remote that counts; None where there is none.

    Raises:
        RequestError: There is none of that name, or there are several and nothing chooses.
    """
    known = repository.remotes
    # `gh repo set-default` remembers its answer so.
    chosen = [
        each for each in known if repository.look("config", "--get", f"remote.{each}.gh-resolved")
    ]
    if name is not None:
        if name not in known:
            raise RequestError(
                f"there is no remote {name!r}{nearest(name, known)}",
                code="remote_unknown",
                hint="see `git remote -v`",
            )
        return name
    if chosen:
        return chosen[0]
    if "origin" in known or len(known) < 2:
        return "origin" if "origin" in known else (*known, None)[0]
    raise RequestError(
        f"there are {len(known)} remotes, and none is called origin: {', '.join(known)}",
        code="remote_unknown",
        hint="name one with --remote",
    )


def find_push_remote(repository: Repository, branch: str, base: Base) -> str | None:
    """Return the remote that git pushes a branch to; None where there is no remote."""
    keys = [f"branch.{branch}.pushRemote", "remote.pushDefault"]
    # A branch that began at another one, such as upstream/main, is not pushed there.
    if repository.look("config", "--get", f"branch.{branch}.merge") == f"refs/heads/{branch}":
        keys.append(f"branch.{branch}.remote")
    for key in keys:
        name = repository.look("config", "--get", key)
        # A dot is this repository itself.
        if name and name != ".":
            return name
    known = repository.remotes
    return "origin" if "origin" in known else base.remote or (*known, None)[0]


def merged_elsewhere(repository: Repository, branch: BranchState) -> tuple[str, int]:
    """Return another remote's default branch that has commits of a branch, and how many.

    A branch of a fork whose base is behind seems to hold what others committed upstream.
    """
    found = ("", 0)
    for remote in repository.remotes:
        for name in default_branches(repository, remote) if remote != branch.base.remote else ():
            common = repository.look("merge-base", f"refs/remotes/{remote}/{name}", branch.head)
            if common:
                span = f"{branch.base.commit}..{common}"
                count = int(repository.look("rev-list", "--count", "--no-merges", span, "--"))
                found = max(found, (f"{remote}/{name}", count), key=lambda each: each[1])
    return found


def find_uncommitted(repository: Repository) -> Uncommitted:
    """Return the uncommitted files, and git's unfinished work; the index is not refreshed."""
    # Renames would add a second path to a record, which the reader below does not expect.
    options = ("--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=none")
    output = repository.read("status", "--no-renames", *options)
    found: dict[str, list[str]] = {}
    for row in output.decode("utf-8", "surrogateescape").split("\0"):
        for kind, path in _status_of(row):
            found.setdefault(kind, []).append(path)
    begun = [said for name, said in _UNFINISHED.items() if (repository.folder / name).exists()]
    files = {kind: tuple(paths) for kind, paths in found.items()}
    return Uncommitted(**files, unfinished=tuple(dict.fromkeys(begun)))


def _status_of(row: str) -> list[tuple[str, str]]:
    """Return one record of git's status as pairs of a field of Uncommitted and a path."""
    kind, _, rest = row.partition(" ")
    if kind == "?":
        return [("untracked", rest)]
    if kind == "u":
        # Porcelain v2: nine fields precede an unmerged path, seven a plain one.
        return [("unmerged", rest.split(" ", 9)[9])]
    if kind != "1":
        return []
    states, submodule, path = rest[:2], rest[3:7], rest.split(" ", 7)[7]
    # The first letter is the index, the second the work tree; a dot means unchanged.
    found = [("staged", path)] if states[0] != "." else []
    if states[1] != ".":
        # "SC.." is another commit of the submodule, which is an ordinary edit here.
        is_inside = submodule[0] == "S" and submodule[1] == "."
        found.append(("submodules" if is_inside else "unstaged", path))
    return found


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
