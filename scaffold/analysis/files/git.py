"""The one way to run git: nothing that a repository configures is run, and nothing is asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Literal

from scaffold.errors import ScaffoldError, TargetError

SETTINGS = (
    "core.fsmonitor=",  # empty is off for every git; otherwise it names a program
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "color.ui=false",
    "diff.autoRefreshIndex=false",
    "diff.mnemonicPrefix=false",
    "diff.noprefix=false",
    "diff.orderFile=/dev/null",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
)
"""What every call is given: no program of the repository runs, and output has one form."""

ENVIRONMENT = {
    "GIT_NO_LAZY_FETCH": "1",  # a partial clone would fetch what it lacks
    "GIT_OPTIONAL_LOCKS": "0",  # reading does not refresh the index on the disk
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
"""What every call has in its environment."""


def git_command(*argv: str, settings: Iterable[str] = ()) -> list[str]:
    """Return the command line of a call of git, with further settings ``key=value``."""
    pairs = (word for each in (*SETTINGS, *settings) for word in ("-c", each))
    return ["git", *pairs, "--no-pager", *argv]


def git_environment(
    env: Mapping[str, str] | None = None, base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of a call of git: that of this process, made safe, then ``env``."""
    return {**base, **ENVIRONMENT, **(env or {})}


def run_git(
    folder: Path,
    *argv: str,
    feed: bytes = b"",
    settings: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    patience_s: float = 0.0,
    apart: Literal["", "group", "session"] = "",
    waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end; where this process is stopped, git is too.

    Args:
        folder: Where it runs.
        argv: The command and its arguments.
        feed: What it reads.
        settings: Further settings, ``key=value``.
        env: The whole environment; without it that of `git_environment`.
        timeout_s: When it is killed.
        patience_s: How long it may go on once this process is stopped, so that it is known what a
            remote has.
        apart: "group" where Ctrl-C at the terminal does not reach it, "session" where it has no
            terminal at all, so that ssh cannot ask there either.
        waiting: A context in which this process may be stopped; between the start of git and the
            wait for it, nobody would know its number.

    Raises:
        ScaffoldError: There is no git.
        subprocess.TimeoutExpired: It took too long.
    """
    command = git_command(*argv, settings=settings)
    is_posix = os.name == "posix"
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=git_environment() if env is None else env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A process group of its own gets no SIGINT from the terminal.
            process_group=0 if apart == "group" and is_posix else None,
            start_new_session=apart == "session" and is_posix,
        )
    except OSError as error:
        raise ScaffoldError(
            f"git cannot be run: {error.strerror or error}",
            code="git_missing",
            hint="install git, or go to a folder that exists",
        ) from error
    with process:
        try:
            with waiting():
                out, err = process.communicate(feed, timeout=timeout_s)
        # KeyboardInterrupt and SystemExit too: an orphaned git would keep its locks.
        except BaseException:
            # A push that is under way may still end in time, and then its outcome is known.
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=patience_s)
            _end(process, has_group=bool(apart))
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def git_output(folder: Path, *argv: str) -> bytes | None:
    """Return what git prints; None where it fails, or there is none."""
    try:
        done = run_git(folder, *argv)
    except ScaffoldError:
        return None
    return done.stdout if done.returncode == 0 else None


def no_repository(folder: Path) -> TargetError:
    """Return the error of a command that needs git's history where there is none."""
    return TargetError(
        f"{str(folder)!r} is not in a git repository",
        code="repository_missing",
        hint="run it inside one, or name one with --target; `git init` makes one",
    )


def _end(process: subprocess.Popen[bytes], *, has_group: bool) -> None:
    """End git; of a group also what it started for the transport, which would hold its streams."""
    if has_group and sys.platform != "win32":
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
