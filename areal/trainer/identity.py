"""What a run is: its name for life, its configuration, its code."""

from __future__ import annotations

import hashlib
import json
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_GIT_SECONDS = 10


class RunIdentity(NamedTuple):
    """The identity of a run; a resumed one keeps its id.

    Args:
        run_id: 12 hexadecimal digits, made when the run began.
        config_hash: Of the whole configuration, defaults included.
        commit: Of the repository of the working folder, with "+" for changes that are not
            committed; None outside of one.
    """

    run_id: str
    config_hash: str
    commit: str | None


def new_run_id() -> str:
    """Return the id of a run that begins."""
    return uuid.uuid4().hex[:12]


def identify(run_id: str, plain: Mapping[str, Any]) -> RunIdentity:
    """Return the identity of a run.

    Args:
        run_id: Its id.
        plain: Its configuration as plain data.
    """
    text = json.dumps(plain, sort_keys=True, default=str)
    return RunIdentity(run_id, hashlib.sha256(text.encode()).hexdigest()[:12], _commit(Path.cwd()))


def _commit(folder: Path) -> str | None:
    head = _git(folder, "rev-parse", "--short=12", "HEAD")
    if not head:
        return None
    return head + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")


def _git(folder: Path, *argv: str) -> str:
    # Neither hooks nor a monitor of the repository run for this.
    command = ["git", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", *argv]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=_GIT_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
