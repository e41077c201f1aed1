"""The target's own formatters and import sorters, run on files before they are written.

They run in a folder of links to the target's files, in which what is to be written is a real file.
So they see the target's configuration and all of its packages, the new modules too, without which
import sorters take it for third-party, and nothing of the target changes. What only the repository
names, such as a script of its own, does not run before somebody trusts it.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from scaffold.target.trust import Trust

TIMEOUT_S = 60.0
MAX_RUNS = 3
"""How often a formatter is run on what it wrote."""
PYPROJECT = "pyproject.toml"
VENV = ".venv"
MAX_SAID = 300
"""How much is repeated of a formatter's output when it fails."""

PYTHON = (".py", ".pyi")
MARKDOWN = (".md", ".markdown")

CONFIG_NAMES = (
    "pyproject.toml", "setup.cfg", "tox.ini", "ruff.toml", ".ruff.toml", ".isort.cfg",
    ".style.yapf", ".editorconfig", ".mdformat.toml", ".prettierrc", ".prettierrc.json",
    ".prettierrc.yaml", ".flake8",
)  # fmt: skip
"""Files above the target in which formatters look for their configuration."""

KNOWN = ("black", "isort", "mdformat", "ruff", "yapf")
"""Formatters that run unasked: by these names they are no code of the repository's."""

UNSETTLED = ("isort",)
"""Formatters that may change again what they wrote, as isort does with long imports."""

READING = (
    "--config", "--exclude", "--extend-exclude", "--settings", "--settings-file", "--settings-path",
    "--skip", "--sp", "--src", "--style",
)  # fmt: skip
"""Options whose value may be a path, as they only read it or leave it out."""

WRITING = re.compile(r"--(?:output-file|cache-dir)\b|-\w*o")
"""Options that have a formatter write elsewhere than into the files that it is given."""

HOOKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "black": (("black", "-q"), PYTHON),
    "isort": (("isort", "-q"), PYTHON),
    "mdformat": (("mdformat",), MARKDOWN),
    "ruff": (
        ("ruff", "check", "--fix", "--exit-zero", "-q", "--no-cache", "--force-exclude"),
        PYTHON,
    ),
    "ruff-check": (
        ("ruff", "check", "--fix", "--exit-zero", "-q", "--no-cache", "--force-exclude"),
        PYTHON,
    ),
    "ruff-format": (("ruff", "format", "-q", "--no-cache", "--force-exclude"), PYTHON),
    "yapf": (("yapf", "-i"), PYTHON),
}
"""Hook ids of pre-commit to what runs for them, and on which files."""


@dataclass(frozen=True)
class Formatter:
    """One command that rewrites the files named behind it.

    Args:
        argv: Its argument list, without the files.
        suffixes: The files that it is for; empty for all.
        why: Where it was found.
    """

    argv: tuple[str, ...]
    suffixes: tuple[str, ...]
    why: str

    @property
    def text(self) -> str:
        """The command as one line, from which its arguments can be told apart."""
        return shlex.join(self.argv)

    @property
    def is_known(self) -> bool:
        return self.argv[0] in KNOWN

    def is_harmless(self, root: Path) -> bool:
        """Return whether it is known and can write to nothing but the files behind it.

        A repository may name further files or folders among its arguments, also by way of links.
        """
        if not self.is_known:
            return False
        subcommand = 2 if self.argv[0] == "ruff" else 1
        before = ""
        for each in self.argv[subcommand:]:
            if WRITING.match(each):
                return False
            is_path = bool(re.search(r"[/\\~]|^\.\.?$|^@", each)) or (root / each).exists()
            if not each.startswith("-") and is_path and before not in READING:
                return False
            before = each
        return True

    def takes(self, path: str) -> bool:
        """Return whether it is for a file."""
        if self.suffixes or not self.is_known:
            return not self.suffixes or path.endswith(self.suffixes)
        return path.endswith(MARKDOWN if self.argv[0] == "mdformat" else PYTHON)


def find_formatters(root: Path, configured: Sequence[Sequence[str]] = ()) -> tuple[Formatter, ...]:
    """Return what formats a repository's files, in the order in which it runs.

    Args:
        root: The target's folder.
        configured: The value of ``[tool.scaffold].format``; it outweighs all else.
    """
    if configured:
        return tuple(Formatter(tuple(argv), (), "[tool.scaffold].format") for argv in configured)
    for folder in _up_to_git(root):
        hooks = _from_hooks(folder / ".pre-commit-config.yaml")
        # pre-commit names what really runs; a table in pyproject.toml only suggests it.
        found = hooks or _from_pyproject(folder / "pyproject.toml")
        if found:
            return found
    return ()


def format_files(
    root: Path, files: Mapping[str, bytes], formatters: Sequence[Formatter]
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return files as the target's formatters leave them.

    Args:
        root: The target's folder.
        files: Path, relative to the root, to bytes; nothing needs to be there yet.
        formatters: What runs.

    Returns:
        The files, and warnings about what was not run; such files come back as they were.
    """
    wanted = [each for each in formatters if any(each.takes(path) for path in files)]
    if not wanted:
        return dict(files), ()
    import tempfile  # 3 ms, and so with the other imports below

    warnings: list[str] = []
    is_asked = (root / VENV).is_dir() or not all(each.is_harmless(root) for each in wanted)
    trust = Trust.read(root) if is_asked else Trust()
    with tempfile.TemporaryDirectory(prefix="scaffold-format-") as name:
        overlay = _Overlay(root, Path(name), files)
        for formatter in wanted:
            problem = overlay.run(
                formatter, [path for path in files if formatter.takes(path)], trust
            )
            if problem:
                warnings.append(f"`{formatter.text}` ({formatter.why}) {problem}")
        return overlay.read(files), tuple(warnings)


class _Overlay:
    """A folder that looks to a formatter as the target does, with some files written over it."""

    def __init__(self, root: Path, folder: Path, files: Mapping[str, bytes]) -> None:
        self.root = root
        # Formatters look for their configuration upwards, as far as the git root.
        top = _up_to_git(root)[-1]
        inside = root.relative_to(top)
        self.at = folder / inside
        own = {(inside / path).as_posix() for path in files}
        folders = {parent for path in own for parent in PurePosixPath(path).parents}
        for each in sorted(folders):
            (folder / each).mkdir(exist_ok=True)
            self._link(top / each, folder / each, {str(path) for path in folders} | own, each)
        if (top / ".git").exists():
            # A formatter may look no further for its configuration than to here. As it is empty,
            # git takes the folder for no work tree.
            (folder / ".git").mkdir()
        for path, data in files.items():
            (self.at / path).write_bytes(data)

    def _link(self, real: Path, twin: Path, own: set[str], place: PurePosixPath) -> None:
        names: Iterable[str] = ()
        if not real.is_relative_to(self.root):
            # Beside a target there may be a whole company.
            names = [name for name in CONFIG_NAMES if (real / name).is_file()]
        elif real.is_dir():
            names = os.listdir(real)
        for name in names:
            # Not git's own folder: nobody shall take this one for a work tree.
            if (place / name).as_posix() not in own and name != ".git":
                os.symlink(real / name, twin / name)

    def run(self, formatter: Formatter, paths: list[str], trust: Trust) -> str:
        """Run one formatter; returns what went wrong, or ""."""
        import subprocess

        if not formatter.is_harmless(self.root) and formatter.text not in trust.commands:
            danger = "write to other files" if formatter.is_known else "be any program"
            return (
                f"is not run: this repository names it, and it may {danger}. Read it, then "
                "`scaffold trust`, or leave it out with --no-format"
            )
        program = _find_program(formatter.argv[0], self.root, trust)
        if not program:
            # A table in pyproject.toml is a guess; the other places name what has to run.
            return "" if formatter.why == PYPROJECT else "is not installed; run it yourself"
        before = was = self.read(paths)
        argv = [*program, *formatter.argv[1:], *paths]
        try:
            for _ in range(MAX_RUNS):
                subprocess.run(
                    argv, cwd=self.at, stdin=subprocess.DEVNULL, capture_output=True,
                    timeout=TIMEOUT_S, check=True,
                )  # fmt: skip
                if formatter.argv[0] not in UNSETTLED or was == (was := self.read(paths)):
                    break
            return ""
        except subprocess.CalledProcessError as error:
            said = " ".join((error.stderr or error.output).decode("utf-8", "replace").split())
            problem = said[:MAX_SAID] or f"status {error.returncode}"
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        for path, data in before.items():
            (self.at / path).write_bytes(data)
        return f"failed: {problem}; run it yourself"

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        return {path: (self.at / path).read_bytes() for path in paths}


def _up_to_git(root: Path) -> list[Path]:
    """Return a folder and those above it up to the git root; alone where there is no git."""
    folders: list[Path] = []
    for folder in (root, *root.parents):
        folders.append(folder)
        if (folder / ".git").exists():
            return folders
    return [root]


def _find_program(name: str, root: Path, trust: Trust) -> list[str]:
    """Return how to start a program of a trusted environment, of this one, or of PATH.

    It may be a module of this environment alone, as where that is a folder on PYTHONPATH.
    """
    import importlib.util
    import shutil

    folders = [root / VENV / ("Scripts" if os.name == "nt" else "bin")] if trust.venv else []
    # Installed beside this tool, a formatter need not be on PATH.
    folders.append(Path(sys.executable).parent)
    # A relative folder on PATH would be one of the repository's.
    folders += [Path(part) for part in os.get_exec_path() if os.path.isabs(part)]
    found = (shutil.which(name, path=str(folder)) for folder in folders)
    program = next((program for program in found if program), None)
    if program:
        return [program]
    is_module = name in KNOWN and importlib.util.find_spec(name) is not None
    # Without -P a black.py of the repository, where it runs, would be the module.
    return [sys.executable, "-P", "-m", name] if is_module else []


def _from_hooks(path: Path) -> tuple[Formatter, ...]:
    """Return the formatters among pre-commit's hooks, with their arguments.

    The file is YAML, of which the forms that pre-commit's own documents use are read.
    """
    text = _text_or_empty(path)
    found: list[Formatter] = []
    # Each hook is an item `- id: ruff` with its keys below it.
    for block in re.split(r"^\s*-\s+(?=id:)", text, flags=re.MULTILINE)[1:]:
        hook = re.match(r"id:\s*['\"]?([\w-]+)", block)
        if hook and hook[1] in HOOKS:
            argv, suffixes = HOOKS[hook[1]]
            argv = (*argv, *_added(argv, _hook_args(block)))
            found.append(Formatter(argv, suffixes, path.name))
    return tuple(found)


def _hook_args(block: str) -> list[str]:
    # `args: [--fix, --line-length=100]`, or a list of items below `args:`.
    flow = re.search(r"^\s*args:\s*\[([^\]]*)\]", block, re.MULTILINE)
    if flow:
        return [item.strip().strip("'\"") for item in flow[1].split(",") if item.strip()]
    rows = re.search(r"^\s*args:\s*\n((?:\s*-\s+[^\n]+\n?)+)", block, re.MULTILINE)
    items = re.findall(r"-\s+([^\n#]+)", rows[1]) if rows else []
    return [item.strip().strip("'\"") for item in items]


def _added(argv: Sequence[str], args: Sequence[str]) -> list[str]:
    """Return a hook's arguments, without those that report instead of rewriting."""
    reports = ("--check", "--diff", "--exit-non-zero-on-fix", "--show-fixes", "--output-format")
    return [arg for arg in args if arg not in argv and not arg.startswith(reports)]


def _from_pyproject(path: Path) -> tuple[Formatter, ...]:
    """Return the formatters that have a table in pyproject.toml."""
    try:
        tool = _table(tomllib.loads(_text_or_empty(path)), "tool")
    except tomllib.TOMLDecodeError:
        return ()
    ruff = _table(tool, "ruff")
    lint = _table(ruff, "lint") or ruff
    rules = [*_list(lint, "select"), *_list(lint, "extend-select")]
    # Import order alone: other fixes may remove what the author is going to use.
    sort = ("ruff", "check", "--select", "I", "--fix", "--exit-zero", "-q", "--no-cache")
    found = [Formatter(HOOKS["isort"][0], PYTHON, path.name)] if "isort" in tool else []
    if any(rule == "ALL" or re.fullmatch(r"I\d*", str(rule)) for rule in rules):
        found.append(Formatter(sort, PYTHON, path.name))
    style = "black" if "black" in tool else "yapf" if "yapf" in tool else ""
    style = style or ("ruff-format" if "ruff" in tool else "")
    if style:
        found.append(Formatter(HOOKS[style][0], PYTHON, path.name))
    return tuple(found)


def _table(parent: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a table of somebody else's configuration; empty where it is none."""
    value: Any = parent.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(parent: dict[str, Any], key: str) -> list[Any]:
    value: Any = parent.get(key)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text_or_empty(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""
