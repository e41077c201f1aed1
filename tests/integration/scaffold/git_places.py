"""Repositories for the commands around git: made by git itself, with nobody's settings."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
ENV = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "PYTHONPATH": str(ROOT),
    "LC_ALL": "C",
}


def git(folder: Path, *argv: str, ok: bool = True, **env: str) -> str:
    """Runs git and returns what it printed; it has to end well unless told otherwise."""
    done = subprocess.run(
        ["git", *argv], cwd=folder, env={**ENV, **env}, capture_output=True, check=False
    )
    assert not ok or done.returncode == 0, done.stderr
    return done.stdout.decode("utf-8", "surrogateescape").strip("\n")


def commit(folder: Path, message: str, files: dict[str, str | bytes | None], **env: str) -> str:
    """Writes files (None deletes one), commits them all and returns the commit's name."""
    for path, content in files.items():
        place = folder / path
        if content is None:
            place.unlink()
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "--no-verify", "-m", message, **env)
    return git(folder, "rev-parse", "HEAD")


def make_repository(folder: Path) -> Path:
    """Makes an empty repository whose branch is main."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    return folder


def everything(folder: Path, *, with_refs: bool = True) -> dict[str, str]:
    """Returns what a command could have changed: files, HEAD, refs, the index and the stash."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        shown = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[shown] = f"link {os.readlink(path)}"
        elif path.is_dir():
            if not shown.startswith(".git"):
                found[shown] = "folder"
        elif not shown.startswith(".git/") or shown in (".git/HEAD", ".git/index", ".git/config"):
            data = hashlib.sha256(path.read_bytes()).hexdigest()
            found[shown] = f"{path.lstat().st_mode & 0o777:o} {data}"
    found["status"] = git(folder, "status", "--porcelain=v2", "--branch", "--ignored")
    found["entries"] = git(folder, "ls-files", "--stage", "-v") if with_refs else ""
    found["refs"] = git(folder, "for-each-ref") if with_refs else ""
    found["stash"] = git(folder, "stash", "list")
    return found


def whole_tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Returns every file of a folder, git's own too, with its time and a digest."""
    return {
        path.relative_to(folder).as_posix(): (
            path.lstat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def make_gh(folder: Path, *, prs: object = (), fails: str = "") -> Path:
    """Writes a stand-in for gh that records how it is called, and returns its folder.

    Args:
        folder: Where it goes; the calls are written to `calls.jsonl` beside it.
        prs: What `gh pr list` answers.
        fails: The first words of the call that ends with status 1, such as "pr create".
    """
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "gh"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, sys, pathlib\n"
        "argv = sys.argv[1:]\n"
        "bodies = [pathlib.Path(argv[at + 1]).read_text() for at, each in enumerate(argv)"
        " if each == '--body-file']\n"
        f"with open({str(folder / 'calls.jsonl')!r}, 'a') as file:\n"
        "    print(json.dumps({'argv': argv, 'bodies': bodies}), file=file)\n"
        f"if {fails!r} and ' '.join(argv).startswith({fails!r}):\n"
        "    sys.exit('gh: the server said no')\n"
        f"if argv[:2] == ['pr', 'list']:\n    print({json.dumps(prs)!r})\n"
        "if argv[:2] == ['pr', 'create']:\n    print('https://example.org/pull/7')\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    return folder


def gh_calls(folder: Path) -> list[dict[str, list[str]]]:
    """Returns how the stand-in was called."""
    path = folder / "calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
