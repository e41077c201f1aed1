"""A git repository, opened so that nothing it configures is run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from scaffold.analysis.files.git import ENVIRONMENT, SETTINGS
from scaffold.errors import RequestError, ScaffoldError, TargetError

if TYPE_CHECKING:
    import git


def open_repository(folder: Path) -> git.Repo:
    """Open the repository that a folder lies in; the caller closes it.

    Its ``git`` runs neither hooks nor a file-system monitor, asks nothing and fetches nothing.

    Args:
        folder: The folder, which need not be the top one.

    Raises:
        ScaffoldError: There is no git.
        TargetError: The folder is missing, in no repository, in a bare one, or in one that belongs
            to somebody else.
    """
    try:
        # GitPython looks for git when it is imported, and would print and raise without one.
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
        import git
    except ImportError as error:  # raised where there is no git
        raise _without_git() from error
    try:
        repository = git.Repo(folder, search_parent_directories=True)
    except git.NoSuchPathError as error:
        raise TargetError(
            f"there is no folder {str(folder)!r}", code="target_missing", hint="name one that is"
        ) from error
    except git.InvalidGitRepositoryError as error:
        raise TargetError(
            f"{str(folder)!r} lies in no git repository",
            code="repository_missing",
            hint="run it inside of one, or name it with --target; `git init` makes one",
        ) from error
    repository.git.set_persistent_git_options(c=list(SETTINGS))
    repository.git.update_environment(**ENVIRONMENT)
    _confirm(repository, folder)
    return repository


def root_of(repository: git.Repo) -> Path:
    """Return the top folder of a repository's files."""
    top = repository.working_tree_dir
    assert top is not None, "open_repository refuses bare ones"
    return Path(top)


def commit_at(repository: git.Repo, revision: str) -> git.Commit:
    """Return the commit that a revision names.

    Raises:
        RequestError: There is none of that name; a shallow clone may lack it.
    """
    import git

    try:
        # GitPython follows `HEAD~1` to a commit that a shallow clone does not have.
        name = repository.git.rev_parse(
            "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
        )
        return repository.commit(name)
    except (ValueError, IndexError, git.BadName, git.GitCommandError) as error:
        how = "see `git log --oneline` and `git branch --all`"
        if is_shallow(repository):
            how = "this clone is shallow; `git fetch --unshallow` brings the rest of its history"
        raise RequestError(
            f"there is no commit {revision!r} in this repository",
            code="revision_unknown",
            hint=how,
        ) from error


def is_shallow(repository: git.Repo) -> bool:
    """Return whether the history was cut when the repository was cloned."""
    return (Path(repository.common_dir) / "shallow").is_file()


def is_empty(repository: git.Repo) -> bool:
    """Return whether the current branch has no commit yet."""
    return not repository.head.is_valid()


def _confirm(repository: git.Repo, folder: Path) -> None:
    """Check that git accepts the repository, which GitPython does not test."""
    import git

    if repository.bare:
        raise TargetError(
            f"{str(folder)!r} is a bare repository, which has no files",
            code="repository_missing",
            hint="clone it, and run the command in the clone",
        )
    try:
        names = repository.git.rev_parse("--show-object-format")
    except git.GitCommandNotFound as error:
        raise _without_git() from error
    except git.GitCommandError as error:
        said = str(error.stderr).strip().removeprefix("stderr:").strip(" \n'")
        raise TargetError(
            f"git refuses the repository of {str(folder)!r}: {said}",
            code="repository_missing",
            hint="fix what git names, then run the command again",
        ) from error
    if names != "sha1":
        raise TargetError(
            f"the repository names its objects by {names}, which this tool cannot read",
            code="repository_missing",
            hint="run the command in a clone with SHA-1 names",
        )


def _without_git() -> ScaffoldError:
    return ScaffoldError(
        "git was not found", code="git_missing", hint="install git, or put it on PATH"
    )
