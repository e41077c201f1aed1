"""Finds the interpreter of a job, and asks it for its versions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaffold.analysis.process import run_text
from scaffold.errors import RequestError

PROBE = Path(__file__).parents[1] / "runners" / "rank_recorder" / "env_probe.py"
TIMEOUT_S = 120


@dataclass(frozen=True)
class Interpreter:
    """An interpreter, and why it was chosen."""

    path: str
    why: str


def find_interpreter(asked: str | None, argv: Sequence[str], root: Path) -> Interpreter:
    """Return the interpreter that the ranks of a job would run in.

    In this order: --python, the one that the launcher's script names, `.venv` of the folder, the
    active environment, `python3`.

    Raises:
        RequestError: The one that was asked for does not exist.
    """
    if asked is not None:
        found = shutil.which(asked)
        if found is None:
            raise RequestError(
                f"there is no interpreter {asked!r}", code="program_missing", hint="fix --python"
            )
        return Interpreter(found, "--python")
    launcher = shutil.which(argv[0]) if argv else None
    # A torchrun installed by pip names the interpreter of its environment in its first line.
    named = _named_by(launcher) if launcher else None
    if named:
        return Interpreter(named, f"the first line of {launcher}")
    places = [(root / ".venv", "the folder's .venv")]
    places += [
        (Path(os.environ[name]), f"the active environment, {name}")
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX")
        if os.environ.get(name)
    ]
    for folder, why in places:
        python = folder / "bin" / "python"
        if python.is_file():
            return Interpreter(str(python), why)
    return Interpreter(shutil.which("python3") or sys.executable, "python3 on PATH")


def _named_by(script: str) -> str | None:
    try:
        with open(script, "rb") as file:
            # Bounded, as the launcher may be a binary without any line end.
            line = file.readline(500)
    except OSError:
        return None
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    is_python = bool(words) and Path(words[0]).name.startswith("python")
    return words[0] if is_python and Path(words[0]).is_file() else None


def ask_versions(python: Interpreter) -> dict[str, Any]:
    """Return the versions that an interpreter reports; under "error", why it reports none."""
    try:
        argv = [python.path, str(PROBE)]
        done = run_text(argv, None, TIMEOUT_S, PYTHONDONTWRITEBYTECODE="1")
        # Packages may print something when they are imported, before the answer.
        return json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return {"error": f"it cannot be asked: {error}"}
