"""The remote: what it has, fetching without moving a ref, and pushing with a lease."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from scaffold.errors import ScaffoldError
from scaffold.vcs.repository import Repository

PATIENCE_S = 20.0
"""How long a push may go on once the command is stopped; what it did is taken back then."""


class Push(NamedTuple):
    """A push that is about to be made.

    Args:
        old: What it points to now; None where it is not there.
        lost: Commits that only the remote's branch has: name and subject.
        hooks: The folder of the hooks that git runs, `pre-push` among them; None runs none.
    """

    remote: str
    branch: str
    old: str | None
    new: str
    lost: tuple[str, ...]
    hooks: str | None = None

    @property
    def place(self) -> str:
        """The remote's branch as people call it."""
        return f"{self.remote}/{self.branch}"


def remote_commit(repository: Repository, remote: str, ref: str) -> str | None:
    """Return the commit of a ref of a remote; None where it has no such ref.

    Raises:
        ScaffoldError: It cannot be reached.
    """
    # ls-remote matches by the end of a ref, so other refs may come along.
    rows = repository.call("ls-remote", "--", remote, ref).splitlines()
    return next((row.split("\t")[0] for row in rows if row.split("\t")[1] == ref), None)


def fetch_commit(repository: Repository, remote: str, ref: str) -> str:
    """Fetch the commits of a ref of a remote, or of an address; no ref here is moved.

    Raises:
        ScaffoldError: The remote cannot be reached, or has no such ref.
    """
    found = remote_commit(repository, remote, ref)
    if found is None:
        raise ScaffoldError(
            f"{remote} has no {ref.removeprefix('refs/heads/')!r}",
            code="base_unknown",
            hint="name another one with --base",
        )
    # Each option takes away a side effect; an empty --refmap keeps tracking refs.
    options = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-prune")
    options += ("--no-auto-maintenance", "--refmap=")
    repository.call("fetch", *options, "--", remote, ref)
    return found


def plan_push(repository: Repository, remote: str, branch: str, new: str, seen: str | None) -> Push:
    """Return what a push would do to the remote's branch as it is now.

    Args:
        seen: What the remote's branch was when it was last fetched; None for no such branch.

    Raises:
        ScaffoldError: It has moved since, so there is something that nobody here has seen.
    """
    old = remote_commit(repository, remote, f"refs/heads/{branch}")
    if old is not None and old not in (seen, new):
        raise ScaffoldError(
            f"{remote}/{branch} has moved to {old[:9]} since it was last fetched",
            code="remote_moved",
            hint=f"git fetch {remote}, look at what is new there, and run the command again",
        )
    # Nothing is lost where there is no branch, or where it has the commit already.
    if old is None or old == new:
        return Push(remote, branch, old, new, ())
    lost = repository.call("log", "--format=%h %s", f"{new}..{old}", "--").splitlines()
    return Push(remote, branch, old, new, tuple(lost))


def push(repository: Repository, work: Push) -> None:
    """Push; the remote takes it only while its branch is what was planned with.

    Raises:
        ScaffoldError: The remote refused, or cannot be reached.
    """
    ref = f"refs/heads/{work.branch}"
    # An empty expectation means that the ref must not exist yet.
    lease = f"--force-with-lease={ref}:{work.old or ''}"
    # Tags and submodules are not asked for, and could not be taken back.
    argv = ["push", "--porcelain", "--no-follow-tags", "--recurse-submodules=check"]
    hooks = work.hooks
    argv += ["--verify" if hooks else "--no-verify", lease, "--", work.remote, f"{work.new}:{ref}"]
    settings = [f"core.hooksPath={hooks}"] if hooks else []
    repository.call(*argv, patience_s=PATIENCE_S, settings=settings)


def take_back(repository: Repository, work: Push) -> bool:
    """Reset the remote's branch to its commit before a push; return whether that worked."""
    try:
        # A hook that refuses must not keep a push from being taken back.
        push(repository, work._replace(old=work.new, new=work.old or "", hooks=None))
    except ScaffoldError:
        return False
    return True


def hooks_folder(repository: Repository) -> str:
    """Return where git looks for the hooks of a repository."""
    # Not by asking git, whose every call here is given a folder without hooks.
    rows = repository.look("config", "--show-scope", "--get-all", "core.hooksPath").split("\n")
    pairs = (row.partition("\t") for row in rows)
    own = [path for scope, _, path in pairs if path and scope != "command"]
    if own:
        return str(repository.root / Path(own[-1]).expanduser())
    return str(repository.common / "hooks")
