"""Runs code of the target in a process that can always be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scaffold.analysis.process import end_like_ctrl_c, running

TAIL_CHARS = 4000
"""How much of a process's output findings may quote."""


@dataclass(frozen=True)
class Finished:
    """How a process ended; ``status`` None means that it ran out of time and was killed."""

    status: int | None
    output: str

    def describe(self) -> str:
        """Return the end in words."""
        if self.status is None:
            return "was killed at the time limit"
        if self.status >= 0:
            return f"ended with status {self.status}"
        try:
            return f"was killed by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"was killed by signal {-self.status}"

    def last_lines(self, count: int = 12) -> str:
        """Return the end of the output."""
        return "\n".join(self.output.strip().splitlines()[-count:])


def run_limited(
    argv: Sequence[str], root: Path, timeout_s: float, extra_env: dict[str, str]
) -> Finished:
    """Run a program in the target's folder, with everything it starts, until the limit at most.

    Args:
        argv: The program.
        root: The target's folder.
        timeout_s: When it is killed.
        extra_env: Environment variables beside those of `target_environment`.
    """
    end_like_ctrl_c()
    env = {**target_environment(root), **extra_env}
    # A file and no pipe: what the program leaves running must not keep the reader waiting.
    with tempfile.TemporaryFile() as output:
        with running(argv, cwd=root, env=env, stdout=output, stderr=subprocess.STDOUT) as process:
            try:
                status: int | None = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                status = None
        output.seek(0, os.SEEK_END)
        # Only the end is read: a loop may have printed gigabytes.
        output.seek(max(0, output.tell() - TAIL_CHARS))
        return Finished(status, output.read().decode("utf-8", "replace"))


def target_environment(root: Path) -> dict[str, str]:
    """Return the environment of the target's code: importable, offline, leaving no traces."""
    env = dict(os.environ)
    paths = [str(root), *filter(None, [env.get("PYTHONPATH")])]
    env["PYTHONPATH"] = os.pathsep.join(paths)
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["CUDA_VISIBLE_DEVICES"] = ""  # a tiny model needs no accelerator, and others may use it
    env.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    env.setdefault("OMP_NUM_THREADS", "1")
    return env
