"""Git as a source of skills: a commit is fetched and read, and never checked out.

Nothing of a repository is run: objects are read into memory, so that hooks, filters and submodules
have no part in it, and a link is only a text. Transports are limited to the one that was named.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from scaffold.analysis.files.git import git_environment, run_git
from scaffold.analysis.lazy_re import lazy_re
from scaffold.errors import ScaffoldError

TIMEOUT_S = 600
# `main`, `v1.2`, `feature/x`: no option, and no expression of git such as `HEAD~1` or `a:b`.
REVISION = lazy_re(r"[A-Za-z0-9](?:[\w.+/-]*[\w+-])?", re.ASCII)

_SETTINGS = (
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.recurseSubmodules=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
_ENVIRONMENT = {
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
# Of whoever calls, as a hook does: they would lead git to another repository.
_DROPPED = lazy_re(
    r"GIT_(ALTERNATE_OBJECT_DIRECTORIES|CONFIG|CONFIG_PARAMETERS|CONFIG_COUNT|OBJECT_DIRECTORY|DIR"
    r"|WORK_TREE|IMPLICIT_WORK_TREE|GRAFT_FILE|INDEX_FILE|REPLACE_REF_BASE|PREFIX|SHALLOW_FILE"
    r"|COMMON_DIR|NAMESPACE|TEMPLATE_DIR|ALLOW_PROTOCOL|PROTOCOL_FROM_USER|EXTERNAL_DIFF)"
)


class Blob(NamedTuple):
    """A file of a commit: git's mode and id, and its size; a submodule has none."""

    mode: str
    oid: str
    size_bytes: int


def fetch(url: str, revision: str, folder: Path) -> str:
    """Fetch one commit into a new bare repository, and return its id.

    Args:
        revision: A branch, tag or commit; "" for the remote's default branch.
        folder: Where the repository is made; it is empty.

    Raises:
        ScaffoldError: The remote cannot be reached, or has no such revision.
    """
    # A redirect must not lead from a remote to files of this machine.
    protocols = "file" if url.startswith("file:") else "https:ssh"
    # Without a template no hooks of this machine come into the repository.
    _run(["init", "--quiet", "--bare", "--template="], folder)
    wanted = ["--", url, revision or "HEAD"]
    argv = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]
    if _run([*argv, "--depth=1", *wanted], folder, protocols).returncode == 0:
        commit = _commit(folder, "FETCH_HEAD")
        if commit:
            return commit
    # A part of a commit's id, or a server that gives no single commits: then all of it.
    everything = ["--", url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
    done = _run([*argv, *everything], folder, protocols)
    if done.returncode:
        hint = "check the address and that `git ls-remote` can read it without asking"
        raise _unreachable(f"{url} cannot be fetched: {_reason(done.stderr)}", hint)
    return _known_commit(folder, revision, url)


def resolve(folder: Path, revision: str) -> str:
    """Return the id of a commit of a repository on this disk.

    Raises:
        ScaffoldError: It is no repository, or has no such revision.
    """
    done = _run(["rev-parse", "--git-dir"], folder)
    if done.returncode:
        raise ScaffoldError(
            f"{folder} has no revision {revision!r}: {_reason(done.stderr)}",
            code="revision_unknown",
            hint="leave the revision out to take the files as they are",
        )
    return _known_commit(folder, revision, str(folder))


def head_files(folder: Path) -> tuple[str, dict[str, Blob]]:
    """Return the commit that a folder's repository is at and the files of the folder in it.

    Both are empty where there is no repository, no commit or no git.
    """
    try:
        commit = _commit(folder, "HEAD")
        inside = _run(["rev-parse", "--show-prefix"], folder).stdout.decode().strip("\n")
        if not commit:
            return "", {}
        listed = list_commit(folder, f"{commit}:{inside.rstrip('/')}" if inside else commit)
    except (ScaffoldError, UnicodeDecodeError):
        return "", {}
    return (commit, listed) if listed else ("", {})


def list_commit(folder: Path, commit: str) -> dict[str, Blob]:
    """Return the files of a commit, or of a folder in it ("COMMIT:path"), by their paths.

    Raises:
        ScaffoldError: Git cannot tell all of them.
    """
    # --end-of-options: a revision that begins with a dash is no option.
    done = _run(["ls-tree", "-r", "-l", "-z", "--full-tree", "--end-of-options", commit], folder)
    if done.returncode:
        raise _unreachable(f"{folder} cannot list {commit[:12]}: {_reason(done.stderr)}")
    found: dict[str, Blob] = {}
    for row in filter(None, done.stdout.split(b"\0")):
        head, _, path = row.partition(b"\t")
        # The size of a submodule is a dash.
        mode, _, oid, size = head.decode("ascii").split()
        name = path.decode("utf-8", "surrogateescape")
        found[name] = Blob(mode, oid, int(size) if size.isdigit() else 0)
    return found


def read_blobs(folder: Path, oids: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of objects by their ids.

    Raises:
        ScaffoldError: One of them is not there.
    """
    wanted = list(dict.fromkeys(oids))
    rows = "".join(f"{oid}\n" for oid in wanted).encode()
    data = _run(["cat-file", "--batch"], folder, feed=rows).stdout
    found: dict[str, bytes] = {}
    for oid in wanted:
        head, _, data = data.partition(b"\n")
        if not head.startswith(oid.encode()) or head.endswith(b" missing"):
            raise _unreachable(f"{folder} lacks the object {oid}")
        size_bytes = int(head.split()[2])
        # A line feed follows each object.
        found[oid], data = data[:size_bytes], data[size_bytes + 1 :]
    return found


def blob_id(data: bytes, like: str) -> str:
    """Return the id that git gives to a file's bytes, in the manner of another id."""
    import hashlib

    # Repositories may use either hash; the length of an id gives it away.
    algorithm = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return algorithm(b"blob %d\0" % len(data) + data).hexdigest()


def _known_commit(folder: Path, revision: str, where: str) -> str:
    commit = _commit(folder, revision or "HEAD")
    if not commit:
        raise ScaffoldError(
            f"{where} has no revision {revision or 'HEAD'!r}",
            code="revision_unknown",
            hint="name a branch, a tag or a commit that is there, with --rev",
        )
    return commit


def _commit(folder: Path, revision: str) -> str:
    argv = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    done = _run(argv, folder)
    return done.stdout.decode("ascii").strip() if done.returncode == 0 else ""


def _run(
    argv: list[str], folder: Path, protocols: str = "none", *, feed: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run git; it asks nothing, runs nothing of a repository, and reaches what is allowed."""
    kept = {name: value for name, value in os.environ.items() if not _DROPPED.fullmatch(name)}
    asked = {**_ENVIRONMENT, "GIT_ALLOW_PROTOCOL": protocols}
    try:
        return run_git(
            folder,
            *argv,
            feed=feed,
            settings=_SETTINGS,
            env=git_environment(asked, kept),
            timeout_s=TIMEOUT_S,
            apart="session",
        )
    except subprocess.TimeoutExpired as error:
        hint = "clone the repository by hand and name the folder"
        raise _unreachable(f"git took longer than {TIMEOUT_S} s", hint) from error


def _unreachable(message: str, hint: str = "") -> ScaffoldError:
    incomplete = "the repository is a partial clone or damaged; name its remote instead"
    return ScaffoldError(message, code="source_unreachable", hint=hint or incomplete)


def _reason(stderr: bytes) -> str:
    rows = [row.strip() for row in stderr.decode("utf-8", "replace").splitlines() if row.strip()]
    told = [row for row in rows if row.startswith(("fatal:", "error:", "ssh:"))]
    return "; ".join((told or rows)[:2]) or "git gave no reason"
