"""Peak memory of forward and backward, in a process of its own: one side, one type, one fill."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.archon.sides import OPTIONS, SIDES, Sizes, make_batch
from benchmarks.clock import peak_memory_mb, use_one_thread


def main(argv: Sequence[str] | None = None) -> None:
    """Write by how many MB the process grew while the model was trained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("side", choices=sorted(SIDES | OPTIONS))
    parser.add_argument("dtype", choices=["float32", "bfloat16"])
    parser.add_argument("fill", type=float)
    parser.add_argument("sizes", help="JSON of the fields of Sizes")
    options = parser.parse_args(argv)
    use_one_thread()
    sizes, cpu = Sizes(**json.loads(options.sizes)), torch.device("cpu")
    step = (SIDES | OPTIONS)[options.side](sizes, getattr(torch, options.dtype), cpu)
    # A short sequence first: what libraries allocate once is no activation.
    short = make_batch(Sizes(**{**vars(sizes), "num_sequences": 2, "padded_length": 8}), 1, 0, cpu)
    step(short)
    before = _resident_mb()
    step(make_batch(sizes, options.fill, 0, cpu))
    options.result.write_text(json.dumps({"mb": peak_memory_mb() - before}))


def _resident_mb() -> float:
    """Return the present resident size in MB, and lets the peak be counted anew from here.

    Source:
        ``VmRSS`` and ``clear_refs`` of proc(5).
    """
    Path("/proc/self/clear_refs").write_text("5")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmRSS")


if __name__ == "__main__":
    main()
