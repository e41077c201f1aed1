"""Starts the processes of a gloo group; torchrun would import torch once more to do so."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from areal.utils.network import find_free_ports


def run_ranks(
    number: int, argv: Sequence[str], env: Mapping[str, str], timeout_s: int = 280
) -> None:
    """Run a Python command as each rank of a group, and end the others once one has failed.

    Args:
        number: Of processes.
        argv: What follows the interpreter.
        env: Of each, beside what ``init_process_group`` reads.
        timeout_s: For all of it.

    Raises:
        AssertionError: One failed or time is up; the message has the end of what each printed.
    """
    group = {"WORLD_SIZE": str(number), "LOCAL_WORLD_SIZE": str(number), "OMP_NUM_THREADS": "1"}
    group |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_free_ports(1)[0])}
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, f"rank-{rank}.log") for rank in range(number)]
        processes = []
        for rank, log in enumerate(logs):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            with log.open("wb") as output:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, *argv],
                        env={**env, **group, **own},
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )
        give_up_at = time.monotonic() + timeout_s
        while None in (states := [process.poll() for process in processes]):
            if any(states) or time.monotonic() > give_up_at:
                break
            time.sleep(0.02)
        for process in processes:
            process.kill()  # nothing where it has ended
            process.wait()
        assert not any(states), "\n".join(log.read_text()[-4000:] for log in logs)
        assert None not in states, f"{timeout_s} s are over: " + logs[0].read_text()[-4000:]
