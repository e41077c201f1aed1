"""Calls of git that end with the command, and whose failure quotes git."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from scaffold.analysis.files.git import git_environment, run_git
from scaffold.errors import ScaffoldError
from scaffold.vcs.pull_request.signals import listening
from scaffold.vcs.repository import root_of

if TYPE_CHECKING:
    import git

MIN_VERSION = (2, 38)
"""The first git that merges trees without a work tree: `git merge-tree --write-tree`."""


class Answer(NamedTuple):
    """The end of a git process."""

    status: int
    output: str
    said: str


def ask_git(
    repository: git.Repo,
    *argv: str,
    env: dict[str, str] | None = None,
    given: str = "",
    patience_s: float = 0.0,
    is_apart: bool = False,
    settings: Sequence[str] = (),
) -> Answer:
    """Run git to its end; where this process is stopped, git is too.

    GitPython would let it go on, and a push that goes on cannot be taken back.

    Args:
        repository: The repository.
        argv: The command and its arguments.
        env: What its environment has beside the usual.
        given: What it reads.
        patience_s: How long git may go on once this process is stopped, so that it is known what a
            remote has.
        is_apart: Whether Ctrl-C at the terminal does not reach it; then it can ask nothing there.
        settings: Further settings of git, ``key=value``.
    """
    done = run_git(
        root_of(repository),
        *argv,
        feed=given.encode("utf-8", "surrogateescape"),
        env=git_environment(env),
        patience_s=patience_s,
        apart="group" if is_apart else "",
        waiting=listening,
        settings=settings,
    )
    text = done.stdout.decode("utf-8", "surrogateescape")
    return Answer(done.returncode, text, _clean(done.stderr.decode("utf-8", "replace")))


def call_git(
    repository: git.Repo,
    *argv: str,
    env: dict[str, str] | None = None,
    given: str = "",
    patience_s: float = 0.0,
    settings: Sequence[str] = (),
) -> str:
    """Run git as `ask_git` does, and return its output.

    Raises:
        ScaffoldError: It failed.
    """
    answer = ask_git(
        repository, *argv, env=env, given=given, patience_s=patience_s, settings=settings
    )
    if answer.status:
        raise failure(argv[0], answer)
    return answer.output


def failure(command: str, answer: Answer) -> ScaffoldError:
    """Return the error for a call that failed."""
    return ScaffoldError(
        f"git {command} failed: {answer.said or f'status {answer.status}'}",
        code="git_failed",
        hint="nothing was changed; fix what git reports, then run the command again",
    )


def _clean(stderr: str) -> str:
    """Return git's stderr as one line; the words of a remote go last."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    # git's hints are advice for people at its own command line.
    kept = [line for line in lines if not line.startswith(("hint:", "To ", "remote:"))]
    told = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    return "; ".join(each for each in (*kept, *told) if each)


def confirm_version(repository: git.Repo) -> None:
    """Check that git can merge trees without a work tree.

    Raises:
        ScaffoldError: It is too old.
    """
    found = repository.git.version_info[:2]
    if found < MIN_VERSION:
        raise ScaffoldError(
            f"git {'.'.join(map(str, found))} cannot merge without touching the work tree",
            code="git_old",
            hint=f"install git {'.'.join(map(str, MIN_VERSION))} or newer, or leave out --rewrite",
        )
