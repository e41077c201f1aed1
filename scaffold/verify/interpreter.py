"""Which Python runs the target's code."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scaffold.analysis.process import run_text
from scaffold.errors import TargetError
from scaffold.target.target import Target

# `uv run` may build the environment first.
PROBE_TIMEOUT_S = 60
PROBED = ("areal", "pytest", "torch", "transformers", "datasets")
"""The packages that levels need."""

CHECKERS = ("mypy", "pyright", "ruff")
"""The checkers that may be installed beside them."""

# The runners use `X | Y` in isinstance.
OLDEST = (3, 10)
# find_spec of a top-level name looks and does not import.
PROBE = (
    "import importlib.util as u, json, sys; sys.path.insert(0, ''); "
    "print(json.dumps([list(sys.version_info[:3]), "
    f"[n for n in {PROBED + CHECKERS} if u.find_spec(n)]]))"
)


@dataclass(frozen=True)
class Interpreter:
    """A Python that can run the target's code.

    Args:
        argv: How to start it.
        why: Where it was found.
        version: Such as "3.11.4".
        packages: Which of the packages that levels need it has.
    """

    argv: tuple[str, ...]
    why: str
    version: str = ""
    packages: frozenset[str] = frozenset()

    def lack(self, names: Iterable[str]) -> str:
        """Return what to say of the packages that it has not, "" where it has all of them."""
        missing = ", ".join(sorted(set(names) - self.packages))
        hint = "name an interpreter that has it with --python EXE"
        return f"{self.argv[0]} has no {missing}; {hint}" if missing else ""

    def describe(self) -> str:
        """Return the choice in one line."""
        return f"{' '.join(self.argv)} ({self.version}; {self.why})"


def find_interpreter(target: Target, asked: str | None) -> Interpreter:
    """Return the interpreter that is to run the target's code.

    In this order: --python, [tool.scaffold].python, .venv or uv, the active environment.

    Raises:
        TargetError: The one that was named, or every other, cannot be run.
    """
    return _probed(_choose(target, asked), target.root)


def _choose(target: Target, asked: str | None) -> Interpreter:
    if asked:
        return Interpreter((_located(asked, Path.cwd()),), "--python")
    if target.python:
        return Interpreter((_located(target.python, target.root),), "[tool.scaffold].python")
    own = _in_environment(target.root / ".venv")
    if own:
        return Interpreter((own,), "the target's .venv")
    uv = shutil.which("uv")
    # --frozen keeps uv from renewing the lock file of the target.
    if uv and (target.root / "uv.lock").is_file():
        return Interpreter(
            (uv, "run", "--frozen", "--project", str(target.root), "python"), "uv.lock"
        )
    return _active()


def _active() -> Interpreter:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        found = _in_environment(Path(os.environ[variable])) if os.environ.get(variable) else None
        if found:
            return Interpreter((found,), f"the active environment, {variable}")
    # Installed by pipx, the tool's own environment is nobody's choice; beside areal, it is one.
    if importlib.util.find_spec("areal") is None:
        on_path = shutil.which("python3") or shutil.which("python")
        if on_path:
            return Interpreter((on_path,), "PATH")
    return Interpreter((sys.executable,), "the environment of scaffold")


def _in_environment(folder: Path) -> str | None:
    for place in ("bin/python", "Scripts/python.exe"):
        if (folder / place).exists():
            return str(folder / place)
    return None


def _located(name: str, folder: Path) -> str:
    """Return a program: a path from a folder, an environment's folder, or a name on PATH."""
    path = folder / name
    if path.is_dir():
        return _in_environment(path) or str(path)
    return str(path) if path.exists() else shutil.which(name) or name


def _probed(found: Interpreter, root: Path) -> Interpreter:
    argv = [*found.argv, "-c", PROBE]
    try:
        done = run_text(argv, root, PROBE_TIMEOUT_S)
        done.check_returncode()
        # A sitecustomize may print lines of its own before.
        version, packages = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise TargetError(
            f"{' '.join(found.argv)} ({found.why}) cannot be run: {_cause(error)}",
            code="target_invalid",
            hint="name the interpreter that has the training package with --python EXE",
        ) from error
    if tuple(version) < OLDEST:
        raise TargetError(
            f"{found.argv[0]} is Python {'.'.join(map(str, version))}; "
            f"{'.'.join(map(str, OLDEST))} is the oldest that works",
            code="target_invalid",
            hint="name another one with --python EXE",
        )
    text = ".".join(map(str, version))
    return Interpreter(found.argv, found.why, text, frozenset(packages))


def _cause(error: Exception) -> str:
    output = str(getattr(error, "stderr", None) or "").strip()
    return output.splitlines()[-1] if output else f"{type(error).__name__}: {error}"
