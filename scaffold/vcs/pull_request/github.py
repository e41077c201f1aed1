"""GitHub's own command `gh`: whether it is logged in, and a pull request opened or renewed."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from scaffold.analysis.process import run_text
from scaffold.errors import ScaffoldError
from scaffold.vcs.signals import listening

TIMEOUT_S = 120.0
_FIELDS = "number,url,body,headRepositoryOwner"
# `git@github.com:owner/name.git`, `https://github.com/owner/name`.
_ADDRESS = re.compile(r"[/:](?P<owner>[^/:]+)/(?P<name>[^/:]+?)(\.git)?/?$")


class Request(NamedTuple):
    """A pull request that is open."""

    number: int
    url: str
    body: str


class Fork(NamedTuple):
    """Where a request goes and whose branch it is, if those are two repositories."""

    base: str | None = None
    """OWNER/NAME; None where gh is to find out."""
    owner: str | None = None

    def options(self) -> list[str]:
        """Return the options of gh that name the repository."""
        return ["--repo", self.base] if self.base else []


def fork_of(base: str, pushed_to: str) -> Fork:
    """Return what the addresses of two remotes name."""
    there, own = _ADDRESS.search(base), _ADDRESS.search(pushed_to)
    if there is None or own is None:
        return Fork()
    return Fork(f"{there['owner']}/{there['name']}", own["owner"])


def confirm_login(root: Path) -> None:
    """Check that gh is logged in.

    Raises:
        ScaffoldError: It is not.
    """
    done = _run(root, "auth", "status")
    if done.returncode:
        raise _failed(f"gh is not logged in: {_said(done)}", "run: gh auth login")


def open_request(root: Path, branch: str, fork: Fork) -> Request | None:
    """Return the open pull request of a branch; None where there is none."""
    argv = ["pr", "list", "--head", branch, "--state", "open", "--json", _FIELDS]
    output = _call(root, *argv, *fork.options())
    with _reading("gh pr list", "a list", output):
        rows = cast("list[dict[str, Any]]", json.loads(output or "[]"))
        # gh finds branches by name alone, in every fork.
        if fork.owner:
            rows = [row for row in rows if row["headRepositoryOwner"]["login"] == fork.owner]
        if not rows:
            return None
        row = rows[0]
        return Request(int(row["number"]), str(row["url"]), str(row.get("body", "")))


def read_request(root: Path, number: int) -> tuple[str, str]:
    """Return the address of the repository of a pull request, and the branch that it goes into.

    Raises:
        ScaffoldError: gh fails, or there is none of that number.
    """
    output = _call(root, "pr", "view", str(number), "--json", "url,baseRefName")
    with _reading("gh pr view", "a pull request", output):
        row = cast("dict[str, Any]", json.loads(output))
        return str(row["url"]).partition("/pull/")[0], str(row["baseRefName"])


@contextmanager
def _reading(command: str, wanted: str, output: str) -> Generator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        said = f"{command} answered something else than {wanted}: {output[:80]!r}"
        raise _failed(said, "see `gh --version`; a newer one may be needed") from error


def create_request(
    root: Path, branch: str, base: str, title: str, body: str, fork: Fork, *, is_draft: bool
) -> str:
    # A body on the command line has a limit, and would be seen in the list of processes.
    with _file(body) as path:
        head = f"{fork.owner}:{branch}" if fork.owner else branch
        argv = ["pr", "create", *fork.options(), "--head", head, "--base", base, "--title", title]
        draft = ["--draft"] if is_draft else []
        output = _call(root, *argv, "--body-file", path, *draft)
    # gh prints the address last, behind its lines about the push.
    return output.strip().splitlines()[-1] if output.strip() else ""


def edit_request(
    root: Path, number: int, fork: Fork, *, base: str, title: str | None, body: str | None
) -> None:
    """Update an open pull request; a value of None stays as it is there."""
    with _file(body or "") as path:
        argv = ["pr", "edit", str(number), *fork.options(), "--base", base]
        # gh changes only what it is given.
        argv += ["--title", title] if title is not None else []
        argv += ["--body-file", path] if body is not None else []
        _call(root, *argv)


@contextmanager
def _file(text: str) -> Generator[str]:
    """Keep a text in a temporary file while another program reads it."""
    with tempfile.TemporaryDirectory(prefix="scaffold-pr-") as folder:
        path = Path(folder) / "body.md"
        path.write_text(text, encoding="utf-8")
        yield str(path)


def _call(root: Path, *argv: str) -> str:
    done = _run(root, *argv)
    if done.returncode:
        said = f"gh {argv[0]} {argv[1]} failed: {_said(done)}"
        raise _failed(said, "fix what gh names, then run the command again")
    return done.stdout


def _run(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    # gh asks questions on a terminal, and nobody sees them here.
    env = {"GH_PROMPT_DISABLED": "1", "NO_COLOR": "1", "GH_NO_UPDATE_NOTIFIER": "1"}
    try:
        with listening():
            return run_text(["gh", *argv], root, TIMEOUT_S, **env)
    except (OSError, subprocess.TimeoutExpired) as error:
        said = f"gh {argv[0]} {argv[1]} came to no end: {error}"
        raise _failed(said, "see whether `gh auth status` answers") from error


def _failed(message: str, hint: str) -> ScaffoldError:
    return ScaffoldError(message, code="gh_failed", hint=hint)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    text = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return "; ".join(line.strip() for line in text[:3]) or f"status {done.returncode}"
