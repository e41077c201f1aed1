"""`areal` as a process, in a folder of its own, and a checkpoint that several tests start from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_runs import sft_yaml

ROOT = Path(__file__).parents[3]

Areal = Callable[..., subprocess.CompletedProcess[str]]


def environment() -> dict[str, str]:
    """Returns the environment of a user whose shell is in another folder, offline, one thread."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    return {**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def command(*argv: Any) -> list[str]:
    # As the installed script does; there may be none where the tests run.
    start = "from areal.trainer.cli import main; main()"
    return [sys.executable, "-c", start, *map(str, argv)]


@pytest.fixture(scope="session")
def areal() -> Areal:
    """Runs `areal` to its end."""

    def run(*argv: Any, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*argv),
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture(scope="session")
def warm_model(tmp_path_factory: pytest.TempPathFactory, areal: Areal) -> Path:
    """Trains a model for a moment with the real command and returns its folder."""
    folder = tmp_path_factory.mktemp("warm")
    done = areal("train", "-c", sft_yaml(folder, total_train_steps=20), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "e" / "t" / "model"
