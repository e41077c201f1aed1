"""What the tests of clients share: the source set, and a machine without network or accounts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import yaml

from tests.integration.clients.install import NODE_BIN, NPM_BIN, PYTHON_BIN

ROOT = Path(__file__).parents[3]

AGENT_FILES = (
    ".agents", ".agnix.toml", ".claude", ".claude-plugin", ".codex", ".opencode",
    "AGENTS.md", "CLAUDE.md", "opencode.json",
)  # fmt: skip
"""What clients read of a repository, as far as it is there."""

PLUGIN = "areal-scaffold"
"""The name of the pack as a plugin, and of the marketplace that offers it."""

NOWHERE = "http://127.0.0.1:9"
"""An address at which nothing listens: a client that asks for the network fails at once."""


class Entry(NamedTuple):
    """Is a skill or a subagent of the source: what it is for, and what it says."""

    description: str
    body: str


def source_skills(root: Path) -> dict[str, Entry]:
    """Returns the skills of the source by their names."""
    return {path.parent.name: _entry(path) for path in root.glob(".agents/skills/*/SKILL.md")}


def source_agents(root: Path) -> dict[str, Entry]:
    """Returns the subagents of the source by their names."""
    return {path.stem: _entry(path) for path in root.glob(".agents/agents/*.md")}


def _entry(path: Path) -> Entry:
    _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
    return Entry(yaml.safe_load(head)["description"], body)


@cache
def _cut_off() -> list[str]:
    """Returns what takes the network from the command behind it, where the system can do that."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return []
    argv = [unshare, "--map-root-user", "--net"]
    return argv if subprocess.run([*argv, "true"], capture_output=True).returncode == 0 else []


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8")


@dataclass(frozen=True)
class Machine:
    """Is a home that nobody used before, with the clients on its PATH and nothing of our own.

    Args:
        home: The home, an empty folder.
        clients: The folder that the clients are installed in.
    """

    home: Path
    clients: Path

    @property
    def env(self) -> dict[str, str]:
        """Returns all of the environment: no variable of the person who runs the tests is in it."""
        bins = [self.clients / part for part in (NODE_BIN, NPM_BIN, PYTHON_BIN)]
        git = shutil.which("git")
        assert git is not None, "the tests make repositories"
        places = {
            f"XDG_{name}_HOME": str(self.home / f".{name.lower()}")
            for name in ("CONFIG", "DATA", "CACHE", "STATE")
        }
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE)
        return {
            **places,
            **proxies,
            "PATH": os.pathsep.join(map(str, [*bins, Path(git).parent, "/usr/bin", "/bin"])),
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
        }

    def run(self, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
        """Runs a client in a folder, without network; whoever calls judges how it ended."""
        # To files: a client that leaves with its pipe full leaves the rest of its answer behind.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            ended = subprocess.run(
                [*_cut_off(), *argv],
                cwd=folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                check=False,
            )
            said = [_text_of(each) for each in (out, err)]
        return subprocess.CompletedProcess(ended.args, ended.returncode, *said)

    def ask(self, folder: Path, *argv: str) -> str:
        """Runs a client that has to succeed and returns what it printed."""
        done = self.run(folder, *argv)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def ask_json(self, folder: Path, *argv: str) -> Any:
        """Returns the JSON that a client printed; it has to succeed."""
        return json.loads(self.ask(folder, *argv))

    def start(self, folder: Path, *argv: str, loopback: bool = False) -> subprocess.Popen[str]:
        """Starts a client that talks over its streams or, with `loopback`, at a local address."""
        return subprocess.Popen(
            argv if loopback else [*_cut_off(), *argv],
            cwd=folder,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )


def make_repository(folder: Path) -> Path:
    """Makes a folder a git repository with all of it committed."""
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for argv in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "all"]):
        subprocess.run(["git", *who, *argv], cwd=folder, check=True)
    return folder


def copy_tracked(root: Path, folder: Path) -> Path:
    """Copies a work tree without what git ignores, and commits the copy."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(argv, cwd=root, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listing.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name, follow_symlinks=False)
    return make_repository(folder)


def copy_agent_files(pack: Path, folder: Path) -> Path:
    """Copies what clients read of a repository, to change it, and commits the copy."""
    folder.mkdir()
    for name in AGENT_FILES:
        if (pack / name).is_dir():
            shutil.copytree(pack / name, folder / name, symlinks=True)
        elif (pack / name).exists():
            shutil.copy2(pack / name, folder / name, follow_symlinks=False)
    return make_repository(folder)
