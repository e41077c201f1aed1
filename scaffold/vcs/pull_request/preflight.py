"""Whether a branch is ready: each thing that has to be so, and what to do where it is not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from scaffold.vcs.commit.conventional import Rules, check_message
from scaffold.vcs.pull_request.branch import Disorder, Standing
from scaffold.vcs.repository import is_shallow

if TYPE_CHECKING:
    import git

State = Literal["ok", "warning", "failed"]
MAX_NAMED = 4


class Actions(NamedTuple):
    """The actions that are asked for, beside the text."""

    rewrite: bool = False
    push: bool = False


class Check(NamedTuple):
    """One check of the preflight."""

    name: str
    state: State
    said: str
    hint: str = ""


def preflight(
    repository: git.Repo, standing: Standing, disorder: Disorder, rules: Rules, how: Actions
) -> tuple[Check, ...]:
    """Return all checks of a branch; nothing is asked of the network."""
    return (
        _branch(standing),
        _begun(disorder),
        _tree(disorder, how),
        *_lying_about(disorder),
        *_base(repository, standing),
        _messages(standing, rules, how),
        _remote(repository, standing, how),
        _gh(how),
    )


def _branch(standing: Standing) -> Check:
    if standing.branch == standing.base.name:
        return Check(
            "branch",
            "failed",
            f"{standing.branch} is the base itself",
            "git switch -c NAME takes your commits to a branch of their own",
        )
    return Check("branch", "ok", f"{standing.branch} at {standing.head[:9]}")


def _begun(disorder: Disorder) -> Check:
    if not disorder.unfinished:
        return Check("operation", "ok", "nothing is half done")
    words = " and ".join(what for what, _ in disorder.unfinished)
    return Check("operation", "failed", f"{words} is half done", disorder.unfinished[0][1])


def _tree(disorder: Disorder, how: Actions) -> Check:
    edited = disorder.edited
    if not edited:
        return Check("tree", "ok", "all changes of tracked files are committed")
    state: State = "failed" if how.rewrite or how.push or disorder.unmerged else "warning"
    said = f"{len(edited)} tracked files are not as committed: {_named(edited)}"
    return Check("tree", state, said, "commit or stash them; a pull request has commits alone")


def _lying_about(disorder: Disorder) -> Iterator[Check]:
    if disorder.untracked:
        said = f"{len(disorder.untracked)} files are not tracked: {_named(disorder.untracked)}"
        yield Check("untracked", "warning", said, "add and commit what belongs to the change")
    if disorder.submodules:
        said = f"submodules have changes of their own: {_named(disorder.submodules)}"
        yield Check("submodules", "warning", said, "commit and push them there first")


def _base(repository: git.Repo, standing: Standing) -> Iterator[Check]:
    base, ahead = standing.base, len(standing.work)
    place = f"{base.remote}/{base.name}" if base.remote else base.name
    if standing.merge_base is None:
        how = "name the branch that it came from with --base"
        if is_shallow(repository):
            how = f"this clone is shallow: git fetch --unshallow {base.remote or ''}".rstrip()
        yield Check("base", "failed", f"{place} and {standing.branch} have no common commit", how)
        return
    if standing.head == base.commit or not ahead:
        yield Check("base", "failed", f"{place} has all of {standing.branch}", "commit something")
        return
    commits = "1 commit" if ahead == 1 else f"{ahead} commits"
    if standing.behind:
        said = f"{commits} ahead of {place}, {standing.behind} behind"
        yield Check("base", "warning", said, "--rewrite puts it on top of the base")
    else:
        yield Check("base", "ok", f"{commits} ahead of {place}")
    if base.remote is None:
        yield Check("base", "warning", f"no remote has {base.name}; the local branch counts")


def _messages(standing: Standing, rules: Rules, how: Actions) -> Check:
    wrong = [each for each in standing.work if check_message(each.message, None, rules)]
    if not wrong:
        return Check("messages", "ok", "every message has the form")
    said = f"{len(wrong)} of {len(standing.work)} messages have not the form: "
    said += ", ".join(f"{each.name[:9]} {each.subject[:40]!r}" for each in wrong[:MAX_NAMED])
    if how.rewrite:
        return Check("messages", "ok", f"{said}; they become one")
    hint = (
        f"scaffold commit-msg --check {(standing.merge_base or '')[:9]}..HEAD tells what is wrong"
    )
    return Check("messages", "warning", said, hint)


def _remote(repository: git.Repo, standing: Standing, how: Actions) -> Check:
    if not repository.remotes:
        state: State = "failed" if how.push else "warning"
        return Check("remote", state, "there is no remote", "git remote add origin ADDRESS")
    remote = standing.base.remote or repository.remotes[0].name
    ref = f"refs/remotes/{remote}/{standing.branch}"
    known: str = repository.git.rev_parse("--verify", "--quiet", ref, with_exceptions=False)
    if not known:
        return Check("remote", "ok", f"{remote} has no {standing.branch}, as of the last fetch")
    if known == standing.head:
        return Check("remote", "ok", f"{remote}/{standing.branch} is the same")
    counts: str = repository.git.rev_list(
        "--left-right", "--count", f"{standing.head}...{known}", "--"
    )
    ahead, behind = map(int, counts.split())
    if behind and not how.rewrite:
        said = (
            f"{remote}/{standing.branch} has {behind} commits that are not here, and lacks {ahead}"
        )
        return Check("remote", "warning", said, "look at them: git log HEAD..@{push}")
    return Check("remote", "ok", f"{ahead} commits ahead of {remote}/{standing.branch}")


def _gh(how: Actions) -> Check:
    if shutil.which("gh"):
        return Check("gh", "ok", "gh is there")
    state: State = "failed" if how.push else "warning"
    hint = "install it from https://cli.github.com, or open the pull request in a browser"
    return Check("gh", state, "gh, the command of GitHub, is not there", hint)


def _named(paths: tuple[str, ...]) -> str:
    shown = ", ".join(paths[:MAX_NAMED])
    return shown + (f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else "")
