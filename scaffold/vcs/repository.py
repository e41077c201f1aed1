"""A git repository, opened so that nothing it configures is run, and the calls of git in it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from scaffold.analysis.files.git import git_environment, no_repository, run_git
from scaffold.analysis.files.revision import Objects
from scaffold.errors import RequestError, ScaffoldError, TargetError
from scaffold.vcs.signals import listening

USUAL_BRANCHES = ("main", "master", "trunk", "develop")


class Answer(NamedTuple):
    """The end of a git process: its status, its output, and its stderr as one line."""

    status: int
    output: str
    said: str


class Repository(AbstractContextManager["Repository"]):
    """A repository with a work tree.

    Its git runs neither hooks nor a file-system monitor, asks nothing and fetches nothing. Each
    call ends with this process, or where a signal stops it.

    Args:
        folder: Git's own folder; of a further work tree, that of this one.
        common: The folder that all its work trees share.
    """

    def __init__(self, root: Path, folder: Path, common: Path) -> None:
        self.root = root
        self.folder = folder
        self.common = common
        self._objects = Objects(root)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._objects.close()

    def ask(
        self,
        *argv: str,
        env: dict[str, str] | None = None,
        given: str = "",
        patience_s: float = 0.0,
        is_apart: bool = False,
        settings: Sequence[str] = (),
    ) -> Answer:
        """Run git to its end; where this process is stopped, git is too.

        Args:
            patience_s: How long git may go on once this process is stopped, so that it is known
                what a remote has.
            is_apart: Whether Ctrl-C at the terminal does not reach it; then it can ask nothing
                there.
        """
        done = run_git(
            self.root,
            *argv,
            feed=given.encode("utf-8", "surrogateescape"),
            env=git_environment(env),
            patience_s=patience_s,
            apart="group" if is_apart else "",
            waiting=listening,
            settings=settings,
        )
        text = done.stdout.decode("utf-8", "surrogateescape")
        return Answer(done.returncode, text, _one_line(done.stderr))

    def call(
        self,
        *argv: str,
        env: dict[str, str] | None = None,
        given: str = "",
        patience_s: float = 0.0,
        settings: Sequence[str] = (),
    ) -> str:
        """Run git as `ask` does, and return its output.

        Raises:
            ScaffoldError: It failed.
        """
        answer = self.ask(*argv, env=env, given=given, patience_s=patience_s, settings=settings)
        if answer.status:
            raise failure(argv[0], answer)
        return answer.output

    def look(self, *argv: str) -> str:
        """Return what git prints, without blanks around it; "" where it fails."""
        answer = self.ask(*argv)
        return "" if answer.status else answer.output.strip()

    def read(self, *argv: str) -> bytes:
        """Return what git prints of the history or the files.

        Raises:
            TargetError: It cannot read them.
        """
        done = run_git(self.root, *argv, waiting=listening)
        if done.returncode:
            raise TargetError(
                f"git cannot read the repository of {str(self.root)!r}: {_one_line(done.stderr)}",
                code="repository_missing",
                hint="`git fsck` shows what it lacks; a fresh clone has all of it",
            )
        return done.stdout

    def object(self, name: str) -> bytes | None:
        """Return the content of an object; None where it is missing, as in a partial clone."""
        return self._objects.read(name)

    def commit_of(self, ref: str) -> str | None:
        """Return the commit that a ref names; None where there is none."""
        return self.look("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") or None

    @property
    def head(self) -> str | None:
        """The newest commit; None where the current branch has no commit yet."""
        return self.commit_of("HEAD")

    @property
    def branch(self) -> str | None:
        """The branch that is checked out; None where HEAD is detached."""
        return self.look("symbolic-ref", "--quiet", "HEAD").removeprefix("refs/heads/") or None

    @property
    def is_shallow(self) -> bool:
        """Whether the history was cut when the repository was cloned."""
        return (self.common / "shallow").is_file()

    @cached_property
    def remotes(self) -> tuple[str, ...]:
        return tuple(self.look("remote").split())


def open_repository(folder: Path) -> Repository:
    """Open the repository that a folder lies in; the caller closes it.

    Args:
        folder: The folder, which need not be the top one.

    Raises:
        ScaffoldError: There is no git.
        TargetError: The folder is missing, in no repository, in a bare one, or in one that belongs
            to somebody else.
    """
    if not folder.is_dir():
        raise TargetError(
            f"there is no folder {str(folder)!r}", code="target_missing", hint="name one that is"
        )
    asked = ("--show-object-format", "--is-bare-repository", "--git-dir", "--git-common-dir")
    done = run_git(folder, "rev-parse", *asked)
    said = _one_line(done.stderr)
    if "not a git repository" in said:
        raise no_repository(folder)
    rows = done.stdout.decode("utf-8", "surrogateescape").splitlines()
    if rows[1:2] == ["true"]:
        raise _unusable(
            f"{str(folder)!r} is a bare repository, which has no files",
            "clone it, and run the command in the clone",
        )
    top = run_git(folder, "rev-parse", "--show-toplevel")
    if done.returncode or top.returncode:
        raise _unusable(
            f"git refuses the repository of {str(folder)!r}: {said or _one_line(top.stderr)}",
            "fix what git names, then run the command again",
        )
    if rows[0] != "sha1":
        raise _unusable(
            f"the repository names its objects by {rows[0]}, which this tool cannot read",
            "run the command in a clone with SHA-1 names",
        )
    root = Path(top.stdout.decode("utf-8", "surrogateescape").removesuffix("\n"))
    return Repository(root, folder / rows[2], folder / rows[3])


def commit_at(repository: Repository, revision: str) -> str:
    """Return the commit that a revision names.

    Raises:
        RequestError: There is none of that name; a shallow clone may lack it.
    """
    options = ("--verify", "--quiet", "--end-of-options")
    name = repository.look("rev-parse", *options, f"{revision}^{{commit}}")
    if name:
        return name
    how = "see `git log --oneline` and `git branch --all`"
    if repository.is_shallow:
        how = "this clone is shallow; `git fetch --unshallow` brings the rest of its history"
    raise RequestError(
        f"there is no commit {revision!r} in this repository", code="revision_unknown", hint=how
    )


def default_branches(repository: Repository, remote: str | None) -> list[str]:
    """Return what the branch that others build on may be called, the remote's own word first."""
    # refs/remotes/<remote>/HEAD is set at cloning and may be missing.
    head = repository.look("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD")
    own = [head.removeprefix(f"refs/remotes/{remote}/")] if head else []
    return list(dict.fromkeys((*own, *USUAL_BRANCHES)))


def listed(names: Sequence[str], most: int) -> str:
    """Return names as part of a sentence: the first ones, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def failure(command: str, answer: Answer) -> ScaffoldError:
    return ScaffoldError(
        f"git {command} failed: {answer.said or f'status {answer.status}'}",
        code="git_failed",
        hint="nothing was changed; fix what git reports, then run the command again",
    )


def _unusable(message: str, hint: str) -> TargetError:
    return TargetError(message, code="repository_missing", hint=hint)


def _one_line(stderr: bytes) -> str:
    """Return git's stderr as one line; the words of a remote go last."""
    rows = stderr.decode("utf-8", "replace").splitlines()
    lines = [line.strip() for line in rows if line.strip()]
    # git's hints are advice for people at its own command line.
    kept = [line for line in lines if not line.startswith(("hint:", "To ", "remote:"))]
    told = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    return "; ".join(each for each in (*kept, *told) if each)
