"""Commands that are measured in turn, each as a process with everything that it starts."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import ProcessError

METER = Path(__file__).with_name("meter.py")
_TAIL = 1500


@dataclass(frozen=True)
class Usage:
    """What one run took: CPU seconds of the process tree, MB of its largest process."""

    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Scene:
    """One command.

    Args:
        command: The command line of a round; rounds are counted from 0, which is the warm-up.
        folder: Where it runs.
        env: What it needs in its environment besides.
        prepare: Runs before it and is not measured.
    """

    command: Callable[[int], list[str]]
    folder: Path
    env: Mapping[str, str] | None = None
    prepare: Callable[[int], object] | None = None


class Stage:
    """Runs commands with the same surroundings.

    Args:
        scratch: A folder for what they leave behind; their home folder too.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self._home = scratch / "home"
        self._home.mkdir()
        here = str(Path(sys.executable).parent)
        self._env = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
        } | {
            "HOME": str(self._home),
            "PATH": os.pathsep.join([here, os.environ.get("PATH", os.defpath)]),
            # An installed package has its bytecode, and so has everything here after the warm-up.
            "PYTHONPYCACHEPREFIX": str(scratch / "bytecode"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
        }

    def run(
        self, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
    ) -> Usage:
        """Run a command to its end.

        Raises:
            ProcessError: It failed; the message ends with what it wrote.
        """
        figures = self.scratch / "figures.txt"
        ran = subprocess.run(
            [sys.executable, "-I", "-S", str(METER), str(figures), *command],
            cwd=folder,
            env={**self._env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if not ran.returncode:
            status, cpu_s, peak_mb = figures.read_text().split()
            if status == "0":
                return Usage(float(cpu_s), float(peak_mb))
        tail = ran.stdout.decode("utf-8", "replace")[-_TAIL:]
        raise ProcessError(f"{' '.join(command[:6])} ... failed:\n{tail}")

    def measure(self, scenes: Mapping[str, Scene], rounds: int) -> dict[str, list[Usage]]:
        """Measure scenes in turn; each round starts with another, and the first does not count."""
        names = list(scenes)
        found: dict[str, list[Usage]] = {name: [] for name in names}
        for i in range(rounds + 1):
            start = i % len(names)
            for name in names[start:] + names[:start]:
                scene = scenes[name]
                if scene.prepare is not None:
                    scene.prepare(i)
                usage = self.run(scene.command(i), scene.folder, scene.env)
                if i:
                    found[name].append(usage)
        return found


def cpu_median(runs: Sequence[Usage]) -> float:
    """Return the median of the CPU seconds."""
    return statistics.median(run.cpu_s for run in runs)


def cpu_least(runs: Sequence[Usage]) -> float:
    """Return the least of the CPU seconds: what a busy machine disturbs least."""
    return min(run.cpu_s for run in runs)


def describe(runs: Sequence[Usage], base: Sequence[Usage]) -> str:
    """Return the figures behind a multiple, for a note."""
    least = cpu_least(runs)
    return (
        f"{cpu_median(runs) * 1e3:.1f} ms CPU, least {least * 1e3:.1f} ms "
        f"({least / cpu_least(base):.2f}x the least of pass), {len(runs)} runs, "
        f"peak {max(run.peak_mb for run in runs):.0f} MB"
    )
